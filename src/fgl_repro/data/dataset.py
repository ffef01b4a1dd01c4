"""A data set by name and form: one class, and one yaml. Its graph is cached and recognised by its content."""

from __future__ import annotations

import hashlib
import json
import sys
from contextlib import nullcontext, suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from fgl_repro.core.errors import UserError
from fgl_repro.core.files import write_atomic
from fgl_repro.core.schema import Option, added
from fgl_repro.data.catalog import COMPONENTS, FEATURES, NAMES, Facts, facts
from fgl_repro.data.sources.source import RawGraph, Source, checked, digest_of, of_pyg, tell_of_masks

if TYPE_CHECKING:
    from fgl_repro.data.graph import Graph

CACHE_VERSION = 1  # raise by hand when the processing or the cache's layout changes

_GIVEN: dict[tuple[type, str, Path], tuple[str, str]] = {}
"""What a data set gave last in this process, by its class, its identity and the cache folder: a digest of the raw data,
which costs little, and the fingerprint of the graph that was made of it, which costs more."""


@dataclass
class Dataset(Option):
    """This is a data set in one of its forms; it knows no clients. One of your own overrides ``raw``.

    Attributes:
        unit: What something is predicted about: a ``node``, or a whole ``graph`` where the data set has many.
        features: ``row`` (normalised, as FED-PUB does) or ``raw`` (the data set's own values).
        component: ``largest`` (connected component), ``whole``, or ``featured``: all nodes that have any feature.
    """

    axis: ClassVar[str] = "dataset"
    unit: ClassVar[str] = "node"

    features: str = "row"
    component: str = added("largest")

    def check(self) -> None:
        self.one_of(features=FEATURES, component=COMPONENTS)

    @property
    def form(self) -> str:
        """Name the form in a word, by which its fingerprint and its cache file are found.

        A data set of this package that has fields of its own says them here.
        """
        return self.features if self.component == "largest" else f"{self.component}-{self.features}"

    @property
    def known(self) -> Facts | None:
        """Return what the catalogue says of it; None for a data set of one's own."""
        return facts(self.name) if self.name in NAMES else None

    @property
    def announced(self) -> bool:
        """Whether a notebook or script defines it, which may give another graph each time though its text is the same.

        ``announce`` notes the text.
        """
        return "source" in self.recorded

    def raw(self, cache: Path) -> Any:
        """Return the whole graph as it comes: a PyG ``Data`` with ``x``, ``edge_index``, ``y``, or a ``Dataset``.

        Args:
            cache: Folder where downloads may be kept.
        """
        raise NotImplementedError(f"the data set {self.name} has no graph")

    def cache_path(self, cache: Path) -> Path:
        """Return the file of the processed graph.

        Where nobody has published a fingerprint, one of the first load is beside it.
        """
        return cache / "graphs" / f"{self.name}-{self.form}{self._mark()}-v{CACHE_VERSION}.npz"

    def _mark(self) -> str:
        """Return a digest of the identity, so that what has another key never gets this graph.

        It is empty for data sets of this package in their first revision, of whose fields their form says all. Those of
        one's own have fields, a revision and, if announced, a text that no form knows of.
        """
        says = next(of for of in type(self).__mro__ if "form" in vars(of))
        whole = {f.name for f in fields(self)} <= {f.name for f in fields(says)}
        ours = type(self).__module__.startswith("fgl_repro.")
        if whole and ours and self.constants() == {self.named: self.name, "revision": Dataset.revision}:
            return ""
        return f"-{self._digest}"

    @property
    def _digest(self) -> str:
        return hashlib.sha256(json.dumps(self.identity(), sort_keys=True).encode()).hexdigest()[:12]

    def load(self, cache: Path, *, split_drawn: bool = True) -> Graph:
        """Load the graph from the folder ``cache``. It is built first if it is not there, or is not what it should be.

        Its content is compared with the published fingerprint or, where none is known, with that of the first load. Of
        an announced data set, what it gives now is compared, too, once in a process.

        Args:
            cache: Folder of downloads and processed graphs.
            split_drawn: Whether the protocol draws the split. Masks of a graph that is built are then not read, which
                is said; otherwise a partitioner says who trains, and may have its roles from them.

        Raises:
            UserError: No source has the data, a file is not what it should be, the content has changed, or ``cache``
                cannot be written.
        """
        from fgl_repro.data import process

        path = self.cache_path(cache)
        pin = path.with_suffix(".json")
        expected = self._expected(_pinned(pin))
        graph = process.read_cache(path, self.name)
        if graph is not None and not expected.items() <= _learned(graph).items():
            print(f"{path} does not hold the {self.name} it should: built again from the raw files.", file=sys.stderr)
            graph = None
        cached = graph is not None
        if graph is not None and self.announced:
            self.refuse_other_graph(graph.fingerprint, cache)
        if graph is None:
            graph = self.build(cache, split_drawn=split_drawn)
            fingerprint = expected.get("fingerprint", graph.fingerprint)
            if graph.fingerprint != fingerprint:
                raise UserError(
                    f"{self.name} ({self.form}) has fingerprint {graph.fingerprint[:12]}..., expected "
                    f"{fingerprint[:12]}...: if it was changed on purpose, raise its revision, "
                    f"or delete {pin} if no run has used it"
                )
            process.write_cache(path, graph)
            _GIVEN[type(self), self._digest, cache] = "", graph.fingerprint
        if "fingerprint" not in expected:
            with suppress(OSError) if cached else nullcontext():  # others' cache, which may be read-only, will do
                write_atomic(pin, json.dumps(_learned(graph), indent=1) + "\n")
        return graph

    def refuse_other_graph(self, fingerprint: str, cache: Path, *, anew: bool = False) -> None:
        """Refuse what ``raw`` or ``graphs`` gives where it is another graph than the one that runs rest on.

        Args:
            fingerprint: That of the graph that runs rest on.
            cache: Folder where downloads may be kept.
            anew: Whether to call it though this process has: a notebook may have changed what it refers to since.

        Raises:
            UserError: It is another graph, or none at all.
        """
        where = type(self), self._digest, cache
        known = _GIVEN.get(where)
        if known is None or anew:
            try:
                given = self._given(cache)
            except OSError:  # its files cannot be read here, and the graph that was made of them will do
                _GIVEN.pop(where, None)
                return
            digest = digest_of(given)
            if known is None or not digest or digest != known[0]:
                known = digest, self._made(given).fingerprint
            _GIVEN[where] = known
        if known[1] != fingerprint:
            raise self.other_graph(fingerprint, known[1])

    def refuse_change(self, cache: Path) -> None:
        """Refuse what ``raw`` or ``graphs`` gives now where it is not the cached graph.

        Raises:
            UserError: As ``refuse_other_graph``.
        """
        if pin := _pinned(self.cache_path(cache).with_suffix(".json")):
            self.refuse_other_graph(pin["fingerprint"], cache, anew=True)
        else:
            _GIVEN.pop((type(self), self._digest, cache), None)

    def other_graph(self, fingerprint: str, given: str) -> UserError:
        """Say that runs rest on the graph of one ``fingerprint``, and that the one ``given`` now has another."""
        kind = type(self)
        return UserError(
            f"{self.name} ({self.form}): its runs rest on the graph {fingerprint[:12]}..., and what `raw` or `graphs` "
            f"gives now is {given[:12]}...: raise revision in its class (`revision = {kind.revision + 1}` in "
            f"{kind.__name__}), so that it is another data set, or let it give the same each time"
        )

    def _expected(self, pin: dict[str, Any]) -> dict[str, Any]:
        """Return what is known of the graph.

        That is the published sizes and fingerprint, else those at first load, if there was.
        """
        if self.known is None:
            return pin
        fingerprint = self.known.fingerprint.get(self.form) or pin.get("fingerprint")
        return self.published_sizes() | ({"fingerprint": fingerprint} if fingerprint else {})

    def published_sizes(self) -> dict[str, Any]:
        """Return what the catalogue says of the graph's sizes; empty for a data set of one's own."""
        if self.known is None:
            return {}
        sizes = {"features": self.known.features, "classes": self.known.classes}
        whole, part = {"nodes": self.known.full_nodes}, {"nodes": self.known.nodes, "edges": self.known.edges}
        return sizes | {"whole": whole, "largest": part if self.known.nodes else {}}.get(self.component, {})

    def build(self, cache: Path, *, split_drawn: bool = True) -> Graph:
        """Build the graph from its raw files, past the cache of processed graphs.

        Args:
            cache, split_drawn: As for ``load``.

        Raises:
            UserError: As ``load``.
        """
        from fgl_repro.data import download

        download.writable(cache)
        given = self._given(cache)
        graph = self._made(given)
        if split_drawn and self.unit == "node":
            tell_of_masks(self.name, given)
        return graph

    def _given(self, cache: Path) -> Any:
        return self.raw(cache)

    def _made(self, given: Any) -> Graph:
        """Make the graph of what ``raw`` has given."""
        from fgl_repro.data import process

        raw = of_pyg(self.name, given)
        whole = process.whole_graph(self.name, checked(self.name, raw) if self.known is None else raw)
        part = process.largest_component(whole)
        if self.known is not None and (wrong := process.difference(raw, part, self.known)):
            raise UserError(
                f"{raw.origin} does not hold the published {self.name} ({wrong}): replace its files with the "
                "originals, or remove them to download them again"
            )
        graph = part if self.component == "largest" else whole
        graph = process.featured(whole) if self.component == "featured" else graph
        return graph if self.features == "raw" else process.row_normalised(graph)


@dataclass
class CatalogDataset(Dataset):
    """A data set of the catalogue: its sizes, checksums and fingerprints are known beforehand."""

    source: ClassVar[Source]

    def raw(self, cache: Path) -> RawGraph:
        from fgl_repro.data import download

        whole: RawGraph = download.obtain(self.name, cache)
        return whole


def _pinned(path: Path) -> dict[str, Any]:
    """Read what was noted at first load, fingerprint and sizes; empty before that, or where the file is damaged."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) and isinstance(found.get("fingerprint"), str) else {}


def _learned(graph: Graph) -> dict[str, Any]:
    return {"fingerprint": graph.fingerprint, **graph.sizes}
