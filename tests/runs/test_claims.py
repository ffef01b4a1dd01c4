"""Claims: one living holder at a time, and nothing that a dead one left blocks a run."""

from __future__ import annotations

import errno
import json
import os
import socket
import time
from pathlib import Path

import pytest

from fgl_repro.core.files import host
from fgl_repro.runs import claims
from fgl_repro.runs.store import RecordStore
from support.helpers import dead_pid


@pytest.fixture
def store(tmp_path: Path) -> RecordStore:
    return RecordStore(tmp_path / "records")


def test_claim_is_exclusive_and_released(store: RecordStore) -> None:
    with store.claim("a" * 64) as claim:
        assert claim is not None
        assert store.is_claimed("a" * 64)
        assert store.claim("a" * 64) is None
        assert store.claim("b" * 64) is not None
    assert not store.is_claimed("a" * 64)
    assert store.claim("a" * 64) is not None


def write_claim(path: Path, **said: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"pid": os.getpid(), "host": host(), "birth": None} | said))


@pytest.mark.parametrize(
    ("said", "age", "stale"),
    [
        ({}, 0, False),
        ({}, 7 * 3600, False),  # alive on this host: age does not matter
        ({"pid": -1}, 0, True),
        ({"birth": "1"}, 0, True),  # the pid lives again, as another process
        ({"host": "elsewhere"}, 600, False),
        ({"host": "elsewhere"}, 1200, True),
    ],
)
def test_stale_claims(tmp_path: Path, said: dict, age: float, stale: bool) -> None:
    path = tmp_path / "x.claim"
    write_claim(path, **({"pid": dead_pid()} if said.get("pid") == -1 else said))
    os.utime(path, (time.time() - age,) * 2)
    assert claims.is_stale(path) is stale
    assert (claims.take(path) is not None) is stale
    if stale:
        assert json.loads(path.read_text())["pid"] == os.getpid()


def test_a_container_of_the_same_name_is_another_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its processes have numbers of their own: one that is not seen here may live there."""
    monkeypatch.setattr(os, "readlink", lambda path: "pid:[4026531836]")
    path = tmp_path / "x.claim"
    write_claim(path, pid=dead_pid())
    assert claims.is_stale(path)
    monkeypatch.setattr(os, "readlink", lambda path: "pid:[4026532222]")
    assert not claims.is_stale(path)


def test_a_system_without_spaces_of_process_numbers_has_the_name_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> str:
        raise FileNotFoundError(errno.ENOENT, "none", path)

    monkeypatch.setattr(os, "readlink", refuse)
    monkeypatch.setattr(socket, "gethostname", lambda: "node-1.here")
    assert host() == "node_1_here"


GARBAGE = {
    "no JSON": b"{half",
    "not UTF-8": b"\xff\xfe\x00",
    "a list": b"[1]",
    "no pid": b'{"host": "x"}',
    "pid 0": b'{"pid": 0, "host": HOST}',
    "pid -1": b'{"pid": -1, "host": HOST}',
    "pid too large": b'{"pid": 1099511627776, "host": HOST}',
    "pid infinite": b'{"pid": Infinity, "host": HOST}',
    "deep": b"[" * 100_000,
}


@pytest.mark.parametrize("content", GARBAGE.values(), ids=list(GARBAGE))
def test_a_claim_that_names_no_process_counts_for_a_minute(store: RecordStore, content: bytes) -> None:
    store.folder.mkdir(parents=True)
    path = store.beside("a" * 64, "claim")
    path.write_bytes(content.replace(b"HOST", json.dumps(host()).encode()))
    assert store.claim("a" * 64) is None
    assert store.check() == []
    os.utime(path, (time.time() - 90,) * 2)
    assert "names no process" in " ".join(store.check())
    claim = store.claim("a" * 64)
    assert claim is not None
    claim.release()
    assert not path.exists()


def test_a_folder_in_place_of_a_claim_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "x.claim"
    path.mkdir()
    (path / "kept").touch()
    os.utime(path, (time.time() - 90,) * 2)
    assert claims.take(path) is not None
    assert (tmp_path / "x.corrupt" / "kept").exists()


def test_a_claim_that_links_to_nothing_blocks_no_run_for_ever(store: RecordStore) -> None:
    store.folder.mkdir(parents=True)
    path = store.beside("a" * 64, "claim")
    path.symlink_to("nowhere")
    assert store.claim("a" * 64) is None
    assert store.is_claimed("a" * 64)
    os.utime(path, (time.time() - 90,) * 2, follow_symlinks=False)
    assert not store.is_claimed("a" * 64)
    assert "names no process" in " ".join(store.check())
    assert store.claim("a" * 64) is not None
    assert not path.is_symlink()


@pytest.mark.parametrize("ahead", [7 * 3600, -7 * 3600])
def test_a_claim_from_another_hosts_clock_is_not_busy_for_ever(tmp_path: Path, ahead: float) -> None:
    path = tmp_path / "x.claim"
    write_claim(path, host="elsewhere")
    os.utime(path, (time.time() + ahead,) * 2)
    assert claims.is_stale(path)


def test_a_full_disk_leaves_no_empty_claim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match=r"No space left on device: .*x\.claim"):
        claims.take(tmp_path / "x.claim")
    assert not (tmp_path / "x.claim").exists()


def test_a_held_claim_shows_signs_of_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "HEARTBEAT", 0.01)
    path = tmp_path / "x.claim"
    claim = claims.take(path)
    assert claim is not None
    os.utime(path, (0, 0))
    with claim:
        end = time.monotonic() + 20
        while path.stat().st_mtime == 0 and time.monotonic() < end:
            time.sleep(0.01)
        assert path.stat().st_mtime > 0


def test_half_written_claim(tmp_path: Path) -> None:
    path = tmp_path / "x.claim"
    path.write_text("")
    assert claims.take(path) is None
    os.utime(path, (time.time() - 90,) * 2)
    assert claims.take(path) is not None


def test_release_leaves_a_claim_that_was_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "x.claim"
    claim = claims.take(path)
    assert claim is not None
    write_claim(path, host="elsewhere")
    claim.release()
    assert path.exists()
    write_claim(path, pid=os.getppid())
    claim.release()
    assert path.exists()
