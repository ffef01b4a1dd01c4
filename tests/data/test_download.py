"""Raw files in the cache: what is done with those that cannot be read, and what is not."""

from __future__ import annotations

import errno
import gzip
import os
import socket
import time
from dataclasses import replace
from pathlib import Path

import pytest

from fgl_repro.core.registry import option
from fgl_repro.data import download
from fgl_repro.data.sources.source import Source
from support.helpers import dead_pid


class Reader:
    """Reads raw files without a pinned checksum; ``error``, where there is one, is what comes of it."""

    error: Exception | None = None

    def __call__(self, root: Path) -> str:
        if self.error is not None:
            raise self.error
        return (root / "Own/raw/a").read_text()


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Reader:
    """Photo's raw files are one file, and nobody sends it."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError("no network in this test")

    made = Reader()
    source = Source(folder="Own/raw", urls={"a": "http://nowhere/a"}, pinned=False, read=made)
    monkeypatch.setattr(option("dataset", "photo"), "source", source)
    monkeypatch.delenv("FGL_DATA", raising=False)
    monkeypatch.setattr("urllib.request.urlopen", refuse)
    return made


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """What was downloaded once."""
    path = tmp_path / "raw/Own/raw/a"
    path.parent.mkdir(parents=True)
    path.write_text("gigabytes")
    return path


@pytest.mark.parametrize(
    "error",
    [
        MemoryError("Unable to allocate 9 GiB"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."),
        OSError(errno.ENOSPC, "No space left on device"),
        ImportError("No module named ogb"),
    ],
)
def test_what_the_files_cannot_help_leaves_them_there(
    error: Exception, reader: Reader, kept: Path, tmp_path: Path
) -> None:
    reader.error = error
    with pytest.raises(type(error)) as caught:
        download.obtain("photo", tmp_path)
    assert caught.value is error
    assert [path.name for path in tmp_path.iterdir()] == ["raw"]
    reader.error = None
    assert download.obtain("photo", tmp_path) == "gigabytes"


@pytest.mark.parametrize("error", [ValueError("no array"), gzip.BadGzipFile("Not a gzipped file")])
def test_damaged_downloads_are_set_aside(
    error: Exception, reader: Reader, kept: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reader.error = error
    for name in ("raw.corrupt", "raw.2.corrupt"):
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(name)
        with pytest.raises(download.DataUnavailableError, match="no network"):
            download.obtain("photo", tmp_path)
        assert not kept.exists()
        assert (kept.parents[1] / name / "a").read_text() == name
        assert capsys.readouterr().err == f"{kept.parent} cannot be read: it is {name} now, and fetched again.\n"


def test_a_download_with_another_checksum_is_set_aside(
    reader: Reader, kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = option("dataset", "photo")
    monkeypatch.setattr(made, "source", replace(made.source, pinned=True))
    monkeypatch.setattr(download, "_digests", lambda name: {"a": "0" * 64})
    with pytest.raises(download.DataUnavailableError):
        download.obtain("photo", tmp_path)
    assert (tmp_path / "raw/Own/raw.corrupt/a").read_text() == "gigabytes"


@pytest.mark.parametrize(
    ("host", "minutes", "swept"),
    [("node-1.here", 2, True), ("node-2.here", 2, False), ("node-2.here", 25 * 60, True), ("node-1.here", 0, False)],
)
def test_what_another_host_is_reading_stays(
    host: str, minutes: int, swept: bool, reader: Reader, kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process is none of ours; of this host's processes it is known which are gone."""
    gone = dead_pid()
    with monkeypatch.context() as there:
        there.setattr(socket, "gethostname", lambda: host)
        there.setattr(os, "getpid", lambda: gone)
        reading = download._staged(option("dataset", "photo").source, [kept], tmp_path)
        folder = reading.__enter__()
    os.utime(folder, (time.time() - 60 * minutes,) * 2)
    monkeypatch.setattr(socket, "gethostname", lambda: "node-1.here")
    download.obtain("photo", tmp_path)
    assert folder.exists() is not swept
    folder.mkdir(exist_ok=True)
    reading.__exit__(None, None, None)
