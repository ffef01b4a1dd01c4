"""What is known beforehand of every data set: sizes, checksums of raw files, fingerprints. Imports nothing heavy."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fgl_repro.core.errors import UserError

STORED = Path(__file__).parent / "stored"
FEATURES = ("row", "raw")
COMPONENTS = ("largest", "whole", "featured")


@dataclass(frozen=True)
class Facts:
    """Published or measured facts of one data set.

    Where neither fingerprints nor checksums are known, the sizes decide whether a graph is the published one.

    Attributes:
        display: Name as papers print it.
        full_nodes, full_edges: Size of the whole graph as PyG counts it (``edge_index.shape[1]``).
        nodes, edges: Largest connected component, undirected edges; 0 if not known.
        features, classes: Feature dimension and number of classes.
        fingerprint: ``Graph.fingerprint`` by form: ``row`` and ``raw`` of the component, ``whole-raw``; or empty.
        sha256: Raw file (path in PyG's layout) to SHA-256; empty if not known.
        graphs: Graphs of each environment, where the data set is one of graphs: ``full_nodes`` and ``full_edges`` are
            then those of all graphs together.
        rebuilt: In what it differs from the data set of that name; empty where it does not.
    """

    display: str
    full_nodes: int
    full_edges: int
    nodes: int
    edges: int
    features: int
    classes: int
    fingerprint: Mapping[str, str]
    sha256: Mapping[str, str]
    graphs: Sequence[int] = ()
    rebuilt: str = ""


_TABLE: dict[str, Any] = json.loads((STORED / "catalog.json").read_text())
_FACTS = {name: Facts(**known) for name, known in _TABLE["datasets"].items()}

UNKNOWN = Facts("", 0, 0, 0, 0, 0, 0, {}, {})
"""What is known beforehand of a data set that is drawn, or is one's own: nothing."""

NAMES = tuple(_FACTS)
"""Data sets of which anything is known, in the order in which tables have them."""

PACKAGE: Mapping[str, str] = _TABLE["package"]
"""SHA-256 of the raw files inside the package-index fallback, by path in its archive."""


def facts(name: str) -> Facts:
    """Return the facts of data set ``name``, or raise a UserError listing the names if there is none."""
    if name not in _FACTS:
        raise UserError(f"no data set {name!r}: choose one of {', '.join(NAMES)}")
    return _FACTS[name]


def printed_as(name: str) -> str:
    """Return a data set's name as papers print it, by which printed numbers are found."""
    return _FACTS[name].display if name in _FACTS else name


def rebuilt(name: str) -> str:
    """Tell in what data set ``name`` differs from the published one.

    The text is empty where it does not, or nothing is known of it.
    """
    return _FACTS[name].rebuilt if name in _FACTS else ""


def rebuilds(names: Iterable[str]) -> str:
    """Tell which data sets are not the published ones, and why: ``CMNIST/Color is a rebuild: ...``.

    The text is empty where all are.
    """
    known = {name: rebuilt(name) for name in names}
    return " ".join(f"{printed_as(name)} is a rebuild: {why}." for name, why in known.items() if why)
