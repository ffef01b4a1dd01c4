"""TU data sets of graphs, which PyG reads: MUTAG, molecules, and PROTEINS. A node's features are its label, one-hot.

Morris et al., "TUDataset: A Collection of Benchmark Datasets for Learning with Graphs" (2020). They have one
environment; nobody here has seen the real files, so their sizes decide whether they are the published ones.
"""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fgl_repro.core.lazy import sparse as sp
from fgl_repro.data.graph_dataset import GraphDataset, disjoint_union
from fgl_repro.data.graphset import GraphSet
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


def of_pyg(name: str, given: Any) -> GraphSet:
    """A PyG ``Dataset`` of graphs, each with ``x``, ``edge_index`` and a class ``y``; all of one environment."""
    sizes, counts, ends = [], [], []
    for graph in given:
        nodes = graph.num_nodes
        a, b = graph.edge_index.numpy()
        both = np.unique(np.concatenate([a * nodes + b, b * nodes + a])[np.tile(a != b, 2)])
        sizes.append(nodes)
        counts.append(len(both))
        ends.append(np.stack([both // nodes, both % nodes]))
    ptr, links = disjoint_union(np.array(sizes), np.array(counts), np.concatenate(ends, axis=1))
    inner = sp.csr_matrix(np.concatenate([graph.x.numpy() for graph in given]), dtype=np.float32)
    labels = np.array([int(graph.y) for graph in given])
    where = np.zeros(len(sizes), dtype=np.int64)
    return GraphSet.of(name, ptr, inner, links, where, labels=labels, num_classes=int(given.num_classes))


class _TU(GraphDataset):
    def graphs(self, cache: Path) -> GraphSet:
        from fgl_repro.data import download

        return of_pyg(self.name, download.obtain(self.name, cache))


class Mutag(_TU):
    name = "mutag"
    source: ClassVar[Source | None] = _source("MUTAG", "edge_labels")


class Proteins(_TU):
    name = "proteins"
    source: ClassVar[Source | None] = _source("PROTEINS", "node_attributes")
