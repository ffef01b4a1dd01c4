"""What the shell completes after ``eval "$(fgl-table completion bash)"``."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from fgl_repro.cli import data, table
from fgl_repro.config import options
from fgl_repro.data import NAMES
from fgl_repro.tables import load


def completed(script: str, function: str, *words: str) -> list[str]:
    """What bash offers for the last of ``words``."""
    if shutil.which("bash") is None:
        pytest.skip("no bash")
    typed = " ".join(f"'{word}'" for word in words)
    line = f"COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; {function}; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    done = subprocess.run(["bash", "-c", f"{script}\n{line}"], capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.fixture(scope="module")
def script() -> str:
    import contextlib
    import io

    with contextlib.redirect_stdout(out := io.StringIO()):
        assert table.main(["completion", "bash"]) == 0
    return out.getvalue()


def test_commands_tables_and_options(script: str) -> None:
    offered = completed(script, "_shtab_fgl_table", "fgl-table", "comp")
    assert offered == ["compare", "completion"]
    assert set(completed(script, "_shtab_fgl_table", "fgl-table", "run", "")) >= {*load.names(), *load.papers()}
    assert completed(script, "_shtab_fgl_table", "fgl-table", "run", "fedlog/1", "--proto") == ["--protocol"]


def test_names_behind_options(script: str) -> None:
    words = ("fgl-table", "run", "fedlog/1", "--methods", "fedp")
    assert completed(script, "_shtab_fgl_table", *words) == [n for n in options("method") if n.startswith("fedp")]


def test_data_sets(capsys: pytest.CaptureFixture[str]) -> None:
    assert data.main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    assert set(completed(script, "_shtab_fgl_data", "fgl-data", "fetch", "")) >= {"all", *NAMES}


def test_zsh_has_a_script_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert table.main(["completion", "zsh"]) == 0
    assert "#compdef fgl-table" in (out := capsys.readouterr().out)
    assert "fedlog/1" in out
