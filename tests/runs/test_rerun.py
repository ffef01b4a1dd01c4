"""What a repeated run may differ in."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fgl_repro.core.errors import UserError
from fgl_repro.fl.metrics import Measured
from fgl_repro.runs.provenance import gpu_of
from fgl_repro.runs.rerun import OTHER_CPU, RerunComparison, config_of, largest_gap, rerun, same_cpu
from fgl_repro.runs.store import RecordStore
from support import helpers

ACCURACY = "metrics.seen_graph.best.accuracy: 0.83 -> 0.82"


@pytest.mark.parametrize(
    ("lines", "largest", "bound", "ok"),
    [
        ([], 0.0, 0.0, True),
        ([ACCURACY], 0.01, 0.0, False),  # on the same CPU nothing may differ
        ([ACCURACY], 0.01, OTHER_CPU, True),
        ([ACCURACY], 2 * OTHER_CPU, OTHER_CPU, False),
        (["metrics.seen_graph.best.clients[1]: 0.5 -> 0.4", "selection.round: 7 -> 9"], 0.0, OTHER_CPU, True),
        ([ACCURACY, "bytes.up: 12 -> 13"], 0.01, OTHER_CPU, False),  # no rounding does that
    ],
)
def test_rounding_of_another_cpu_is_no_failure(lines: list[str], largest: float, bound: float, ok: bool) -> None:
    assert RerunComparison(lines, largest, bound).ok is ok


@pytest.mark.parametrize(
    ("metric", "recorded", "again", "gap"),
    [
        ("accuracy", 0.5, 0.48, 0.02),
        ("mae", 0.5, 0.48, 0.04),  # a share of the error, whose unit may be any
        ("accuracy", None, None, 0.0),
        ("accuracy", None, 0.5, float("inf")),
        ("accuracy", 0.5, None, float("inf")),
    ],
)
def test_the_largest_gap(metric: str, recorded: float | None, again: float | None, gap: float) -> None:
    runs = [
        helpers.record(helpers.config()).changed(
            metrics={"seen_graph": {"best": Measured(value, None, None, None, [], [], metric=metric)}}
        )
        for value in (recorded, again)
    ]
    assert largest_gap(*runs) == pytest.approx(gap)


def test_a_cpu_is_told_by_what_its_record_says_of_it() -> None:
    here = "AMD EPYC (family 25, model 17)"
    assert same_cpu(here, here)
    assert same_cpu("AMD EPYC", here), "older records have the name alone"
    assert not same_cpu("AMD EPYC (family 25, model 1)", here)
    assert not same_cpu("AMD EP", here)
    assert not same_cpu("", here)


def test_it_says_when_the_files_of_the_options_have_changed() -> None:
    told = "2 values differ, accuracies (errors: as a share) by up to 0.0100 (same CPU"
    assert str(RerunComparison([ACCURACY] * 2, 0.01, 0.0)) == f"{told})."
    assert str(RerunComparison([ACCURACY] * 2, 0.01, 0.0, edited=True)) == (
        f"{told}, and the code of its options has changed since)."
    )


@pytest.mark.skipif(torch.cuda.is_available(), reason="asks for a machine without a GPU")
def test_a_run_of_a_gpu_needs_one_again() -> None:
    """A CPU draws other random numbers: another run, not the same one rounded otherwise."""
    made = helpers.record(helpers.config()).changed(device="cuda:0", versions={"gpu": "NVIDIA H200"})
    with pytest.raises(UserError, match=r"made on a GPU \(NVIDIA H200\).*repeat it where torch sees one"):
        config_of(made)


@pytest.mark.parametrize(("made", "again"), [("cpu", "cpu"), ("cuda:3", "cuda")])
def test_a_run_is_repeated_on_its_kind_of_device(made: str, again: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever of several GPUs it was."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert config_of(helpers.record(helpers.config()).changed(device=made)).runtime.device == again


def test_a_record_names_its_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"GPU {device.index}")
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    named = {"gpu": "GPU 1", "cuda": "13.0"}
    assert gpu_of(torch.device("cuda", 1), deterministic=False) == named | {"deterministic": "false"}
    assert gpu_of(torch.device("cuda", 1), deterministic=True) == named | {"deterministic": "true"}
    assert gpu_of(torch.device("cpu"), deterministic=True) == {}


@pytest.mark.parametrize("told", [{}, {"deterministic": "false"}, {"deterministic": "true"}])
def test_a_run_of_a_gpu_is_repeated_with_the_order_of_sums_that_it_had(
    told: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    again = config_of(helpers.record(helpers.config()).changed(device="cuda", versions=told))
    assert again.runtime.deterministic == (told == {"deterministic": "true"})


@pytest.mark.parametrize(("method", "alike"), [("fedsageplus", True), ("fedpub", False)])
def test_the_former_name_of_fedsageplus_first_phase_is_no_difference(
    method: str, alike: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = {"rounds": {"up": {"weights": 300}}}
    record = helpers.record(helpers.config(method=method)).changed(bytes={"setup": {"up": {"z": 5}}, **sent})

    def again(configs: Any, jobs: int, store: RecordStore, **how: Any) -> SimpleNamespace:
        store.save(record.changed(bytes={"generator": {"up": {"z": 5}}, **sent}))
        return SimpleNamespace(ok=True)

    monkeypatch.setattr("fgl_repro.runs.rerun.run_all", again)
    assert (rerun(record).lines == []) is alike
