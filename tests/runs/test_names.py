"""What runs are called."""

from __future__ import annotations

from pathlib import Path

import pytest

from fgl_repro.config import science
from fgl_repro.runs import names, obtain
from fgl_repro.runs.progress import RunProgress
from fgl_repro.runs.store import RecordStore
from support import helpers

RUN = helpers.config(method="fedpub", seed=2)


def test_a_run_has_a_name_for_each_place() -> None:
    identity = science(RUN)
    assert names.label(identity) == "fedpub-release cora K=3 closed_set seed=2"
    assert names.label(identity, "published seen_graph") == "fedpub-release cora K=3 published seen_graph seed=2"
    assert names.brief(identity) == "fedpub-release cora 3c s2"
    assert names.mirror_name(identity, "0123456789") == "fedpub-cora-3c-closed_set-s2-012345"
    del identity["method"]["variant"]
    assert names.brief(identity) == "fedpub cora 3c s2", "a record may have no variant"


def test_the_bar_of_a_run_names_its_variant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = []

    class Bar(RunProgress):
        def __init__(self, name: str, wanted: bool) -> None:
            shown.append(name)
            super().__init__(name, wanted)

    monkeypatch.setattr(obtain, "RunProgress", Bar)
    obtain.obtain(RUN, RecordStore(tmp_path), live=False, execute="support.fake_run:execute")
    assert shown == ["fedpub-release cora 3c s2"]
