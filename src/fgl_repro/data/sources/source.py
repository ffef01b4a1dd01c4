"""The form every raw source takes: which files, from which addresses, read how."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fgl_repro.core.errors import UserError
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
        read: Reads a staged data root (not the raw folder): a :class:`RawGraph`, or whatever a data set of graphs is
            made from.
        archive: Address of the zip archive that holds the files; empty if each has an address of its own.
    """

    folder: str
    urls: Mapping[str, str]
    pinned: bool
    read: Callable[[Path], Any]
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


def of_pyg(name: str, given: Any) -> RawGraph:
    """The arrays of a PyG ``Data``, or of a ``Dataset`` of one graph; a :class:`RawGraph` unchanged.

    Args:
        name: Name of the data set, for messages.

    Raises:
        UserError: It is something else, or holds several graphs, or lacks features, edges or a class of each node.
    """
    if isinstance(given, RawGraph):
        return given
    from torch_geometric.data import Data, Dataset

    if isinstance(given, list | tuple | Dataset) and len(given) != 1:
        raise UserError(
            f"the data set {name} holds {len(given)} graphs: a federation is cut from one. Where whole graphs are what "
            "something is predicted about, derive the data set from data.graph_dataset.GraphDataset."
        )
    data = given[0] if isinstance(given, Dataset) else given
    if not isinstance(data, Data) or data.x is None or data.edge_index is None or data.y is None:
        raise UserError(
            f"raw() of the data set {name} must give a PyG Data with x, edge_index and y, not {data!r:.80}."
        )
    labels = data.y.numpy()
    if not len(data.x) or labels.shape != (len(data.x),) or labels.dtype.kind not in "iu" or labels.min(initial=0) < 0:
        raise UserError(f"y of the data set {name} must hold the class of each node, from 0, as whole numbers [N].")
    edges, x = data.edge_index.numpy(), data.x
    if edges.size and not 0 <= edges.min() <= edges.max() < len(x):
        raise UserError(f"edge_index of the data set {name} names nodes that x does not have.")
    parts = (x.values(), x.col_indices(), x.crow_indices()) if x.is_sparse_csr else (x.to_dense(),)
    arrays = [part.numpy() for part in parts]
    features = sp.csr_matrix(tuple(arrays) if len(arrays) > 1 else arrays[0], shape=tuple(x.shape), dtype=np.float32)
    if not np.isfinite(features.data).all():
        raise UserError(f"x of the data set {name} has values that are no finite number.")
    classes = max(int(labels.max()) + 1, int(given.num_classes) if isinstance(given, Dataset) else 0)
    return RawGraph(features, edges, labels.astype(np.int64), classes, f"the data set {name}")
