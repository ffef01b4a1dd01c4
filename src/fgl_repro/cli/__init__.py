"""Command-line tools. They import torch, W&B and pandas only once they need them."""

from __future__ import annotations

import argparse
import atexit
import gc
import io
import os
import re
import signal
import stat
import sys
import threading
from collections.abc import Callable
from typing import Any, NoReturn

from fgl_repro import __version__
from fgl_repro.core.errors import Terminated, UserError, nearest, sentence

MISTAKE, INTERRUPTED, UNREAD = 2, 130, 141
"""Exit statuses; the last is that of ``yes | head``: nobody reads on, so what was asked for may not have been done."""

VERSION = f"fgl_repro {__version__}"

atexit.register(gc.freeze)  # a process that ends need not look for garbage in torch first: that took it half a second


class Parser(argparse.ArgumentParser):
    """Refuses a command line in one sentence, as everything else is refused; that of a whole tool tells its version."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if self.add_help and " " not in self.prog:  # which the parser of a command has
            self.add_argument("--version", action="version", version=VERSION)

    def error(self, message: str) -> NoReturn:
        if matched := re.search(r"invalid choice: '(.*?)'(?= \(choose from (.*)\))", message):
            known = re.findall(r"[\w-]+", matched[2])
            message = message.replace(matched[0], matched[0] + nearest(matched[1], known), 1)
        raise UserError(f"{message} (see {self.prog} --help)")


def exit_status(tool: str, action: Callable[[], int], kept: str = "finished runs are") -> int:
    """Run ``action``, the one place where what goes wrong becomes a line on stderr and an exit status.

    Args:
        kept: What is not lost when the user stops it.

    Returns:
        The action's own status; 2 for a ``UserError`` and for what the system refuses (``OSError``); 130, 143 and 129
        after Ctrl-C, SIGTERM and SIGHUP (a closed terminal); 141 where the reader of our output has gone, as ``head``
        does. Any other exception is a bug, and passes.
    """
    _heed_signals()
    _mend_streams()
    full_traceback = bool(os.environ.get("HYDRA_FULL_ERROR"))
    try:
        try:
            return action()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        for stream in (sys.stdout, sys.stderr):  # what they still hold is written when the process ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return UNREAD
    except (UserError, OSError) as error:
        if full_traceback:
            raise
        print(f"{tool}: {sentence(error)}", file=sys.stderr)
        return MISTAKE
    except KeyboardInterrupt as error:
        print(f"{tool}: stopped: {kept} kept; start again to do the rest.", file=sys.stderr)
        return error.status if isinstance(error, Terminated) else INTERRUPTED


def _heed_signals() -> None:
    """Have SIGTERM and SIGHUP stop the command as Ctrl-C does."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has SIGHUP
                signal.signal(number, _terminate)


def _mend_streams() -> None:
    """Let output go nowhere where there is none, and stop at no letter."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the shell, as in fgl-table list >&-
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
        if isinstance(stream := getattr(sys, name), io.TextIOWrapper):  # a notebook's is none
            stream.reconfigure(errors="replace")  # where the locale has no sign for a letter, or a file's name is none


def _terminate(number: int, _: object) -> None:
    if number == signal.SIGHUP:
        for stream in (sys.stdout, sys.stderr):
            if stat.S_ISCHR(os.fstat(stream.fileno()).st_mode):  # the terminal is gone, and writing to it would raise
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    raise Terminated(number)
