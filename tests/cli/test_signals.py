"""What a terminal does to a command: closed, or of few letters; how sweeps are stopped is in the tests of sweeps."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fgl_repro.cli import exit_status

SOURCE = str(Path(__file__).parents[2] / "src")
WAITING = """
import signal, sys
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
from fgl_repro.cli import exit_status
def wait():
    print("ready", flush=True)
    try:
        signal.pause()
    finally:
        print("a bar is taken away", file=sys.stderr, flush=True)
sys.exit(exit_status("tool", wait))
"""


def test_a_closed_terminal_ends_a_command_though_nothing_can_be_written_any_more() -> None:
    child, terminal = pty.fork()
    if child == 0:
        os.execve(sys.executable, [sys.executable, "-c", WAITING], os.environ | {"PYTHONPATH": SOURCE})
    assert b"ready" in os.read(terminal, 100)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 129


def test_under_nohup_a_closed_terminal_ends_nothing() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert exit_status("tool", lambda: 0) == 0
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


SPEAKING = """
import sys
from fgl_repro.cli import exit_status
from fgl_repro.core.errors import UserError
def speak():
    print("86.0 \\u00b1 1.2, " + sys.argv[1])
    raise UserError("Gr\\u00f6\\u00dfe")
sys.exit(exit_status("tool", speak))
"""


@pytest.mark.parametrize(
    ("encoding", "said"),
    [("ascii", b"86.0 ? 1.2, ?"), ("latin-1", b"86.0 \xb1 1.2, ?"), ("utf-8", "86.0 ± 1.2, ?".encode())],
)
@pytest.mark.parametrize("closed", ["", " 2>&-"])
def test_letters_that_the_locale_lacks_become_question_marks(encoding: str, said: bytes, closed: str) -> None:
    """The argument is no UTF-8, as the name of a file may be."""
    environment = os.environ | {"PYTHONPATH": SOURCE, "PYTHONIOENCODING": f"{encoding}:strict", "PYTHONUTF8": "0"}
    command = ["sh", "-c", f'exec "$0" -c "$1" "$2"{closed}', sys.executable, SPEAKING, b"\xff"]
    done = subprocess.run(command, env=environment | {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}, capture_output=True)
    assert (done.returncode, done.stdout) == (2, said + b"\n")
    assert done.stderr == (b"" if closed else "tool: Größe.\n".encode(encoding, "replace"))
