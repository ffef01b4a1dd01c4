"""Coauthor CS and Physics: Shchur et al., "Pitfalls of Graph Neural Network Evaluation" (2018)."""

from __future__ import annotations

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


SOURCES = {"cs": _source("CS", "cs"), "physics": _source("Physics", "phy")}
