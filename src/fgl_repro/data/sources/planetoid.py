"""Cora, CiteSeer, PubMed: Yang et al., "Revisiting Semi-Supervised Learning with Graph Embeddings" (ICML 2016)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fgl_repro.data.dataset import Published
from fgl_repro.data.sources.source import Source, through_pyg

_URL = "https://github.com/kimiyoung/planetoid/raw/master/data"
_PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")


def _source(title: str) -> Source:
    files = [f"ind.{title.lower()}.{part}" for part in _PARTS]
    return Source(
        folder=f"Planetoid/{title}/raw",
        urls={file: f"{_URL}/{file}" for file in files},
        pinned=True,
        read=lambda root: through_pyg("Planetoid", root / "Planetoid", title),
    )


@dataclass
class Cora(Published):
    name: ClassVar[str] = "cora"
    source: ClassVar[Source] = _source("Cora")


@dataclass
class CiteSeer(Published):
    name: ClassVar[str] = "citeseer"
    source: ClassVar[Source] = _source("CiteSeer")


@dataclass
class PubMed(Published):
    name: ClassVar[str] = "pubmed"
    source: ClassVar[Source] = _source("PubMed")
