"""ogbn-arxiv, ogbn-products: Hu et al., "Open Graph Benchmark: Datasets for Machine Learning on Graphs" (NeurIPS 2020).

Read with ``ogb``'s reader for PyG and not with its data set class, which asks on the terminal before it goes on with
files that it did not unpack itself, and unpickles what it has processed.
"""

from __future__ import annotations

import contextlib
import io
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from fgl_repro.core.lazy import sparse as sp
from fgl_repro.data.dataset import CatalogDataset
from fgl_repro.data.sources.source import RawGraph, Source

_FILES = tuple(f"{part}.csv.gz" for part in ("edge", "node-feat", "node-label", "num-node-list", "num-edge-list"))


def read(folder: Path) -> RawGraph:
    """Read the graph in a folder of ``ogb``'s raw files, each link in one direction, as they are stored.

    Raises:
        ValueError: The files do not belong together.
    """
    # Once imported, ogb asks a package index for newer versions, in a thread without a time limit; it does not where
    # this module cannot be imported.
    sys.modules.setdefault("outdated", None)  # type: ignore[arg-type]
    import pandas
    from ogb.io.read_graph_pyg import read_graph_pyg

    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):  # its progress
        (data,) = read_graph_pyg(str(folder))
    labels = pandas.read_csv(folder / "node-label.csv.gz", header=None)[0].to_numpy(np.int64)
    features, edges, nodes = data.x.numpy(), data.edge_index.numpy(), data.num_nodes
    if not len(features) == len(labels) == nodes or labels.min() < 0:
        raise ValueError(f"{nodes} nodes, {len(features)} lines of features, {len(labels)} labels from {labels.min()}")
    if len(edges) != 2 or edges.min() < 0 or edges.max() >= nodes:
        raise ValueError(f"{nodes} nodes, edges from {edges.min()} to {edges.max()} in {len(edges)} columns")
    return RawGraph(sp.csr_matrix(features, dtype=np.float32), edges, labels, num_classes=int(labels.max()) + 1)


def _source(name: str) -> Source:
    return Source(
        folder=f"ogbn_{name}/raw",
        archive=f"http://snap.stanford.edu/ogb/data/nodeproppred/{name}.zip",
        urls={file: f"{name}/raw/{file}" for file in _FILES},
        pinned=False,
        read=lambda root: read(root / f"ogbn_{name}" / "raw"),
    )


@dataclass
class Arxiv(CatalogDataset):
    name: ClassVar[str] = "arxiv"
    source: ClassVar[Source] = _source("arxiv")


@dataclass
class Products(CatalogDataset):
    name: ClassVar[str] = "products"
    source: ClassVar[Source] = _source("products")
