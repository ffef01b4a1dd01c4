"""The real graphs by name: ``load("cora", Path("cache"))``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fgl_repro.data.catalog import COMPONENTS, FEATURES, NAMES, Facts, facts

if TYPE_CHECKING:
    from fgl_repro.data.graph import Graph

__all__ = ["COMPONENTS", "FEATURES", "NAMES", "Facts", "facts", "load"]


def load(name: str, cache: Path, features: str = "row", component: str = "largest") -> Graph:
    """The graph of data set ``name``, from the cache or else from its raw files.

    Args:
        name: One of ``NAMES``, or of a package of one's own.
        cache: Folder for downloads and processed graphs; created if missing.
        features: ``row`` for row-normalised features (FED-PUB's), ``raw`` for the data set's own values.
        component: ``largest`` for the largest connected component, ``whole`` for every node of the files.

    Raises:
        UserError: Unknown name, no source has the data, or a file is not what it should be.
    """
    from fgl_repro.core.registry import option

    graph: Graph = option("dataset", name)(features, component).load(cache)
    return graph
