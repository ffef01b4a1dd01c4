"""A data set whose units are whole graphs, as an option of the axis: what it gives is a :class:`GraphSet`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fgl_repro.core.errors import UserError
from fgl_repro.core.lazy import sparse as sp
from fgl_repro.core.schema import added
from fgl_repro.data.dataset import Dataset
from fgl_repro.data.sources.source import Source  # OmegaConf evaluates annotations

if TYPE_CHECKING:
    from fgl_repro.data.graphset import GraphSet


@dataclass
class GraphDataset(Dataset):
    """A data set of graphs, each used whole and with the features it comes with. One of your own overrides ``graphs``.

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

    def graphs(self, cache: Path) -> GraphSet:
        """All graphs, in the order of their environments.

        Args:
            cache: Folder where downloads may be kept.
        """
        raise NotImplementedError(f"the data set {self.name} has no graphs")

    def build(self, cache: Path) -> GraphSet:
        from fgl_repro.data import download

        download.writable(cache)
        found = self.graphs(cache)
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
        """The versions that the published graphs were made with, and those at hand."""
        pairs = [f"{name} {old} (here {version(name)})" for name, old in self.made_with.items()]
        return f", which were made with {', '.join(pairs)}" if pairs else ""

    def published_sizes(self) -> dict[str, Any]:
        if self.known is None:
            return {}
        whole = {"nodes": self.known.full_nodes, "edges": self.known.full_edges // 2}
        described = {"features": self.known.features, "classes": self.known.classes}
        return {"graphs": sum(self.known.graphs), **whole, **described}


def disjoint_union(sizes: np.ndarray, counts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, sp.csr_matrix]:
    """Where each graph begins, int64 ``[N + 1]``, and the links of all graphs laid end to end.

    Args:
        sizes: Nodes of each graph, ``[N]``.
        counts: Links of each graph, ``[N]``, every link in both directions.
        ends: Links of one graph after the other, in a graph by their first node and then their second, both of which
            count from 0 in their graph, ``[2, E]``.
    """
    ptr = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    nodes = int(ptr[-1])
    source, target = (np.repeat(ptr[:-1].astype(np.int32), counts) for _ in range(2))
    source += ends[0]
    target += ends[1]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(source, minlength=nodes))]).astype(np.int32)
    return ptr, sp.csr_matrix((np.ones(len(target), dtype=np.float32), target, indptr), shape=(nodes, nodes))
