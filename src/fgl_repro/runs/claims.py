"""Claim files: several shells, on one machine or on a shared disk, work through one sweep without doing a run twice."""

from __future__ import annotations

import json
import os
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from fgl_repro.core.files import alive, birth, host, locked, set_aside

HEARTBEAT = 60.0
STALE_AFTER = 15 * HEARTBEAT  # seconds without a sign of life from another host
BLANK_AFTER = 60.0  # seconds after which an unreadable claim is one whose writer was killed
LOCK = ".claims.lock"


@dataclass(frozen=True)
class Claim:
    """The right to compute one run, held by a living process. As a context manager it shows signs of life."""

    path: Path
    pid: int
    _done: threading.Event = field(default_factory=threading.Event)

    def release(self) -> None:
        """Give the claim up; one that somebody else has taken over is left alone."""
        found = _holder(self.path)
        with suppress(OSError):
            if found is not None and (found.host, found.pid) == (host(), self.pid):
                self.path.unlink(missing_ok=True)

    def __enter__(self) -> Claim:
        threading.Thread(target=self._show_life, daemon=True).start()
        return self

    def _show_life(self) -> None:
        """Tell other hosts that the work goes on."""
        while not self._done.wait(HEARTBEAT):
            with suppress(OSError):
                os.utime(self.path)

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self.release()


class _Holder(NamedTuple):
    pid: int
    host: str
    birth: str | None


def _holder(path: Path) -> _Holder | None:
    """Read who wrote a claim; None if it is gone or does not say."""
    try:
        content = json.loads(path.read_bytes())
        found = _Holder(int(content["pid"]), str(content["host"]), content.get("birth"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None
    return found if 0 < found.pid < 2**31 else None


def is_stale(path: Path) -> bool:
    """Tell whether the holder is gone.

    It is then dead on this host, silent for a quarter of an hour on another (or in another container), or was never
    named.
    """
    try:
        age = abs(_now(path.parent) - path.lstat().st_mtime)  # a future time is a clock that was set back
    except FileNotFoundError:
        return False
    found = _holder(path)
    if found is None:
        return os.path.lexists(path) and age > BLANK_AFTER  # be it a link to nothing
    return not alive(found.pid, found.birth) if found.host == host() else age > STALE_AFTER


def is_garbage(path: Path) -> bool:
    """Tell whether a claim does not say who holds it, and is too old to be one that is being written."""
    return _holder(path) is None and is_stale(path)


def _now(folder: Path) -> float:
    """Read the time by the clock that stamps the claims: on a shared disk it is not ours."""
    try:
        (folder / LOCK).touch()
        return (folder / LOCK).stat().st_mtime
    except OSError:
        return time.time()


def take(path: Path) -> Claim | None:
    """Claim what ``path`` stands for, or None while a living process holds it.

    Raises:
        OSError: The folder cannot be written.
    """
    pid = os.getpid()
    text = json.dumps({"pid": pid, "host": host(), "birth": birth(pid)}).encode()
    for _ in range(2):
        try:
            handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        except FileExistsError:
            if not is_stale(path):
                return None
            with locked(path.parent / LOCK):  # else the second of two takers would remove the first one's claim
                if is_stale(path):
                    set_aside(path) if path.is_dir() else path.unlink(missing_ok=True)
            continue
        try:
            os.write(handle, text)
        except OSError as error:  # an empty claim would block the run for everybody
            path.unlink(missing_ok=True)
            raise OSError(error.errno, error.strerror, str(path)) from error
        finally:
            os.close(handle)
        return Claim(path, pid)
    return None
