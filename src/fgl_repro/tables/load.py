"""``conf/table/<paper>/<number>.yaml``: which tables and figures there are, and each of them read and checked.

The folder is the paper and the file is the number (``fig9``: Figure 9), so that two tables of one folder cannot share
the names of their files; tables of a user's own folder are refused where they would.
``_paper.yaml`` of the folder holds what the paper's tables share; ``like: "3"`` takes over another table of the paper.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from fgl_repro.config import AXES, cache_of_options
from fgl_repro.config import folders as config_folders
from fgl_repro.config.yamls import read_yaml
from fgl_repro.core import registry
from fgl_repro.core.errors import UserError, nearest
from fgl_repro.fl.metrics import METRICS
from fgl_repro.tables.entries import ACCURACY, Panel, Printed, Row
from fgl_repro.tables.spec import TableSpec
from fgl_repro.tables.swept import with_lines

T = TypeVar("T")

PAPER = "_paper.yaml"
GIVEN = ("path", "display", "added_rows", "lines", "line", "whole")
"""What a table and its rows have from their place, their paper and the command line."""
KINDS = "fgl_repro.tables.kinds"
PARTS: dict[Any, type[Any]] = {"rows": Row, "panels": Panel, "reference": Printed}


@dataclass(frozen=True)
class Paper:
    """What the tables of a paper share; rows and panels by the name under which tables list them."""

    name: str = ""
    defaults: dict[str, Any] = field(default_factory=dict)
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    panels: dict[str, dict[str, Any]] = field(default_factory=dict)


def folders() -> list[Path]:
    """List the folders that hold a folder for each paper: ours, then a user's."""
    return [folder / "table" for folder in config_folders()]


def _short(name: str) -> str:
    """Make one name of ``fedlog/table1``, ``fedlog-1`` and ``fedlog1``, and one of ``fedsage/D1`` and ``fedsaged1``."""
    return re.sub(r"table|[/_-]", "", name.lower())


def by_number(number: str) -> tuple[str, int, str]:
    """Give the key by which numbers of tables are sorted: 2 before 10, and D2 behind both."""
    word, digits, part = re.fullmatch(r"(\D*)(\d*)(.*)", number).groups()  # type: ignore[union-attr]
    return word, int(digits or 0), part


@cache_of_options
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

    def order(name: str) -> tuple[str, bool, tuple[str, int, str]]:
        paper, _, number = name.partition("/")
        key = by_number(number)
        return paper, key[0] == "fig", key

    return {name: found[name] for name in sorted(found, key=order)}


def names() -> list[str]:
    """List the tables and figures that there are, by paper, tables first, in the order of their numbers."""
    return list(_paths(tuple(folders())))


def papers() -> dict[str, str]:
    """List the papers that have tables, and what they are called in print: ``fedlog``, ``FedLoG``."""
    first = {path.parent.name: path for path in reversed(_paths(tuple(folders())).values())}
    return {paper: _shared(path).name or paper for paper, path in sorted(first.items())}


def load(name: str) -> TableSpec:
    """Load the table or figure called ``name``: ``fedlog/1``, or in short ``fedlog1``, ``table1``, ``fig9`` (FedLoG's).

    Raises:
        UserError: It does not exist, or its yaml describes no table.
    """
    if not isinstance(name, str):
        raise UserError(f"{name!r} is no name of a table: give one that 'fgl-table list' shows, in quotes.")
    found = _paths(tuple(folders()))
    by_short = {_short(full): path for full, path in found.items()}
    path = by_short.get(_short(name)) or by_short.get("fedlog" + _short(name))
    if path is None:
        paper, slash, _ = name.lower().partition("/")
        if own := [full for full in found if full.startswith(f"{paper}/")]:
            what = f"there is no table {name}" if slash else f"{name} is a paper"
            raise UserError(f"{what}: choose one of {paper}'s tables, {', '.join(own)}.")
        known = f"'fgl-table list' shows those of {', '.join(papers())}"
        raise UserError(f"there is no table {name}{nearest(name, names())}: {known}.")
    return parse(path)


@cache_of_options
def parse(path: Path) -> TableSpec:
    """Read one yaml.

    Raises:
        UserError: An entry is unknown, missing, or of no use; the sentence names it and the file.
    """
    shared = _shared(path)
    entries = _merged(shared.defaults, _with_like(path))
    if isinstance(rows := entries.get("rows"), list):
        entries["rows"] = [_row(row, shared.rows, path) for row in rows]
    if isinstance(panels := entries.get("panels"), dict):
        entries["panels"] = [_panel(str(name), panel, shared.panels, path) for name, panel in panels.items()]
    if given := [name for name in GIVEN if name in entries]:
        raise _wrong(path, f"it has no use for {', '.join(given)}")
    spec = _checked(TableSpec, {**entries, "path": path, "display": shared.name or path.parent.name}, path)
    if spec.around and not all(spec.around.get(name) in values for name, values in spec.sweep.items()):
        raise _wrong(path, f"around is {spec.around}: give one of the values of each of {', '.join(spec.sweep)}")
    if spec.sweep:
        spec = with_lines(spec, spec.rows)
    _check(spec)
    return _with_curves(spec)


def _with_curves(spec: TableSpec) -> TableSpec:
    """Give a table that does not say which curves it is read from those that its kind is: else its rows would be blank.

    A kind may need fewer where ``options.curve`` names what methods trace, which every run keeps.
    """
    kind = sys.modules[f"{KINDS}.{spec.kind}"]
    if spec.curves != "none" or not hasattr(kind, "CURVES"):
        return spec
    return replace(spec, curves=getattr(kind, "TRACED", kind.CURVES) if "curve" in spec.options else kind.CURVES)


def _check(spec: TableSpec) -> None:
    """Refuse entries that do not go together."""
    _check_rows(spec)
    if spec.repeats and not spec.path.with_name(f"{spec.repeats}.yaml").exists():
        raise _wrong(spec.path, f"repeats is {spec.repeats}: name a table that stands beside it")
    if strange := set(spec.absent) - set(spec.datasets):
        raise _wrong(spec.path, f"absent names {', '.join(sorted(strange))}, which datasets does not: add them there")
    _check_numbers(spec)


def _check_rows(spec: TableSpec) -> None:
    """Refuse rows that are not told apart, and entries that name none of them."""
    ids, names = [row.id for row in spec.rows], [row.name for row in spec.rows]
    if len(set(ids)) < len(ids):
        raise _wrong(spec.path, "two rows are the same method and variant: remove one, or give each an id")
    if len({row.label for row in spec.rows}) < len(ids):
        raise _wrong(spec.path, "two rows have one name and variant: give each a name of its own")
    for dotted in (dotted for row in spec.rows for dotted in row.overrides):
        if dotted.partition(".")[0] not in AXES:
            raise _wrong(spec.path, f"override {dotted} is of no axis: begin it with one of {', '.join(AXES)}")
    if spec.proposed not in ("", *names):
        raise _wrong(spec.path, f"proposed is {spec.proposed}: choose one of its rows, {', '.join(names)}")
    for row in spec.rows:
        if row.panel_model not in (None, *(panel.model for panel in spec.panels)):
            raise _wrong(spec.path, f"row {row.id} is for panels of model {row.panel_model}: there are none of it")
    for name, pair in spec.differences.items():
        if len(pair) != 2 or not set(pair) <= set(ids):
            raise _wrong(spec.path, f"difference {name} is {pair}: give two of the rows {', '.join(ids)}")


def _check_numbers(spec: TableSpec) -> None:
    """Refuse panels whose numbers are not those of print, and a kind that cannot make them."""
    for panel in spec.panels:
        printed = panel.reference.metric.lower() if panel.reference else ""
        if printed and (printed in METRICS and METRICS[printed].error) != spec.metric_of(panel).error:
            raise _wrong(
                spec.path,
                f"panel {panel.name} has metric {spec.metric_name(panel)} and its reference {printed}: give both one",
            )
    if spec.kind == ACCURACY and not (spec.rows and spec.panels):
        raise _wrong(spec.path, "a grid of accuracies needs rows and panels: add them")
    try:
        content = registry.find(KINDS, spec.kind, "content", "kind")
    except UserError as error:
        raise _wrong(spec.path, str(error).rstrip(".")) from None
    if spec.has_errors and not hasattr(sys.modules[content.__module__], "TELLS_ERRORS"):
        able = registry.having(KINDS, "TELLS_ERRORS")
        raise _wrong(spec.path, f"kind {spec.kind} tells no errors: choose from {', '.join(able)}")


def _wrong(path: Path, what: str) -> UserError:
    return UserError(f"the table {path} cannot be used: {what}.")


def _checked(kind: type[T], entries: dict[str, Any], path: Path) -> T:
    """Read ``entries`` as a ``kind``; what pydantic refuses first is told in a sentence that names file and entry."""
    try:
        return TypeAdapter(kind).validate_python(entries)
    except ValidationError as error:
        mistake = error.errors()[0]
    where = ".".join(map(str, mistake["loc"]))
    if mistake["type"] == "missing":
        raise _wrong(path, f"it lacks {where}: see the other files in that folder")
    if mistake["type"] == "unexpected_keyword_argument":
        owner: type[Any] = next((PARTS[part] for part in mistake["loc"][-2::-1] if part in PARTS), TableSpec)
        known = [f.name for f in fields(owner) if f.name not in GIVEN]
        raise _wrong(path, f"it has no use for {where}: it may have {', '.join(known)}")
    message = mistake["msg"].removeprefix("Value error, ").replace("tuple", "list")
    raise _wrong(path, f"{where} is {mistake['input']}: {message[0].lower()}{message[1:]}")


@cache_of_options
def _read(path: Path) -> dict[str, Any]:
    """Read the entries of a yaml, which are for reading only."""
    found = read_yaml(path, "table")
    if not isinstance(found, dict):
        raise UserError(f"the table {path} is no mapping of names to values: see the other files in that folder.")
    return {str(name): value for name, value in found.items()}


def _shared(path: Path) -> Paper:
    """Read what the tables of the paper share, from the nearest folder that says it."""
    near = [path.parent / PAPER, *(folder / path.parent.name / PAPER for folder in folders())]
    return next((_paper(file) for file in near if file.exists()), Paper())


@cache_of_options
def _paper(file: Path) -> Paper:
    return _checked(Paper, _read(file), file)


def _with_like(path: Path, seen: tuple[Path, ...] = ()) -> dict[str, Any]:
    """Lay the entries of a yaml over those of the table that it is like."""
    own = dict(_read(path))
    if "like" not in own:
        return own
    like = own.pop("like")
    other = path.parent / f"{like}.yaml"
    if not other.exists() or other in (path, *seen):
        raise UserError(f"the table {path} is like {like}, which is no other table of that folder: name one.")
    return _merged(_with_like(other, (path, *seen)), own)


def _merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Lay ``over`` over ``under``; ``options`` entry by entry."""
    out = {**under, **over}
    both = (under.get("options"), over.get("options"))
    if all(isinstance(part, dict) for part in both):
        out["options"] = {**both[0], **both[1]}  # type: ignore[dict-item]
    return out


def _unknown(known: Mapping[str, Any], instead: str) -> str:
    """Say why a name is not enough, and what to write: a table of one's own may have no ``_paper.yaml`` beside it."""
    if not known:
        return f"and no {PAPER} says what that is: {instead}"
    return f"which {PAPER} does not know: choose from {', '.join(known)}, or {instead}"


def _row(given: Any, known: Mapping[str, dict[str, Any]], path: Path) -> Any:
    """Return the entries of a row, which may be given by its name in ``_paper.yaml``."""
    if not isinstance(given, str):
        return given
    if given not in known:
        whole = f"write {{name: ..., method: {given}}}"
        raise _wrong(path, f"rows has {given}, {_unknown(known, whole)}")
    return {"id": given, **known[given]}


def _panel(name: str, given: Any, known: Mapping[str, dict[str, Any]], path: Path) -> Any:
    """Return a panel's entries, which may be given by its name in ``_paper.yaml`` or be ``like`` one of those."""
    given = {"like": given} if isinstance(given, str) else given
    if not isinstance(given, dict):
        return given
    like, own = given.get("like", ""), {key: value for key, value in given.items() if key != "like"}
    if "like" in given and like not in list(known):  # a list, for yaml has names that cannot be looked up
        whole = "write {title: ..., setting: ..., probe: ...}"
        raise _wrong(path, f"panel {name} is like {like}, {_unknown(known, whole)}")
    return {"name": name, **(known[like] if "like" in given else {}), **own}
