"""A data set by name and form: one file with a class, and one yaml."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from fgl_repro.core.schema import Option, added
from fgl_repro.data.catalog import COMPONENTS, FEATURES
from fgl_repro.data.sources.source import RawGraph, Source

if TYPE_CHECKING:
    from fgl_repro.data.graph import Graph


@dataclass
class Dataset(Option):
    """A data set in one of its forms; it knows no clients. One of your own overrides ``raw``.

    Attributes:
        features: ``row`` (normalised, as FED-PUB does) or ``raw`` (the data set's own values).
        component: ``largest`` (connected component) or ``whole``.
    """

    axis: ClassVar[str] = "dataset"

    features: str = "row"
    component: str = added("largest")

    def check(self) -> None:
        self.one_of(features=FEATURES, component=COMPONENTS)

    @property
    def form(self) -> str:
        """The form in a word, by which its fingerprint and its cache file are found."""
        return self.features if self.component == "largest" else f"{self.component}-{self.features}"

    def raw(self, cache: Path) -> Any:
        """The whole graph as it comes: a PyG ``Data`` with ``x``, ``edge_index`` and ``y``, or a ``Dataset`` of one.

        Args:
            cache: Folder where downloads may be kept.
        """
        raise NotImplementedError(f"the data set {self.name} has no graph")

    def load(self, cache: Path) -> Graph:
        """The graph, from the folder ``cache`` or else from its raw files.

        Its content is compared with the published fingerprint or, where none is known, with that of the first load.

        Raises:
            UserError: No source has the data, a file is not what it should be, or the content has changed.
        """
        from fgl_repro.data import process

        return process.load(self, cache)


@dataclass
class Published(Dataset):
    """A data set of the catalogue: its sizes, checksums and fingerprints are known beforehand."""

    source: ClassVar[Source]

    def raw(self, cache: Path) -> RawGraph:
        from fgl_repro.data import download

        return download.obtain(self.name, cache)
