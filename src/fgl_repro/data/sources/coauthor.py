"""Coauthor CS and Physics: Shchur et al., "Pitfalls of Graph Neural Network Evaluation" (2018)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fgl_repro.data.dataset import Published
from fgl_repro.data.sources.source import Source, through_pyg

_URL = "https://github.com/shchur/gnn-benchmark/raw/master/data/npz"


def _source(title: str, short: str) -> Source:
    file = f"ms_academic_{short}.npz"
    return Source(
        folder=f"Coauthor/{title}/raw",
        urls={file: f"{_URL}/{file}"},
        pinned=False,
        read=lambda root: through_pyg("Coauthor", root / "Coauthor", title),
    )


@dataclass
class CS(Published):
    name: ClassVar[str] = "cs"
    source: ClassVar[Source] = _source("CS", "cs")


@dataclass
class Physics(Published):
    name: ClassVar[str] = "physics"
    source: ClassVar[Source] = _source("Physics", "phy")
