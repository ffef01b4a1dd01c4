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
from fgl_repro.data.dataset import Dataset
from fgl_repro.federation.partitioners.random import Random

NODES = 40


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
