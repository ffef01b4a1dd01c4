"""What a user is meant to read: a sentence that names the fix."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches

MEMORY_SIGNS = ("out of memory", "can't allocate memory", "status_alloc_failed", "status_insufficient_resources")
"""What errors of torch and of CUDA's libraries say where memory ran out."""


class UserError(Exception):
    """Something the user can mend; entry points print it on stderr without a traceback and exit with 2."""


class DivergenceError(UserError):
    """Training came to a loss or a validation that is not finite: settings on trial that lead there have lost."""


class Terminated(KeyboardInterrupt):
    """The process was asked to end by another signal, as if by Ctrl-C but with the exit status of that signal."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.status = 128 + number


def nearest(name: str, known: Iterable[str]) -> str:
    """Return `` (did you mean cora?)`` where a known name is close to what was written, else nothing."""
    spelled = {each.lower(): each for each in known}
    near = get_close_matches(name.lower(), list(spelled), 1, 0.8)
    return f" (did you mean {spelled[near[0]]}?)" if near else ""


def first_line(error: BaseException) -> str:
    """Return the first line of what a library or the system says; what follows is advice for programmers."""
    message = str(error)
    if isinstance(error, OSError) and error.strerror:
        message = f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror
    return next(iter(message.strip().splitlines()), type(error).__name__).rstrip(".:? ")


def sentence(error: BaseException) -> str:
    """Tell an exception in one line.

    That is a user's mistake in its own words, what the system refused, or else type, text, notes.
    """
    text = " ".join(str(error).split())
    if isinstance(error, UserError):
        return text if text.endswith("...") else text.rstrip(".") + "."
    if isinstance(error, OSError) and error.strerror:
        if error.errno == errno.ENOENT and error.filename is not None:
            where = "start the command where it lies, or name a place that can be read and written"
            return f"{error.filename}: {error.strerror}: {where}."
        if error.filename is not None:
            return f"{error.filename}: {error.strerror}: name a place that can be read and written, or make room."
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # a library wrote, and does not say where
        return f"{error.strerror}{': make room here, in paths.outputs, FGL_CACHE and for temporary files' * full}."
    return " ".join([f"{type(error).__name__}: {text}", *getattr(error, "__notes__", ())])


@contextmanager
def as_user_error() -> Iterator[None]:
    """Make what the system refuses a :class:`UserError`, where nobody else tells it in a sentence."""
    try:
        yield
    except OSError as error:
        raise UserError(sentence(error)) from error


def out_of_memory(error: BaseException) -> bool:
    """Tell whether an exception says that memory ran out, on the host or on a GPU."""
    named = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return named or (isinstance(error, RuntimeError) and any(sign in str(error).lower() for sign in MEMORY_SIGNS))
