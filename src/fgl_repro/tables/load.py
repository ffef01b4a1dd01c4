"""``conf/table/<paper>/<number>.yaml``: which tables and figures there are, and each of them read and checked.

The folder is the paper and the file is the number (``fig9``: Figure 9), so that two tables of one folder cannot share
the names of their files; tables of a user's own folder are refused where they would.
``_paper.yaml`` of the folder holds what the paper's tables share; ``like: "3"`` takes over another table of the paper.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from fgl_repro.config import AXES, options
from fgl_repro.config import folders as config_folders
from fgl_repro.core import registry
from fgl_repro.core.errors import UserError
from fgl_repro.fl.metrics import METRICS
from fgl_repro.tables.spec import ACCURACY, Options, Panel, Row, RowDifference, TableSpec, swept

FORMATS = ("percent", "fraction")
COLUMNS = ("clients", "panels")
PAPER = "_paper.yaml"
UNSAID = object()


def folders() -> list[Path]:
    """Folders that hold a folder for each paper: ours, then a user's."""
    return [folder / "table" for folder in config_folders()]


def _short(name: str) -> str:
    """``fedlog/table1``, ``fedlog-1`` and ``fedlog1`` are one name; so are ``fedsage/D1`` and ``fedsaged1``."""
    return re.sub(r"table|[/_-]", "", name.lower())


@cache
def _paths(searched: tuple[Path, ...]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    taken: dict[str, Path] = {}
    for path in (path for folder in searched for path in sorted(folder.glob("*/*.yaml")) if path.name != PAPER):
        if not re.fullmatch(r"[a-z0-9_]+/[A-Za-z0-9_][A-Za-z0-9_.]*", f"{path.parent.name}/{path.stem}"):
            raise UserError(f"the name of the table {path} is no word: rename file and folder to letters and digits.")
        other = taken.setdefault(_short(f"{path.parent.name}{path.stem}"), path)
        if other != path:
            raise UserError(f"the table {path} would overwrite the files of {other}: give its yaml another name.")
        found[f"{path.parent.name}/{path.stem}"] = path

    def order(name: str) -> tuple[str, bool, str, int, str]:
        paper, _, number = name.partition("/")
        word, digits, part = re.fullmatch(r"(\D*)(\d*)(.*)", number).groups()  # type: ignore[union-attr]
        return paper, word == "fig", word, int(digits or 0), part

    return {name: found[name] for name in sorted(found, key=order)}


def names() -> list[str]:
    """Tables and figures that there are, by paper, tables first, in the order of their numbers."""
    return list(_paths(tuple(folders())))


def papers() -> dict[str, str]:
    """Papers that have tables, and what they are called in print: ``fedlog``, ``FedLoG``."""
    return {spec.paper: spec.display for spec in map(load, names())}


def load(name: str) -> TableSpec:
    """The table or figure called ``name``: ``fedlog/1``, or in short ``fedlog1``, ``table1``, ``fig9`` (FedLoG's).

    Raises:
        UserError: It does not exist, or its yaml describes no table.
    """
    found = _paths(tuple(folders()))
    by_short = {_short(full): path for full, path in found.items()}
    path = by_short.get(_short(name)) or by_short.get("fedlog" + _short(name))
    if path is None:
        raise UserError(f"there is no table {name}: choose from {', '.join(found)}.")
    return parse(path)


@cache
def parse(path: Path) -> TableSpec:
    """Read one yaml.

    Raises:
        UserError: An entry is unknown, missing, or of no use; the sentence names it and the file.
    """
    shared = _shared(path)
    paper = _Entries(shared, f"{path.parent / PAPER}")
    display, known_rows = paper.text("name", path.parent.name), paper.mapping("rows", dict)
    known_panels = paper.mapping("panels", dict)
    said = _Entries(_merged(paper.mapping("defaults"), _with_like(path)), f"the table {path}")
    said.of_other_use("like")
    figure = path.stem.startswith("fig")
    rows = tuple(_row(row, known_rows, said) for row in said.items("rows", []))
    sweep = {str(dotted): list(values) for dotted, values in said.mapping("sweep", list).items()}
    if sweep and len(rows) != 1:  # swept rows are named by what is swept alone
        raise said.wrong(f"sweep needs one row, not {len(rows)}: keep one")
    rows = tuple(swept(rows[0], sweep)) if sweep else rows
    by_id = {row.id: row for row in rows}
    if len(by_id) < len(rows):
        raise said.wrong("two rows are the same method and variant: remove one, or give each an id")
    for dotted in (dotted for row in rows for dotted in row.overrides):
        if dotted.partition(".")[0] not in AXES:
            raise said.wrong(f"override {dotted} is of no axis: begin it with one of {', '.join(AXES)}")
    proposed = said.text("proposed", "")
    if proposed not in ("", *(row.name for row in rows)):
        raise said.wrong(f"proposed is {proposed}: choose one of its rows, {', '.join(row.name for row in rows)}")
    kind = said.text("kind", ACCURACY)
    panels = tuple(_panel(str(key), panel, known_panels, said) for key, panel in said.mapping("panels").items())
    if kind == ACCURACY and not (rows and panels):
        raise said.wrong("a grid of accuracies needs rows and panels: add them")
    spec = TableSpec(
        name=f"{path.parent.name}/{path.stem}",
        paper=path.parent.name,
        display=display,
        table=path.stem.removeprefix("fig"),
        title=said.text("title"),
        rows=rows,
        datasets=said.words("datasets", options("dataset")),
        clients=said.numbers("clients", 1),
        seeds=said.numbers("seeds", 0),
        partitioner=said.text("partitioner", among=options("partitioner")),
        protocols=said.words("protocols", options("protocol")),
        metric=said.text("metric", ACCURACY, METRICS),
        format=said.text("format", FORMATS[0], FORMATS),
        panels=panels,
        sort="figure" if figure else "table",
        kind=kind,
        model=said.text("model", "auto", options("model")),
        columns=said.text("columns", COLUMNS[0], COLUMNS),
        sweep=sweep,
        curves=said.flag("curves"),
        proposed=proposed,
        note=said.text("note", "").strip(),
        differences=tuple(
            _difference(str(name), pair, by_id, said) for name, pair in said.mapping("differences").items()
        ),
        options=Options(said.mapping("options"), said.of),
    )
    said.finish()
    try:
        registry.find("fgl_repro.tables.kinds", kind, "content", "kind")
    except UserError as error:
        raise said.wrong(str(error).rstrip(".")) from None
    return spec


def _read(path: Path) -> dict[str, Any]:
    try:
        found = OmegaConf.to_container(OmegaConf.load(path), resolve=True)
    except (OSError, UnicodeDecodeError, RecursionError, OmegaConfBaseException, YAMLError) as error:
        raise UserError(f"the table {path} cannot be read ({' '.join(str(error).split())}): mend the yaml.") from None
    if not isinstance(found, dict):
        raise UserError(f"the table {path} is no mapping of names to values: see the other files in that folder.")
    return {str(name): value for name, value in found.items()}


def _shared(path: Path) -> dict[str, Any]:
    """What the tables of the paper share, of the nearest folder that says it."""
    near = [path.parent / PAPER, *(folder / path.parent.name / PAPER for folder in folders())]
    return next((_read(file) for file in near if file.exists()), {})


def _with_like(path: Path, seen: tuple[Path, ...] = ()) -> dict[str, Any]:
    """Entries of a yaml over those of the table that it is like."""
    own = _read(path)
    if "like" not in own:
        return own
    other = path.parent / f"{own['like']}.yaml"
    if not other.exists() or other in (path, *seen):
        raise UserError(f"the table {path} is like {own['like']}, which is no other table of that folder: name one.")
    return _merged(_with_like(other, (path, *seen)), own)


def _merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """``over`` over ``under``; ``options`` entry by entry."""
    out = {**under, **over}
    both = (under.get("options"), over.get("options"))
    if all(isinstance(part, dict) for part in both):
        out["options"] = {**both[0], **both[1]}  # type: ignore[dict-item]
    return out


def _row(given: Any, known: Mapping[str, Any], table: _Entries) -> Row:
    """A row by its name in ``_paper.yaml``, or written out."""
    if isinstance(given, str):
        if given not in known:
            raise table.wrong(f"rows has {given}, which {PAPER} does not know: choose from {', '.join(known)}")
        given = {"id": given, **known[given]}
    said = _Entries(given, f"a row of {table.of}")
    method = said.text("method", among=options("method"))
    row = Row(said.text("name"), method, said.mapping("overrides"), said.text("id", ""))
    said.finish()
    return row


def _panel(name: str, given: Any, known: Mapping[str, Any], table: _Entries) -> Panel:
    """A panel by its name in ``_paper.yaml``, ``like`` one of those, or written out."""
    given = {"like": given} if isinstance(given, str) else given
    if isinstance(given, dict) and "like" in given:
        if given["like"] not in list(known):  # a list, for yaml has names that cannot be looked up
            raise table.wrong(f"panel {name} is like {given['like']}: {PAPER} knows {', '.join(known)}")
        given = {**known[given["like"]], **{key: value for key, value in given.items() if key != "like"}}
    said = _Entries(given, f"panel {name} of {table.of}")
    title, setting = said.text("title"), said.text("setting", among=options("setting"))
    probe = said.text("probe")
    printed = _Entries(said.mapping("reference"), f"the reference of panel {name} of {table.of}")
    said.finish()
    if not printed.left:
        return Panel(name, title, setting, probe)
    reference = printed.text("file"), printed.text("setting", probe), printed.text("rows", "method")
    printed.finish()
    return Panel(name, title, setting, probe, *reference)


def _difference(name: str, pair: Any, by_id: Mapping[str, Row], table: _Entries) -> RowDifference:
    if not isinstance(pair, list) or len(pair) != 2 or any(row not in list(by_id) for row in pair):
        raise table.wrong(f"difference {name} is {pair}: give two of the rows {', '.join(by_id)}")
    return RowDifference(name, *pair)


class _Entries:
    """The entries of one mapping of a yaml, each of which is taken once; an entry that nobody takes is unknown.

    Args:
        values: What stands in the yaml.
        of: What it is, for sentences: ``the table .../1.yaml``.
    """

    def __init__(self, values: Any, of: str) -> None:
        if not isinstance(values, dict):
            raise UserError(f"{of} is {values}, not a mapping of names to values: see the other files in that folder.")
        self.of = of
        self.left = dict(values)
        self._known: list[str] = []

    def wrong(self, what: str) -> UserError:
        """The error to raise: what is wrong, and what to do."""
        return UserError(f"{self.of} cannot be used: {what}.")

    def of_other_use(self, name: str) -> None:
        """An entry that has been read elsewhere."""
        self._take(name, None)

    def _take(self, name: str, default: Any) -> Any:
        self._known.append(name)
        value = self.left.pop(name, default)
        if value is UNSAID:
            raise self.wrong(f"it lacks {name}: see the other files in that folder")
        return value

    def text(self, name: str, default: Any = UNSAID, among: Sequence[str] = ()) -> str:
        """A word or sentence, one of ``among`` unless that is empty."""
        value = self._take(name, default)
        if not isinstance(value, str):
            raise self.wrong(f"{name} is {value}, not a text: put it into quotes")
        if among and value not in among:
            raise self.wrong(f"{name}: {value} is unknown: choose {', '.join(among)}")
        return value

    def items(self, name: str, default: Any = UNSAID) -> list[Any]:
        value = self._take(name, default)
        if not isinstance(value, list):
            raise self.wrong(f"{name} is {value}, not a list: write {name}: [{value}]")
        return value

    def _distinct(self, name: str) -> list[Any]:
        values = self.items(name)
        if not values or len({repr(value) for value in values}) < len(values):
            raise self.wrong(f"{name} is {values}: give at least one, each once")
        return values

    def words(self, name: str, among: Sequence[str]) -> tuple[str, ...]:
        """At least one of ``among``, each once."""
        values = self._distinct(name)
        for value in values:
            if value not in among:
                raise self.wrong(f"{name} has {value}, which is unknown: choose from {', '.join(among)}")
        return tuple(values)

    def numbers(self, name: str, least: int) -> tuple[int, ...]:
        """Whole numbers from ``least`` on, at least one, each once."""
        values = self._distinct(name)
        if any(type(value) is not int or value < least for value in values):
            raise self.wrong(f"{name} is {values}: give whole numbers from {least} on")
        return tuple(values)

    def mapping(self, name: str, of: type = object) -> dict[str, Any]:
        """A mapping to values of type ``of``; empty if absent."""
        value = self._take(name, {})
        if not isinstance(value, dict):
            raise self.wrong(f"{name} is {value}, not a mapping of names to values")
        for key, part in value.items():
            if not isinstance(part, of):
                raise self.wrong(f"{name} has {key}: {part}, which is no {of.__name__}: see the other files there")
        return value

    def flag(self, name: str) -> bool:
        """True or false; false if absent."""
        value = self._take(name, False)
        if not isinstance(value, bool):
            raise self.wrong(f"{name} is {value}: give true or false")
        return value

    def finish(self) -> None:
        """Refuse what nobody has taken."""
        if self.left:
            names = ", ".join(map(str, self.left))
            raise self.wrong(f"it has no use for {names}: it may have {', '.join(self._known)}")
