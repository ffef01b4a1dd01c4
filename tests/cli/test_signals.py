"""What a closed terminal does to a command; sweeps that are told to stop are in the tests of sweeps."""

from __future__ import annotations

import os
import pty
import signal
import sys
from pathlib import Path

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
