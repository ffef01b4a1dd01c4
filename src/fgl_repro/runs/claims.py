"""Claim files: several shells, on one machine or on a shared disk, work through one sweep without doing a run twice."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

STALE_AFTER = 6 * 3600.0  # seconds without a sign of life from another host
BLANK_AFTER = 60.0  # seconds after which an empty claim is a process that was killed while writing it


def _birth(pid: int) -> str | None:
    """Start time of a process in clock ticks since boot, where the system tells; guards against a reused pid."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None


def _alive(pid: int, birth: str | None) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    now = _birth(pid)
    return birth is None or now is None or now == birth


@dataclass(frozen=True)
class Claim:
    """The right to compute one run, held by a living process. Use it as a context manager."""

    path: Path
    pid: int

    def refresh(self) -> None:
        """Show other hosts that the work goes on."""
        with suppress(OSError):
            os.utime(self.path)

    def release(self) -> None:
        """Give the claim up; one that somebody else has taken over is left alone."""
        if holder(self.path) == self.pid:
            self.path.unlink(missing_ok=True)

    def __enter__(self) -> Claim:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def holder(path: Path) -> int | None:
    """Process id written in a claim of this host, or None."""
    try:
        said = json.loads(path.read_text())
        return int(said["pid"]) if said["host"] == socket.gethostname() else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def is_stale(path: Path) -> bool:
    """Whether the holder is gone: dead on this host, or silent for six hours on another."""
    try:
        age = time.time() - path.stat().st_mtime
        text = path.read_text()
    except FileNotFoundError:
        return False
    try:
        said = json.loads(text)
        pid, host, birth = int(said["pid"]), str(said["host"]), said.get("birth")
    except (ValueError, KeyError, TypeError, AttributeError):
        return age > BLANK_AFTER
    return not _alive(pid, birth) if host == socket.gethostname() else age > STALE_AFTER


@contextmanager
def _takeover_lock(folder: Path) -> Iterator[None]:
    """One taker at a time: else the second of two would remove the first one's fresh claim."""
    with open(folder / ".claims.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def take(path: Path) -> Claim | None:
    """Claim what ``path`` stands for, or None while a living process holds it.

    Raises:
        OSError: The folder cannot be written.
    """
    pid = os.getpid()
    said = {"pid": pid, "host": socket.gethostname(), "birth": _birth(pid)}
    text = json.dumps(said).encode()
    for _ in range(2):
        try:
            handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        except FileExistsError:
            if not is_stale(path):
                return None
            with _takeover_lock(path.parent):
                if is_stale(path):
                    path.unlink(missing_ok=True)
            continue
        try:
            os.write(handle, text)
        finally:
            os.close(handle)
        return Claim(path, pid)
    return None
