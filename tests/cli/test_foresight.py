"""A sweep some of whose jobs can never be runs: it says so first, and does the others."""

from __future__ import annotations

from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from fgl_repro.cli import foresight
from support.fake_train import call

SMALL = ("-m", "partitioner.clients=3", "runtime.progress=false")


def test_what_cannot_be_done_is_said_before_the_first_run(tmp_path: Path) -> None:
    """A reason once, however many jobs it has; seeds are counted and not looked at."""
    words = ("method=local,fedvn,fedpub", "protocol.participation=0.5,1", "seed=0,1")
    done = call(tmp_path, *SMALL, *words)
    lines = done.stderr.splitlines()
    assert lines[0] == "fgl-train: 6 jobs of this sweep cannot be done, and the others are:"
    assert lines[1].startswith("  method=fedvn protocol.participation=0.5 (and 1 more): dataset=cora asks about nodes")
    assert lines[2].startswith("  method=fedpub protocol.participation=0.5: protocol.participation=0.5 is not for")
    assert lines[3].startswith("fgl-train: job 4 (")
    assert done.returncode == 2
    assert len(list((tmp_path / "records").glob("*.json"))) == 6


@pytest.mark.parametrize(
    "words",
    [
        ("method=local,fedavg", "seed=0"),
        ("method=fedvn", "seed=0,1"),
        ("method=local,nobody",),
        ("method=local,fedvn", "paths.records=r/${hydra:job.num}"),
    ],
)
def test_nothing_is_foreseen_where_all_jobs_can_be_done_or_none_or_words_wait_for_theirs(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    told = call(tmp_path, *SMALL, *words).stderr
    assert "of this sweep" not in told
    assert "UserWarning" not in told, "Hydra warns of what it could not be asked"


def test_it_says_how_many_it_has_looked_at_where_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the others nothing is claimed; neither that they are done nor, where all it saw are refused, nothing."""
    overrides = OverridesParser.create().parse_overrides(["method=local,fedvn", "protocol.rounds=1,2", "seed=0,1"])
    monkeypatch.setattr(foresight, "_refusal", lambda words, *_: None if words[0] == "method=local" else "no.")
    whole = foresight.foreseen(overrides, {}, None).splitlines()
    assert whole[0] == "4 jobs of this sweep cannot be done, and the others are:"
    assert whole[1] == "  method=fedvn protocol.rounds=1 (and 1 more): no."
    monkeypatch.setattr(foresight, "LOOKED_AT", 3)
    part = foresight.foreseen(overrides, {}, None)
    assert part == "2 jobs of this sweep cannot be done; 6 were looked at:\n  method=fedvn protocol.rounds=1: no."
    monkeypatch.setattr(foresight, "_refusal", lambda *_: "no.")
    assert foresight.foreseen(overrides, {}, None).startswith("6 jobs of this sweep cannot be done; 6 were looked at:")


def test_reasons_without_end_are_counted(tmp_path: Path) -> None:
    rates = ",".join(f"-{number}" for number in range(1, foresight.SHOWN + 4))
    told = call(tmp_path, *SMALL, f"protocol.lr=0.1,{rates}").stderr.splitlines()
    assert told[0] == f"fgl-train: {foresight.SHOWN + 3} jobs of this sweep cannot be done, and the others are:"
    assert told[1] == "  protocol.lr=-1: protocol.lr=-1.0 is out of range: give at least 0."
    assert told[foresight.SHOWN + 1] == "  ... and for 3 other reasons."
