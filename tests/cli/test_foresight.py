"""A sweep some of whose jobs can never be runs: it says so first, and does the others."""

from __future__ import annotations

from pathlib import Path

import pytest

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
    ],
)
def test_nothing_is_foreseen_where_all_jobs_can_be_done_or_none(words: tuple[str, ...], tmp_path: Path) -> None:
    assert "of this sweep" not in call(tmp_path, *SMALL, *words).stderr


def test_reasons_without_end_are_counted(tmp_path: Path) -> None:
    rates = ",".join(f"-{number}" for number in range(1, foresight.SHOWN + 4))
    told = call(tmp_path, *SMALL, f"protocol.lr=0.1,{rates}").stderr.splitlines()
    assert told[0] == f"fgl-train: {foresight.SHOWN + 3} jobs of this sweep cannot be done, and the others are:"
    assert told[1] == "  protocol.lr=-1: protocol.lr=-1.0 is out of range: give at least 0."
    assert told[foresight.SHOWN + 1] == "  ... and for 3 other reasons."
