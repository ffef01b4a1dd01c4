"""Data sets that a script announces: what they give now is what their runs rest on, or the run is refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import fgl_repro
from fgl_repro.config import compose, yamls
from fgl_repro.core import registry
from fgl_repro.core.errors import UserError
from fgl_repro.data.dataset import Dataset
from fgl_repro.federation.partitioners.random import Random

NODES = 40
OTHER = r"mine \(row\): its runs rest on the graph .* raise revision in its class \(`revision = 2` in Mine\)"


def ring(first: int = 0) -> Data:
    """A ring of nodes of two classes, whose masks say who trains."""
    node = torch.arange(NODES)
    data = Data(x=torch.eye(NODES), edge_index=torch.stack([node, (node + 1) % NODES]), y=(node + first) // 2 % 2)
    data.train_mask = node % 4 < 2
    return data


class Mine(Dataset):
    name: ClassVar[str] = "mine"

    def raw(self, cache: Path) -> Any:
        return GIVEN["mine"]


@dataclass
class Masked(Random):
    name: ClassVar[str] = "masked"

    def drawn_roles(self, graph: Any, split: Any) -> np.ndarray:
        trains = GIVEN["mine"].train_mask.numpy()
        return np.where(trains, 0, np.where(np.arange(NODES) % 2, 1, 2))[graph.original_id].astype(np.int8)


GIVEN = {"mine": ring()}


@pytest.fixture(autouse=True)
def _announced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test announces is forgotten after it, and so is the data."""
    known = {axis: dict(registry.options(axis)) for axis in ("dataset", "partitioner")}
    searched = list(yamls.searched)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(GIVEN, "mine", ring())
    monkeypatch.setattr(Mine, "recorded", Mine.recorded)
    monkeypatch.setattr(Masked, "recorded", Masked.recorded)
    fgl_repro.announce(Mine)
    fgl_repro.announce(Masked)
    yield
    for axis, options in known.items():
        registry.options(axis).clear()
        registry.options(axis).update(options)
    registry._announced.clear()
    yamls.searched[:] = searched
    compose.forget()


def run(rounds: int = 1, **choices: Any) -> Any:
    overrides = {"protocol.rounds": rounds, "paths.cache": "cache", **choices.pop("overrides", {})}
    given = {"partitioner": "masked", "setting": "plain", "records": "records", "overrides": overrides}
    return fgl_repro.run("fedavg", "mine", 2, **{**given, **choices})


@pytest.mark.parametrize("source", ["stream", "partitioner"])
def test_a_run_says_of_masks_only_what_is_true_of_it(source: str, capsys: pytest.CaptureFixture[str]) -> None:
    run(overrides={"protocol.split_source": source})
    assert ("the protocol draws the split" in capsys.readouterr().err) == (source == "stream")


def test_a_graph_that_has_changed_is_refused_before_anything_is_found_or_run() -> None:
    """The text of the class is the same, and so is the key."""
    first = run()
    assert run().record == first.record
    GIVEN["mine"] = ring(1)  # as where a notebook's cell is run again
    for again in (run, lambda: run(rounds=2), lambda: run(overrides={"runtime.force": True})):
        with pytest.raises(UserError, match=OTHER):
            again()
    with pytest.raises(UserError, match=OTHER):
        fgl_repro.sweep(["fedavg", "local"], "mine", 2, overrides={"paths.cache": "cache"}, records="records")
    GIVEN["mine"] = ring()
    assert run().record == first.record


def test_a_raised_revision_is_another_data_set(monkeypatch: pytest.MonkeyPatch) -> None:
    first = run()
    GIVEN["mine"].y[0] = 1  # in place, so that the object is the same
    monkeypatch.setattr(Mine, "revision", 2)
    second = run()
    assert second.key != first.key
    assert second.record.data != first.record.data


def test_a_run_that_was_made_on_another_graph_is_not_found_where_the_cached_graph_is_gone() -> None:
    run()
    GIVEN["mine"] = ring(1)
    with pytest.raises(UserError, match=OTHER):
        run(overrides={"paths.cache": "empty"})
    assert not Path("empty").exists()
    forced = run(overrides={"paths.cache": "empty", "runtime.force": True})
    assert run(overrides={"paths.cache": "empty"}).record == forced.record


def test_a_table_of_runs_on_another_graph_is_refused() -> None:
    Path("conf/table/own").mkdir(parents=True)
    Path("conf/table/own/1.yaml").write_text(
        "{title: T, datasets: [mine], clients: [2], seeds: [0], partitioner: random, protocols: [fedlog], "
        "rows: [{name: A, method: fedavg, overrides: {protocol.rounds: 1}}], "
        'panels: {"1": {title: P, setting: plain, probe: seen_graph}}}'
    )
    fgl_repro.search("conf")
    assert fgl_repro.table("own/1", fill=True, records="records")["n_seeds"].tolist() == [1]
    GIVEN["mine"] = ring(1)
    with pytest.raises(UserError, match=OTHER):
        fgl_repro.table("own/1", records="records")


def test_raw_data_that_cannot_be_read_any_more_leave_the_cached_graph_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(self: Dataset, cache: Path) -> Any:
        raise FileNotFoundError("mine.npz")

    first = run()
    monkeypatch.setattr(Mine, "raw", gone)
    assert run().record == first.record
    assert run(rounds=2).record.data == first.record.data


def test_data_that_are_asked_for_again_are_not_processed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    real = Dataset._made
    monkeypatch.setattr(Dataset, "_made", lambda self, given: made.append(given) or real(self, given))
    for _ in range(4):
        run()
    assert len(made) == 2, "once for the cache, once to know what belongs to the digest of the raw data"
