"""``fgl-data`` as a program; what it does is in the tests of the data."""

from __future__ import annotations

import os
import subprocess
import sys


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from fgl_repro.cli.data import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "sys.exit(any(name in sys.modules for name in ('numpy', 'scipy', 'torch')))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL, env=dict(os.environ))
