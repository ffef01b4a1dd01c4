"""A data set by name and form."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from fgl_repro.core.schema import Option, added
from fgl_repro.data.catalog import COMPONENTS, FEATURES
from fgl_repro.data.sources.source import Source

if TYPE_CHECKING:
    from fgl_repro.data.graph import Graph


@dataclass
class Dataset(Option):
    """A data set in one of its forms; it knows no clients.

    Attributes:
        features: ``row`` (normalised, as FED-PUB does) or ``raw`` (the data set's own values).
        component: ``largest`` (connected component) or ``whole``.
    """

    axis: ClassVar[str] = "dataset"

    features: str = "row"
    component: str = added("largest")

    def check(self) -> None:
        self.one_of(features=FEATURES, component=COMPONENTS)

    def load(self, cache: Path) -> Graph:
        """The graph, from the folder ``cache`` or else from its raw files.

        Raises:
            UserError: No source has the data, or a file is not what it should be.
        """
        from fgl_repro.data import process

        return process.load(self.name, cache, self.features, self.component)


@dataclass
class Published(Dataset):
    """A data set of the catalogue: its sizes, checksums and fingerprints are known beforehand."""

    source: ClassVar[Source]
