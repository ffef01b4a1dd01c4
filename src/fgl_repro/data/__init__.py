"""The real graphs by name: ``load("cora", Path("cache"))``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fgl_repro.data.catalog import COMPONENTS, FEATURES, NAMES, Facts, facts

if TYPE_CHECKING:
    from fgl_repro.data.graph import Graph

__all__ = ["COMPONENTS", "FEATURES", "NAMES", "Facts", "facts", "load"]


def load(name: str, cache: Path, features: str | None = None, component: str | None = None) -> Graph:
    """Load the graph of data set ``name`` in one of its forms.

    What has further fields that are set is loaded by itself.

    Args:
        name: Of ``NAMES``, or of a package of one's own.
        cache: Folder of downloads and processed graphs.
        features, component: As :class:`fgl_repro.data.dataset.Dataset` has them; None: as that class has them.

    Raises:
        UserError: There is no such name, or as :meth:`fgl_repro.data.dataset.Dataset.load`.
    """
    from fgl_repro.core.registry import option

    form = {"features": features, "component": component}
    given = {field: value for field, value in form.items() if value is not None}
    graph: Graph = option("dataset", name)(**given).load(cache)
    return graph
