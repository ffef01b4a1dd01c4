"""Actor (Film): Pei et al., "Geom-GCN: Geometric Graph Convolutional Networks" (ICLR 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fgl_repro.data.dataset import Published
from fgl_repro.data.sources.source import Source, through_pyg

_URL = "https://raw.githubusercontent.com/graphdml-uiuc-jlu/geom-gcn/master"
_TEXT = ("out1_node_feature_label.txt", "out1_graph_edges.txt")
_SPLITS = tuple(f"film_split_0.6_0.2_{index}.npz" for index in range(10))  # unused here, but PyG insists on them


@dataclass
class Actor(Published):
    name: ClassVar[str] = "actor"
    source: ClassVar[Source] = Source(
        folder="Actor/raw",
        urls={file: f"{_URL}/new_data/film/{file}" for file in _TEXT}
        | {file: f"{_URL}/splits/{file}" for file in _SPLITS},
        pinned=True,
        read=lambda root: through_pyg("Actor", root / "Actor"),
    )
