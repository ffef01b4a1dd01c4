"""Cora, CiteSeer, PubMed: Yang et al., "Revisiting Semi-Supervised Learning with Graph Embeddings" (ICML 2016)."""

from __future__ import annotations

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


SOURCES = {title.lower(): _source(title) for title in ("Cora", "CiteSeer", "PubMed")}
