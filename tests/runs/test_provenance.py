"""What a record says of the code that made it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from fgl_repro.data.dataset import Dataset
from fgl_repro.runs import provenance
from support import helpers


def checkout(folder: Path) -> None:
    """Commit a package, a yaml and a file beside both."""
    for name in ("src/package/runs/provenance.py", "conf/method/old.yaml", "results/README.md"):
        path = folder / name
        path.parent.mkdir(parents=True)
        path.write_text("old\n")
    (folder / ".gitignore").write_text("__pycache__/\n")
    author = ("-c", "user.name=Somebody", "-c", "user.email=somebody@example.org", "-c", "commit.gpgsign=false")
    for command in (("init", "-q"), ("add", "."), (*author, "commit", "-q", "-m", "all")):
        subprocess.run(["git", "-C", str(folder), *command], check=True)


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not here")
@pytest.mark.parametrize(
    ("written", "dirty"),
    [
        ("", False),
        ("src/package/runs/provenance.py", True),
        ("src/package/methods/mine.py", True),
        ("conf/method/old.yaml", True),
        ("conf/method/mine.yaml", True),
        ("src/package/runs/__pycache__/provenance.pyc", False),
        ("results/README.md", False),
    ],
    ids=["nothing", "a source", "a new source", "a yaml", "a new yaml", "what git ignores", "what is no code"],
)
def test_code_that_the_commit_does_not_have_is_told(
    written: str, dirty: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout(tmp_path)
    if written:
        (tmp_path / written).parent.mkdir(exist_ok=True)
        (tmp_path / written).write_text("new\n")
    monkeypatch.setattr(provenance, "__file__", str(tmp_path / "src/package/runs/provenance.py"))
    monkeypatch.setattr(provenance, "conf_dir", lambda: tmp_path / "conf")
    state = provenance.git_state.__wrapped__()
    assert len(state["sha"]) == 40
    assert state["dirty"] is dirty


def test_outside_a_checkout_nothing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.setattr(provenance, "__file__", str(tmp_path / "package/runs/provenance.py"))
    assert provenance.git_state.__wrapped__() == {"sha": None, "dirty": None}


@pytest.mark.parametrize(
    ("own", "announced", "data", "told"),
    [
        (False, False, "former", "runtime.force=true does that."),
        (True, False, "former", "where mine gives another graph since, raise revision in its class; otherwise runtime"),
        (True, False, None, "where mine gives another graph since, raise revision in its class; otherwise runtime"),
        (True, False, "present", "runtime.force=true does that."),
        (True, True, "former", "runtime.force=true does that."),
    ],
    ids=["a known graph", "its file", "an older record", "another file", "a graph that was compared"],
)
def test_a_data_set_whose_file_has_changed_wants_another_revision(
    own: bool, announced: bool, data: str | None, told: str
) -> None:
    """To force the run would compute it on the cached graph, the former one."""

    class Mine(Dataset):
        name = "mine"
        recorded = {"source": "text"} if announced else {}

    config = helpers.config()
    if own:
        config.dataset = Mine()
    versions = {"options": "former"}
    versions |= {"dataset": {"present": provenance.data_digest(config)}.get(data, data)} if data else {}
    record = helpers.record(config).changed(versions=versions)
    assert f"and it was not computed again: {told}" in provenance.advice_on_edit(record, config, "runtime.force=true")
    now = {"options": provenance.options_digest(config)}
    assert provenance.advice_on_edit(record.changed(versions=now), config, "runtime.force=true") == ""


def test_an_older_record_tells_of_whole_files(monkeypatch: pytest.MonkeyPatch) -> None:
    config = helpers.config()
    with monkeypatch.context() as patched:
        patched.setattr(provenance, "code_of", lambda text: text)
        provenance._text.cache_clear()
        former = provenance.options_digest(config)
    provenance._text.cache_clear()
    assert former != provenance.options_digest(config)
    record = helpers.record(config)
    assert not provenance.edited(record.changed(versions={"options": former}), config)
    assert provenance.edited(record.changed(versions={"options": "another"}), config)
