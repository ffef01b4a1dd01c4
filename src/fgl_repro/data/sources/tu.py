"""TU data sets of graphs, which PyG reads: MUTAG, molecules, and PROTEINS. A node's features are its label, one-hot.

Morris et al., "TUDataset: A Collection of Benchmark Datasets for Learning with Graphs" (2020). They have one
environment; nobody here has seen the real files, so their sizes decide whether they are the published ones.
"""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any, ClassVar

from fgl_repro.data.graph_dataset import GraphDataset
from fgl_repro.data.sources.source import Source

_SITE = "https://www.chrsmrrs.com/graphkerneldatasets"
_PARTS = ("A", "graph_indicator", "graph_labels", "node_labels")


def _source(title: str, *more: str) -> Source:
    def read(root: Path) -> Any:
        from torch_geometric.datasets import TUDataset

        with contextlib.redirect_stderr(io.StringIO()):  # PyG's "Processing... Done!"
            found = TUDataset(str(root / "TUDataset"), title)
            list(found)  # files that do not belong together are told of here
            return found

    files = [f"{title}_{part}.txt" for part in (*_PARTS, *more)]
    urls = {file: f"{title}/{file}" for file in files}
    return Source(f"TUDataset/{title}/raw", urls, pinned=False, read=read, archive=f"{_SITE}/{title}.zip")


class _TU(GraphDataset):
    def graphs(self, cache: Path) -> Any:
        from fgl_repro.data import download

        return download.obtain(self.name, cache)


class Mutag(_TU):
    name = "mutag"
    source: ClassVar[Source | None] = _source("MUTAG", "edge_labels")


class Proteins(_TU):
    name = "proteins"
    source: ClassVar[Source | None] = _source("PROTEINS", "node_attributes")
