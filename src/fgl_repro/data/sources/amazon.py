"""Amazon Photo and Computers: Shchur et al., "Pitfalls of Graph Neural Network Evaluation" (2018)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fgl_repro.data.dataset import Published
from fgl_repro.data.sources.source import Source, through_pyg

_URL = "https://github.com/shchur/gnn-benchmark/raw/master/data/npz"


def _source(title: str) -> Source:
    file = f"amazon_electronics_{title.lower()}.npz"
    return Source(
        folder=f"Amazon/{title}/raw",
        urls={file: f"{_URL}/{file}"},
        pinned=False,
        read=lambda root: through_pyg("Amazon", root / "Amazon", title),
    )


@dataclass
class Photo(Published):
    name: ClassVar[str] = "photo"
    source: ClassVar[Source] = _source("Photo")


@dataclass
class Computers(Published):
    name: ClassVar[str] = "computers"
    source: ClassVar[Source] = _source("Computers")
