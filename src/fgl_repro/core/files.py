"""Files that are whole or absent, and what killed processes leave beside them."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from fgl_repro.core.errors import UserError

AT_REST = 60.0
"""Seconds after which a temporary file that names a dead process is a leftover; another host's file is gone by then."""

FORGOTTEN = 86400.0
"""The same for one that names no process, or a process of another host, of which nobody here knows whether it runs."""


def folder_of(variable: str, default: str | Path) -> Path:
    """Return the folder that the environment names by ``variable``; empty counts as unset.

    Raises:
        UserError: A configuration would read its name as a reference to something else (``${``), or as none (``???``).
    """
    named = os.environ.get(variable) or str(default)
    if "${" in named or named == "???":
        raise UserError(
            f"{variable}={named} is no name that a configuration can hold: name a folder without ${{ or ???."
        )
    return Path(named)


def cache_folder() -> Path:
    """Tell where downloads, processed graphs and remembered facts are kept, unless a command says otherwise."""
    return folder_of("FGL_CACHE", "cache")


def write_atomic(path: Path, content: str | bytes) -> None:
    """Write ``content`` so that ``path`` holds either what it held before or all of it, whenever we are killed.

    Raises:
        OSError: It cannot be written; the error names ``path``.
    """
    write_together({path: content})


def write_together(contents: Mapping[Path, str | bytes]) -> None:
    """Do as ``write_atomic`` with several files, in their order, once there has been room for all of them.

    Raises:
        OSError: One cannot be written, and the error names it; no file is there then that was not there before.
    """
    mine = f"{threading.get_ident()}-{os.getpid()}.tmp"
    temporaries = {path: path.with_name(f".{path.name}.{mine}") for path in contents}
    new = list[Path]()
    try:
        for path, temporary in temporaries.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            content = contents[path]
            with open(temporary, "wb") as file:
                file.write(content.encode() if isinstance(content, str) else content)
                file.flush()
                os.fsync(file.fileno())
        for path, temporary in temporaries.items():
            if not os.path.lexists(path):
                new.append(path)
            os.replace(temporary, path)
    except BaseException as error:
        refused = isinstance(error, OSError)  # else we are being stopped, maybe when all is in its place
        for each in [*temporaries.values(), *(new if refused else ())]:
            with suppress(OSError):
                each.unlink()
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror or str(error), str(path)) from error
        raise


def set_aside(path: Path) -> Path:
    """Rename a damaged file or folder to ``.corrupt``, beside those set aside before it."""
    aside, number = path.with_suffix(".corrupt"), 1
    while aside.exists():
        number += 1
        aside = path.with_suffix(f".{number}.corrupt")
    with suppress(FileNotFoundError):
        os.replace(path, aside)
    return aside


@contextmanager
def locked(path: Path, waiting: str = "") -> Iterator[None]:
    """Hold the lock file ``path``, one process at a time; the system gives it back when we are killed.

    Some shared disks have no locks: there everybody goes on.

    Args:
        waiting: What is said on stderr where another process holds it.

    Raises:
        OSError: The file cannot be written.
    """
    with open(path, "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if waiting:
                print(waiting, file=sys.stderr, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError:
            pass
        yield


def this_process() -> str:
    """Return number and host of this process, for the name of what it may need for longer than ``AT_REST``."""
    return f"{os.getpid()}_{host()}"


def host() -> str:
    """Name where a process number means what it means here, in letters, digits and underscores.

    It is the host with, where the system tells, its space of process numbers: two containers may have one name, and
    each has processes that the other one does not see.
    """
    space = ""
    with suppress(OSError):
        space = os.readlink("/proc/self/ns/pid")
    return re.sub(r"\W+", "_", f"{socket.gethostname()} {space}").strip("_")


def remove_leftovers(folder: Path, pattern: str) -> None:
    """Delete the temporary files and folders of processes that are gone; ``pattern`` finds them in ``folder``.

    The last number in a name that stands between dots or dashes is the process, of this host unless another one follows
    it (see :func:`this_process`).
    """
    for path in folder.glob(pattern):
        processes = re.findall(r"(?<=[.-])(\d+)(?:_(\w+))?(?=[.-])", path.name)
        with suppress(OSError):
            age = time.time() - path.lstat().st_mtime
            number, where = processes[-1] if processes else ("", "")
            ended = bool(number) and where in ("", host()) and not alive(int(number))
            if age > FORGOTTEN or (age > AT_REST and ended):
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def birth(pid: int) -> str | None:
    """Return the start time of a process in clock ticks since boot, where the system tells.

    It guards against a reused pid.
    """
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None


def alive(pid: int, born: str | None = None) -> bool:
    """Tell whether the process ``pid`` of this host runs, and is the one that was ``born`` then."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    now = birth(pid)
    return born is None or now is None or now == born


def read_sealed(path: Path) -> str:
    """Read the text of a packed file; empty where there is neither it nor its seal.

    Raises:
        UserError: It is missing, or its seal is missing or broken.
    """
    seal = _seal(path)
    if not path.exists():
        if seal.exists():
            raise UserError(
                f"{path} is missing, and {seal.name} beside it says that it was there: restore it from version "
                "control, or, if there never was one, remove that file."
            )
        return ""
    try:
        content = path.read_bytes()
        if _line(path, content) in seal.read_text(encoding="utf-8").splitlines():
            return content.decode()
    except (FileNotFoundError, UnicodeDecodeError):
        pass
    raise UserError(
        f"{path} is not the file that {seal.name} beside it was made of: restore both from version control, "
        f"or, if you trust it, run: cd {path.parent} && sha256sum {path.name} > {seal.name}"
    )


def write_sealed(path: Path, text: str) -> None:
    """Write a packed file and its seal.

    In between it seals both the old file and the new one: whenever we are killed, it is of the file beside it.
    """
    seal, line = _seal(path), f"{_line(path, text.encode())}\n"
    write_atomic(seal, (seal.read_text(encoding="utf-8") if seal.exists() else "") + line)
    write_atomic(path, text)
    write_atomic(seal, line)


def _line(path: Path, content: bytes) -> str:
    """Return what ``sha256sum`` says of a file."""
    return f"{hashlib.sha256(content).hexdigest()}  {path.name}"


def _seal(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")
