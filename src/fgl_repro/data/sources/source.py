"""The form every raw source takes: which files, from which addresses, read how."""

from __future__ import annotations

import contextlib
import io
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fgl_repro.core.lazy import sparse as sp


@dataclass(frozen=True)
class RawGraph:
    """A whole data set as its files hold it, before any processing.

    Attributes:
        features: CSR float32 ``[N, d]``.
        edges: Directed edge list int64 ``[2, E]``; may hold self-loops.
        labels: int64 ``[N]``.
        num_classes: Number of classes C.
        origin: Where the files were found, for messages.
    """

    features: sp.csr_matrix
    edges: np.ndarray
    labels: np.ndarray
    num_classes: int
    origin: str = ""


@dataclass(frozen=True)
class Source:
    """Raw files of one data set in PyG's layout.

    Attributes:
        folder: Folder of the raw files under the data root, for example ``Planetoid/Cora/raw``.
        urls: File name to the address PyG downloads it from or, where there is an archive, to the path in that.
        pinned: Whether a file must have the stored SHA-256. Planetoid's are pickles, so theirs must. ``.npz`` archives
            circulate in several wrappings with equal arrays; for them the contents decide.
        read: Reads a staged data root (not the raw folder) with PyG's class.
        archive: Address of the zip archive that holds the files; empty if each has an address of its own.
    """

    folder: str
    urls: Mapping[str, str]
    pinned: bool
    read: Callable[[Path], RawGraph]
    archive: str = ""


def unzipped(archive: bytes, members: Iterable[str]) -> dict[str, bytes]:
    """Contents of ``members`` of a zip archive, by path in it; the others are not looked at, nothing is written.

    Raises:
        OSError: It is no zip archive, or lacks a member.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as opened:
            return {member: opened.read(member) for member in members}
    except (zipfile.BadZipFile, KeyError, EOFError, zlib.error) as error:
        raise OSError(f"not the expected archive ({error})") from error


def through_pyg(dataset: str, root: Path, *args: str) -> RawGraph:
    """Process the raw files below ``root`` with ``torch_geometric.datasets.<dataset>(root, *args)``.

    PyG writes ``processed/`` below ``root``, which must therefore be ours. Features are made sparse before PyG saves
    them: Physics alone would be a dense file of 1.2 GB.
    """
    import torch_geometric.datasets as datasets  # slow, and brings torch: only ever needed for raw files

    with contextlib.redirect_stderr(io.StringIO()):  # PyG's "Processing... Done!"
        data_set = getattr(datasets, dataset)(str(root), *args, pre_transform=_sparse_features)
    data = data_set[0]
    values = (data.x.values(), data.x.col_indices(), data.x.crow_indices())
    return RawGraph(
        features=sp.csr_matrix(tuple(value.numpy() for value in values), shape=tuple(data.x.shape)),
        edges=data.edge_index.numpy(),
        labels=data.y.numpy().astype(np.int64),
        num_classes=int(data_set.num_classes),
    )


def _sparse_features(data: Any) -> Any:
    import warnings

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*[Ss]parse CSR.*")  # torch calls the layout beta
        data.x = data.x.to_sparse_csr()
    return data
