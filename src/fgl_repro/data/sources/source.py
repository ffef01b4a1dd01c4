"""The form every raw source takes: which files, from which addresses, read how."""

from __future__ import annotations

import hashlib
import io
import operator
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fgl_repro.core.errors import UserError
from fgl_repro.core.lazy import sparse as sp
from fgl_repro.data.graph_checks import of_matrix


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
        urls: File name to its address (the one that PyG has, too) or, where there is an archive, to the path in that.
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
    """Read ``members`` of a zip archive, by path in it; the others are not looked at, nothing is written.

    Raises:
        OSError: It is no zip archive, or lacks a member.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as opened:
            return {member: opened.read(member) for member in members}
    except (zipfile.BadZipFile, KeyError, EOFError, zlib.error) as error:
        raise OSError(f"not the expected archive ({error})") from error


def of_pyg(name: str, given: Any) -> RawGraph:
    """Return the arrays of a PyG ``Data``, or of a ``Dataset`` of one graph; a :class:`RawGraph` unchanged.

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
    x, edges = features_of(f"the data set {name}", data.x), links_of(f"the data set {name}", data.edge_index)
    labels = data.y.cpu().long().numpy() if _whole(data.y) else np.zeros(0)
    parts = (x.values(), x.col_indices(), x.crow_indices()) if x.is_sparse_csr else (x.to_dense(),)
    arrays = [part.numpy() for part in parts]
    values = tuple(arrays) if len(arrays) > 1 else arrays[0]
    with np.errstate(over="ignore"):  # what is too large for float32 is refused in a sentence
        features = sp.csr_matrix(values, shape=tuple(x.shape), dtype=np.float32)
    known = int(given.num_classes) if isinstance(given, Dataset) else 0
    if not known and labels.size and labels.min() > 0:
        raise UserError(
            f"y of the data set {name} begins with {labels.min()}: count classes from 0, or give a PyG Dataset."
        )
    classes = max(int(labels.max(initial=-1)) + 1, known)
    return checked(name, RawGraph(features, edges, labels, classes, f"the data set {name}"))


def digest_of(given: Any) -> str:
    """Digest what makes another graph of a PyG ``Data`` with dense tensors, which is quick.

    The digest is empty of anything else. The same graph may have another digest, as where features are of other types.
    """
    import torch
    from torch_geometric.data import Data

    parts = [given.x, given.edge_index, given.y] if isinstance(given, Data) else []
    if not parts or not all(isinstance(part, torch.Tensor) and part.layout == torch.strided for part in parts):
        return ""
    digest = hashlib.sha256()
    try:
        for part in parts:
            digest.update(f"{part.dtype} {list(part.shape)}".encode())
            digest.update(part.detach().cpu().flatten().view(torch.uint8).numpy().data)
    except (RuntimeError, NotImplementedError):  # what has no bytes is refused in a sentence, as no graph
        return ""
    return digest.hexdigest()


def tell_of_masks(name: str, given: Any) -> None:
    """Say on stderr which masks what :func:`of_pyg` takes has, since whoever made them may expect them to be read."""
    if isinstance(given, RawGraph):
        return
    from torch_geometric.data import Dataset

    data = given[0] if isinstance(given, Dataset) else given
    if unread := [mask for mask in ("train_mask", "val_mask", "test_mask") if mask in data]:
        which = f"{', '.join(unread)} of {name} are not read, the protocol draws the split"
        print(f"{which}: docs/adding.md says how to have one's own.", file=sys.stderr)


def checked(name: str, raw: RawGraph) -> RawGraph:
    """Return ``raw``, be it made from PyG's ``Data`` or somebody's own.

    Args:
        name: Name of the data set, for messages.

    Raises:
        UserError: Its arrays are not what :class:`RawGraph` says, or do not fit together.
    """
    x, edges, labels = raw.features, _long(raw.edges), _long(raw.labels)
    for fault in of_matrix("features", x):
        raise UserError(f"the data set {name}: {fault}.")
    nodes, columns = x.shape
    if labels is None or not nodes or labels.shape != (nodes,) or labels.min() < 0:
        raise UserError(f"y of the data set {name} must hold the class of each node, from 0, as whole numbers [N].")
    if not columns:
        raise UserError(f"x of the data set {name} has no columns: give each node a feature, such as a 1.")
    if edges is None or edges.ndim != 2 or len(edges) != 2:
        raise UserError(f"edges of the data set {name} must be a NumPy array of whole numbers [2, links].")
    if edges.size and not 0 <= edges.min() <= edges.max() < nodes:
        raise UserError(f"edge_index of the data set {name} names nodes that x does not have.")
    if not np.isfinite(x.data).all():
        raise UserError(f"x of the data set {name} has values that are no finite number.")
    try:
        classes = operator.index(raw.num_classes)
    except TypeError:
        raise UserError(
            f"num_classes of the data set {name} must be a whole number, not {raw.num_classes!r}."
        ) from None
    if classes > nodes:
        raise UserError(f"y of the data set {name} has {classes} classes for {nodes} nodes: number them 0, 1, 2, ...")
    if labels.max() >= classes:
        raise UserError(f"y of the data set {name} has class {labels.max()}, num_classes is {classes}.")
    return replace(raw, edges=edges, labels=labels, num_classes=classes)


def _long(given: Any) -> np.ndarray | None:
    """Return an array of whole numbers as int64, in this machine's order of bytes; None for anything else."""
    return given.astype(np.int64) if isinstance(given, np.ndarray) and given.dtype.kind in "iu" else None


def features_of(what: str, x: Any) -> Any:
    """Return the tensor ``x`` of a PyG ``Data``, dense or sparse, on the CPU.

    Args:
        what: Whose it is, for messages.

    Raises:
        UserError: It is no tensor ``[nodes, features]``, or its numbers are of a type that NumPy does not have.
    """
    import torch

    try:
        good = isinstance(x, torch.Tensor) and not (x.is_nested or x.is_meta) and x.dim() == 2 and not x.is_complex()
        _ = torch.empty(0, dtype=x.dtype).numpy() if good else None
    except TypeError:
        good = False
    if not good:
        kind = "a tensor [nodes, features] of a type that NumPy has"
        raise UserError(f"x of {what} must be {kind}, not {_described(x)}: call torch.as_tensor(x).float().")
    return x.detach().cpu()


def links_of(what: str, edge_index: Any) -> np.ndarray:
    """Return the tensor ``edge_index`` of a PyG ``Data`` as int64 ``[2, E]``.

    Args:
        what: Whose it is, for messages.

    Raises:
        UserError: It is something else; what only looks like it would be another graph.
    """
    import torch

    dense = isinstance(edge_index, torch.Tensor) and edge_index.layout == torch.strided and edge_index.dim() == 2
    if not dense or len(edge_index) != 2 or (edge_index.numel() and not _whole(edge_index)):
        kind = "a dense tensor of whole numbers [2, links]"
        raise UserError(f"edge_index of {what} must be {kind}, not {_described(edge_index)}: transpose or convert it.")
    links: np.ndarray = edge_index.detach().cpu().long().numpy()
    return links


def _whole(value: Any) -> bool:
    """Tell whether ``value`` is a dense tensor of whole numbers."""
    import torch

    if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        return False
    return not (value.is_floating_point() or value.is_complex() or value.dtype == torch.bool)


def _described(value: Any) -> str:
    """Say what ``value`` is, in a few words."""
    import torch

    if not isinstance(value, torch.Tensor):
        return f"{type(value).__module__}.{type(value).__name__}"
    if value.is_nested or value.is_meta:
        return f"a {'nested tensor' if value.is_nested else 'tensor without data'}"
    return f"{value.dtype} {list(value.shape)}{'' if value.layout == torch.strided else f' as {value.layout}'}"
