"""The graphs that PyG reads: the citation networks of Planetoid, Amazon's and Coauthor's, Actor, and four large ones.

Cora, CiteSeer, PubMed: Yang et al., "Revisiting Semi-Supervised Learning with Graph Embeddings" (ICML 2016).
Photo, Computers, CS, Physics: Shchur et al., "Pitfalls of Graph Neural Network Evaluation" (2018).
Actor (Film): Pei et al., "Geom-GCN: Geometric Graph Convolutional Networks" (ICLR 2020).
Reddit: Hamilton et al., "Inductive Representation Learning on Large Graphs" (NeurIPS 2017).
Flickr, and Reddit2, which is Reddit with fewer links: Zeng et al., "GraphSAINT" (ICLR 2020).
genius: Lim et al., "Large Scale Learning on Non-Homophilous Graphs" (NeurIPS 2021).
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fgl_repro.data.dataset import CatalogDataset
from fgl_repro.data.sources.source import RawGraph, Source, of_pyg

_PLANETOID = "https://github.com/kimiyoung/planetoid/raw/master/data"
_SHCHUR = "https://github.com/shchur/gnn-benchmark/raw/master/data/npz"
_GEOM_GCN = "https://raw.githubusercontent.com/graphdml-uiuc-jlu/geom-gcn/master"
_PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
_FILM = {file: f"{_GEOM_GCN}/new_data/film/{file}" for file in ("out1_node_feature_label.txt", "out1_graph_edges.txt")}
_SPLITS = tuple(f"film_split_0.6_0.2_{index}.npz" for index in range(10))  # unused here, but PyG insists on them

_DRIVE = "https://drive.usercontent.google.com/download?confirm=t&id="
_LINKX = "https://github.com/CUAI/Non-Homophily-Large-Scale/raw/master/data"
_SAINT = ("adj_full.npz", "feats.npy", "class_map.json", "role.json")


def _source(dataset: str, *args: str, urls: Mapping[str, str], pinned: bool, archive: str = "") -> Source:
    """Describe the raw files of ``torch_geometric.datasets.<dataset>(root, *args)``.

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

    return Source("/".join((dataset, *args, "raw")), urls, pinned, read, archive)


def _planetoid(title: str) -> Source:
    files = [f"ind.{title.lower()}.{part}" for part in _PARTS]
    return _source("Planetoid", title, urls={file: f"{_PLANETOID}/{file}" for file in files}, pinned=True)


def _archive(dataset: str, title: str, file: str) -> Source:
    return _source(dataset, title, urls={file: f"{_SHCHUR}/{file}"}, pinned=False)


def _saint(dataset: str, *ids: str) -> Source:
    return _source(dataset, urls={f: f"{_DRIVE}{own}" for f, own in zip(_SAINT, ids, strict=True)}, pinned=False)


class Cora(CatalogDataset):
    name = "cora"
    source = _planetoid("Cora")


class CiteSeer(CatalogDataset):
    name = "citeseer"
    source = _planetoid("CiteSeer")


class PubMed(CatalogDataset):
    name = "pubmed"
    source = _planetoid("PubMed")


class Photo(CatalogDataset):
    name = "photo"
    source = _archive("Amazon", "Photo", "amazon_electronics_photo.npz")


class Computers(CatalogDataset):
    name = "computers"
    source = _archive("Amazon", "Computers", "amazon_electronics_computers.npz")


class CS(CatalogDataset):
    name = "cs"
    source = _archive("Coauthor", "CS", "ms_academic_cs.npz")


class Physics(CatalogDataset):
    name = "physics"
    source = _archive("Coauthor", "Physics", "ms_academic_phy.npz")


class Actor(CatalogDataset):
    name = "actor"
    source = _source("Actor", urls=_FILM | {file: f"{_GEOM_GCN}/splits/{file}" for file in _SPLITS}, pinned=True)


class Flickr(CatalogDataset):
    name = "flickr"
    source = _saint(
        "Flickr",
        "1crmsTbd1-2sEXsGwa2IKnIB7Zd3TmUsy",
        "1join-XdvX3anJU_MLVtick7MgeAQiWIZ",
        "1uxIkbtg5drHTsKt-PAsZZ4_yJmgFmle9",
        "1htXCtuktuCW8TR8KiKfrFDAxUgekQoV7",
    )


class Reddit(CatalogDataset):
    name = "reddit"
    source = _source(
        "Reddit",
        urls={file: file for file in ("reddit_data.npz", "reddit_graph.npz")},
        pinned=False,
        archive="https://data.dgl.ai/dataset/reddit.zip",
    )


class Reddit2(CatalogDataset):
    name = "reddit2"
    source = _saint(
        "Reddit2",
        "1sncK996BM5lpuDf75lDFqCiDZyErc1c2",
        "1ZsHaJ0ussP1W722krmEIp_8pwKAoi5b3",
        "1JF3Pjv9OboMNYs2aXRQGbJbc4t_nDd5u",
        "1nJIKd77lcAGU4j-kVNx_AIGEkveIKz3A",
    )


class Genius(CatalogDataset):
    name = "genius"
    source = _source("LINKXDataset", "genius", urls={"data.mat": f"{_LINKX}/genius.mat"}, pinned=False)
