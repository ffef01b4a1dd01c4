"""The real graphs by name: ``load("cora", Path("cache"))``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fgl_repro.data.catalog import COMPONENTS, FEATURES, NAMES, Facts, facts

if TYPE_CHECKING:
    from fgl_repro.data.graph import Graph

__all__ = ["COMPONENTS", "FEATURES", "NAMES", "Facts", "facts", "load"]


def load(name: str, cache: Path, features: str = "row", component: str = "largest") -> Graph:
    """The graph of data set ``name`` (of ``NAMES``, or of a package of one's own) in one of its forms.

    Raises:
        UserError: There is no such name, or as :meth:`fgl_repro.data.dataset.Dataset.load`.
    """
    from fgl_repro.core.registry import option

    graph: Graph = option("dataset", name)(features, component).load(cache)
    return graph
