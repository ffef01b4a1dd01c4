"""Amazon Photo and Computers: Shchur et al., "Pitfalls of Graph Neural Network Evaluation" (2018)."""

from __future__ import annotations

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


SOURCES = {title.lower(): _source(title) for title in ("Photo", "Computers")}
