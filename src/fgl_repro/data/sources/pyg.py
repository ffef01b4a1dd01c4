"""The graphs that PyG reads: the citation networks of Planetoid, Amazon's and Coauthor's, Actor.

Cora, CiteSeer, PubMed: Yang et al., "Revisiting Semi-Supervised Learning with Graph Embeddings" (ICML 2016).
Photo, Computers, CS, Physics: Shchur et al., "Pitfalls of Graph Neural Network Evaluation" (2018).
Actor (Film): Pei et al., "Geom-GCN: Geometric Graph Convolutional Networks" (ICLR 2020).
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fgl_repro.data.dataset import Published
from fgl_repro.data.sources.source import RawGraph, Source, of_pyg

_PLANETOID = "https://github.com/kimiyoung/planetoid/raw/master/data"
_SHCHUR = "https://github.com/shchur/gnn-benchmark/raw/master/data/npz"
_GEOM_GCN = "https://raw.githubusercontent.com/graphdml-uiuc-jlu/geom-gcn/master"
_PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
_FILM = {file: f"{_GEOM_GCN}/new_data/film/{file}" for file in ("out1_node_feature_label.txt", "out1_graph_edges.txt")}
_SPLITS = tuple(f"film_split_0.6_0.2_{index}.npz" for index in range(10))  # unused here, but PyG insists on them


def _source(dataset: str, *args: str, urls: Mapping[str, str], pinned: bool) -> Source:
    """The raw files of ``torch_geometric.datasets.<dataset>(root, *args)``.

    PyG writes ``processed/`` below its root, which must therefore be ours. Features are made sparse before PyG saves
    them: Physics alone would be a dense file of 1.2 GB.
    """

    def sparse_features(data: Any) -> Any:
        data.x = data.x.to_sparse_csr()
        return data

    def read(root: Path) -> RawGraph:
        import torch_geometric.datasets as datasets  # slow, and brings torch: only ever needed for raw files

        with contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings():  # PyG's "Processing... Done!"
            warnings.filterwarnings("ignore", message=".*[Ss]parse CSR.*")  # torch calls the layout beta
            return of_pyg(
                dataset, getattr(datasets, dataset)(str(root / dataset), *args, pre_transform=sparse_features)
            )

    return Source("/".join((dataset, *args, "raw")), urls, pinned, read)


def _planetoid(title: str) -> Source:
    files = [f"ind.{title.lower()}.{part}" for part in _PARTS]
    return _source("Planetoid", title, urls={file: f"{_PLANETOID}/{file}" for file in files}, pinned=True)


def _archive(dataset: str, title: str, file: str) -> Source:
    return _source(dataset, title, urls={file: f"{_SHCHUR}/{file}"}, pinned=False)


class Cora(Published):
    name = "cora"
    source = _planetoid("Cora")


class CiteSeer(Published):
    name = "citeseer"
    source = _planetoid("CiteSeer")


class PubMed(Published):
    name = "pubmed"
    source = _planetoid("PubMed")


class Photo(Published):
    name = "photo"
    source = _archive("Amazon", "Photo", "amazon_electronics_photo.npz")


class Computers(Published):
    name = "computers"
    source = _archive("Amazon", "Computers", "amazon_electronics_computers.npz")


class CS(Published):
    name = "cs"
    source = _archive("Coauthor", "CS", "ms_academic_cs.npz")


class Physics(Published):
    name = "physics"
    source = _archive("Coauthor", "Physics", "ms_academic_phy.npz")


class Actor(Published):
    name = "actor"
    source = _source("Actor", urls=_FILM | {file: f"{_GEOM_GCN}/splits/{file}" for file in _SPLITS}, pinned=True)
