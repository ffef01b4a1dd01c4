"""Puts the yaml files of ``conf/`` into wheels as ``fgl_repro/conf``; everything else is in pyproject.toml."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

CONF = Path(__file__).parent / "conf"


class BuildWithConf(build_py):
    """An editable install reads ``conf/`` where it lies, a built one needs its own copy."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            shutil.copytree(CONF, Path(self.build_lib, "fgl_repro", "conf"), dirs_exist_ok=True)


setup(cmdclass={"build_py": BuildWithConf})
