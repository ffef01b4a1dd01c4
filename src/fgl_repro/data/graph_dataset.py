"""A data set whose units are whole graphs, as an option of the axis: what it gives is a :class:`GraphSet`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from fgl_repro.core.errors import UserError
from fgl_repro.core.lazy import sparse as sp
from fgl_repro.core.schema import added
from fgl_repro.data import graph_checks
from fgl_repro.data.dataset import Dataset
from fgl_repro.data.graph import offsets
from fgl_repro.data.graphset import GraphSet
from fgl_repro.data.sources.source import Source, features_of, links_of  # OmegaConf evaluates annotations


@dataclass
class GraphDataset(Dataset):
    """Each graph of such a data set is used whole, with the features it comes with. Your own overrides ``graphs``.

    Attributes:
        source: Its raw files; None where it has none.
        made_with: Packages that the published graphs were made with, and their versions.
    """

    unit: ClassVar[str] = "graph"
    source: ClassVar[Source | None] = None
    made_with: ClassVar[Mapping[str, str]] = MappingProxyType({})

    features: str = "raw"
    component: str = added("whole")

    def check(self) -> None:
        for option, only in (("features", "raw"), ("component", "whole")):
            if (value := getattr(self, option)) != only:
                raise UserError(
                    f"dataset.{option}={value} is not for {self.name}, a data set of graphs, each used as it is: "
                    f"leave it at {only}."
                )

    @property
    def form(self) -> str:
        return "graphs"

    def graphs(self, cache: Path) -> Any:
        """Return all graphs: what :func:`of_pyg` takes, or a :class:`GraphSet` in the order of their environments.

        Args:
            cache: Folder where downloads may be kept.
        """
        instead = ", not raw()" if type(self).raw is not Dataset.raw else ""
        raise UserError(f"{self.name} is a data set of graphs, which the method graphs(cache) must give{instead}.")

    def _given(self, cache: Path) -> Any:
        return self.graphs(cache)

    def _made(self, given: Any) -> GraphSet:
        """Make the set of what ``graphs`` has given.

        Raises:
            UserError: They are not the published ones or, of one's own, no graphs that can be learned from.
        """
        found = given if isinstance(given, GraphSet) else of_pyg(self.name, given)
        if self.known is None:  # else the fingerprint or the sizes tell
            graph_checks.check(found)
        published = self.published_sizes()
        sizes = {what: (size, published[what]) for what, size in found.sizes.items() if what in published}
        wrong = [f"{size} {what}, expected {known}" for what, (size, known) in sizes.items() if size != known]
        if self.known is not None and (known := self.known.fingerprint.get(self.form, found.fingerprint)):
            same = found.fingerprint == known
            wrong += [] if same else [f"fingerprint {found.fingerprint[:12]}..., expected {known[:12]}..."]
        if wrong:
            mend = "" if self.made_with else ": replace its files with the originals"
            raise UserError(
                f"the graphs built are not the published {self.name} ({', '.join(wrong)}){self._tools()}{mend}."
            )
        return found

    def _tools(self) -> str:
        """Name the versions that the published graphs were made with, and those at hand."""
        pairs = [f"{name} {old} (here {version(name)})" for name, old in self.made_with.items()]
        return f", which were made with {', '.join(pairs)}" if pairs else ""

    def published_sizes(self) -> dict[str, Any]:
        if self.known is None:
            return {}
        whole = {"nodes": self.known.full_nodes, "edges": self.known.full_edges // 2}
        described = {"features": self.known.features, "classes": self.known.classes}
        return {"graphs": sum(self.known.graphs), **whole, **described}


def disjoint_union(sizes: np.ndarray, counts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, sp.csr_matrix]:
    """Return where each graph begins, int64 ``[N + 1]``, and the links of all graphs laid end to end.

    Args:
        sizes: Nodes of each graph, ``[N]``.
        counts: Links of each graph, ``[N]``, every link in both directions.
        ends: Links of one graph after the other, in a graph by their first node and then their second, both of which
            count from 0 in their graph, ``[2, E]``.

    Raises:
        UserError: The links are not in this order, are not as many as there are counted, or lead out of a graph.
    """
    if ends.ndim != 2 or len(ends) != 2 or len(sizes) != len(counts) or ends.shape[1] != counts.sum():
        raise UserError(
            f"disjoint_union got {len(sizes)} sizes, {len(counts)} counts that sum to {counts.sum()}, and ends "
            f"{list(ends.shape)}: give a size and a count for each graph, and ends [2, sum of the counts]."
        )
    if (ends < 0).any() or (ends >= np.repeat(sizes.astype(np.int32), counts)).any():
        raise UserError("disjoint_union got links that lead out of their graph: nodes count from 0 in each graph.")
    ptr = offsets(sizes)
    nodes = int(ptr[-1])
    source, target = (np.repeat(ptr[:-1].astype(np.int32), counts) for _ in range(2))
    source += ends[0]
    target += ends[1]
    same = source[1:] == source[:-1]
    if (source[1:] < source[:-1]).any() or (target[1:][same] <= target[:-1][same]).any():
        raise UserError(
            "disjoint_union got links out of order or twice: sort those of each graph by their first node and then "
            "their second, as numpy.unique does."
        )
    indptr = offsets(np.bincount(source, minlength=nodes)).astype(np.int32)
    return ptr, sp.csr_matrix((np.ones(len(target), dtype=np.float32), target, indptr), shape=(nodes, nodes))


def of_pyg(name: str, given: Sequence[Any]) -> GraphSet:
    """Put PyG ``Data`` of graphs together as one set, sorted by environment and else in their order.

    A graph has ``x``; ``edge_index``, of which each link is taken in both directions and once, and none from a node to
    itself; ``y``, a class as a whole number from 0 or a number to predict as a float; and an ``environment`` from 0,
    unless all are of one. Nothing else of it is used.

    Args:
        name: Name of the data set, for messages.
        given: A list or tuple, or a PyG ``Dataset``.

    Raises:
        UserError: It is something else, or a graph lacks something.
    """
    from torch_geometric.data import Data
    from torch_geometric.data import Dataset as PygDataset

    graphs = list(given) if isinstance(given, list | tuple | PygDataset) else []
    if not graphs or not all(isinstance(graph, Data) for graph in graphs):
        raise UserError(f"graphs() of {name} must give a list of PyG Data, or a GraphSet, not {given!r:.80}.")
    environment = np.array([_number(name, i, graph, "environment", 0) for i, graph in enumerate(graphs)])
    order = np.argsort(environment, kind="stable")
    given_y = [_number(name, i, graphs[i], "y") for i in order]
    if len({isinstance(y, float) for y in given_y}) > 1:
        raise UserError(f"y of {name} is a class for some graphs and a number to predict for others: give one kind.")
    answers = np.array(given_y)
    inside = [_inside(name, i, graphs[i]) for i in order]
    widths = {x.shape[1] for x, _ in inside}
    if len(widths) > 1:
        raise UserError(f"graphs of {name} have from {min(widths)} to {max(widths)} features a node: give all as many.")
    sizes, counts = (np.array(each) for each in zip(*((len(x), ends.shape[1]) for x, ends in inside), strict=True))
    ptr, links = disjoint_union(sizes, counts, np.concatenate([ends for _, ends in inside], axis=1))
    with np.errstate(over="ignore"):  # what is too large for float32 is refused in a sentence
        inner = sp.csr_matrix(np.concatenate([x for x, _ in inside]), dtype=np.float32)
    if answers.dtype.kind == "f":
        return GraphSet.of(name, ptr, inner, links, environment[order], targets=answers)
    if answers.min() != 0:
        raise UserError(f"y of the graphs of {name} begins with {answers.min()}: count classes from 0.")
    classes = max(int(answers.max()) + 1, int(given.num_classes) if isinstance(given, PygDataset) else 0)
    return GraphSet.of(name, ptr, inner, links, environment[order], labels=answers, num_classes=classes)


def _number(name: str, number: int, graph: Any, what: str, default: int | None = None) -> Any:
    """Read the one number that a graph has as ``y`` or ``environment``."""
    import torch

    value = getattr(graph, what, None)
    plain = value.detach().tolist() if isinstance(value, torch.Tensor) else value  # NumPy has no bfloat16
    found = np.asarray(default if value is None else plain)
    if found.size != 1 or found.dtype.kind not in ("iubf" if what == "y" else "iub"):
        kind = "a class or a number to predict" if what == "y" else "a whole number"
        raise UserError(f"{what} of graph {number} of {name} must be {kind}, not {value!r:.80}.")
    return found.item()


def _inside(name: str, number: int, graph: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return features ``[n, d]`` of a graph, and its links in both directions, sorted and once, ``[2, e]``."""
    if graph.x is None or graph.edge_index is None:
        raise UserError(f"graph {number} of {name} must have x [nodes, features] and edge_index [2, links].")
    what = f"graph {number} of {name}"
    x, links = features_of(what, graph.x).to_dense().numpy(), links_of(what, graph.edge_index)
    nodes = len(x)
    if links.size and not 0 <= links.min() <= links.max() < nodes:
        raise UserError(f"edge_index of graph {number} of {name} names nodes that x does not have.")
    a, b = links[:, links[0] != links[1]]
    both = np.unique(np.concatenate([a * nodes + b, b * nodes + a]))
    return x, np.stack([both // max(nodes, 1), both % max(nodes, 1)])
