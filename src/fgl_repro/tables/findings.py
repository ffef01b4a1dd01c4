"""Pages about results that hold no typed number: ``results/README.md`` and ``results/<paper>/FINDINGS.md``.

Each is written from a template beside it, ``README.md.in`` or ``findings.md.in``: prose with placeholders in braces, in
whose place stands a number from the published files of the paper's folder. A placeholder is a word and filters,
``name=value``; a value with commas asks for several numbers (in a count: for any of the values), blanks need quotes.

    {cell method=fedpub dataset=cora clients=5 panel=1}   a cell of a table beside print (``compare_*.csv``), percent
    {paper ...}  {points ...}                             what the paper prints for that cell; ours minus the paper's
    {agree ...}  {gap ...}                                how many cells agree (``13 of 15``); mean absolute difference
    {reproduced ...}                                      how many printed numbers are reproduced, of those told
    {tau panel=1a,1b ...}                                 Kendall's tau between our ranking and print's (median)
    {ahead method=fedlog variant=release panel=2b}        in how many columns a row is above all other methods' rows
    {told table=2 against=fedpub way=ahead ...}           in how many of the columns tested a row is told ahead of rows
    {lead table=2 against=fedpub ...}                     how far it is ahead of a row, on the seeds that both have
    {value file=table_8.csv show=gamma ...}               a column of any other published file of the protocol
    {runs method=fedavg protocol.lr=0.01 seed=0}          packed runs, averaged; ``curve=20`` reads their round 20
    {noted note=2026-11-22-causes under="..." show="..."} mean of a column ``gap`` of a note's table, see below
    {set protocol=fedlog_matched at=last}                 what holds from here on, unless a placeholder says otherwise
    {each dataset=cora,pubmed clients=3,5} ... {end}      the lines between once for each; ``{dataset}`` is its name

Errors (``metric=mae``) are told as they are, ``digits=4``, and their gaps in percent of the printed number.

Options: ``at=last`` (else ``best``, the best validation round), ``spread=1`` (mean ± std; of ``runs`` with ddof 0),
``digits=2``, ``list=range`` (``61.9 to 72.8``), ``list=mean``, and for ``value`` and ``runs`` ``scale=100``. Runs are
filtered by ``method``, ``variant``, ``dataset``, ``clients``, ``world``, ``protocol``, ``seed`` or a dotted key of the
recorded config (empty: the record lacks it; ``1+2``: one of these) and may then differ in seed alone; ``probe``, or
``show`` with a dotted entry of the record, says what is read. ``set`` concerns no runs; ``each`` does. ``told`` is what
``fgl-table test`` finds of packed runs, ``way=ahead``, ``behind`` or ``not``; ``list=rows`` names the rows against
(``FedAvg and Local``).
``noted`` reads the table below the heading ``under`` of ``notes/<note>.md``, whose column ``gap`` stands right of the
one called ``show``; ``rows`` keeps rows named so.

A finding about a possible cause says what it is worth, ``**Gap to print: {gap ...} to {gap ...} points.**``: the mean
absolute gap without it and with it. :mod:`fgl_repro.tables.causes` lists these findings. Before the first
finding of a page stands a list of all (:mod:`fgl_repro.tables.contents`).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from fgl_repro.core import registry
from fgl_repro.core.errors import UserError
from fgl_repro.core.files import write_atomic
from fgl_repro.fl.metrics import METRICS, Metric
from fgl_repro.tables import causes, columns, compare, pictures, scoreboard
from fgl_repro.tables.agreement import COUNTED
from fgl_repro.tables.contents import with_contents
from fgl_repro.tables.entries import ACCURACY, spelled
from fgl_repro.tables.paired import PairedComparison, PairedLine
from fgl_repro.tables.published import SHORT, PublishedPaper, Words, all_published, lines_of
from fgl_repro.tables.verdict import NOTHING, REPRODUCED

PLACEHOLDER = re.compile(r"\{([\w.]+)([^{}]*)\}")
FORMAT = ("spread", "digits", "list")

TAKEN: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("cell", "paper", "points", "agree", "gap", "reproduced", "ahead"), ("at",)),
    "tau": (),
    "told": ("table", "protocol", "row", "way"),
    "lead": ("table", "protocol", "row"),
    "value": ("file", "show", "scale"),
    "runs": ("at", "probe", "show", "curve", "scale"),
    "noted": ("note", "under", "show", "rows"),
}
"""The options of each word, fields of :class:`_Options`; whatever else it says, its form apart, is a filter."""
NEEDED = {"told": {"table", "protocol"}, "lead": {"table", "protocol"}}
NEEDED |= {"value": {"file", "show"}, "noted": {"note", "under", "show"}}
"""Options that a word cannot do without."""
INHERITED = ("at", "table", "protocol", "row")
"""Options that ``set`` and ``each`` may have given."""

Linked = Callable[[str, list[Words], list[str]], str]
"""Makes a link of a number: its text, the lines of comparisons and the keys of the runs that it was made from."""


def _kind(line: Words) -> Metric:
    """Tell what the numbers of a comparison's line or of a measurement are; one of accuracies says nothing of it."""
    return METRICS[line.get("metric") or ACCURACY]


@dataclass(frozen=True)
class _Options:
    """What a placeholder says that is neither its form nor a filter; see the head of this file."""

    at: str = "best"
    file: str = ""
    show: str = ""
    scale: str = ""
    probe: str = "seen_graph"
    curve: str = ""
    table: str = ""
    protocol: str = ""
    row: str = ""
    way: str = ""
    note: str = ""
    under: str = ""
    rows: str = ""


class _Lookup:
    """One placeholder: its word, what it says, and what it inherits from ``set`` and ``each``."""

    def __init__(self, published: PublishedPaper, word: str, given: Words, inherited: Words) -> None:
        self.published, self.word, self.inherited = published, word, inherited
        self.form = {name: value for name, value in given.items() if name in FORMAT}
        self.said = {name: value for name, value in given.items() if name not in FORMAT}
        self.lines: list[Words] = []
        self.keys: list[str] = []

    def text(self) -> str:
        """Write what stands in its place."""
        whole = {"agree": self.counted, "gap": self.counted, "reproduced": self.reproduced, "ahead": self.ahead}
        whole |= {"noted": self.noted, "tau": self.tau, "told": self.tested_gaps}
        single = {"cell": self.cell, "paper": self.cell, "points": self.cell, "value": self.value, "runs": self.runs}
        single |= {"lead": self.lead}
        if self.word in whole:
            return whole[self.word](*self.parted(self.said))
        if self.word not in single:
            raise ValueError(f"{self.word} is none of {', '.join([*whole, *single])}, set, each, end")
        pairs = [single[self.word](*self.parted(said)) for said in _combinations(self.said)]
        digits = f".{self.form.get('digits', 1)}f"
        means, form = [mean for mean, _ in pairs], "+" * (self.word in ("points", "lead")) + digits
        if "list" in self.form:
            ends = dict.fromkeys([f"{min(means):{form}}", f"{max(means):{form}}"])
            return {"range": " to ".join(ends), "mean": f"{np.mean(means):{form}}"}[self.form["list"]]
        stds = [f" ± {std:{digits}}" if "spread" in self.form and std == std else "" for _, std in pairs]
        texts = [f"{m:{form}}{std}" if m == m else "misprint" for m, std in zip(means, stds, strict=True)]
        return (" / " if "," in self.said.get("panel", "") + self.said.get("probe", "") else ", ").join(texts)

    def parted(self, said: Words) -> tuple[_Options, Words]:
        """Part the options of the word from the filters."""
        inherited = {name: value for name, value in self.inherited.items() if name in INHERITED}
        taken = {name: value for name, value in (inherited | said).items() if name in TAKEN[self.word]}
        if lacking := [name for name in TAKEN[self.word] if name in NEEDED.get(self.word, ()) and name not in taken]:
            raise ValueError(f"it does not say {lacking[0]}")
        return _Options(**taken), {name: value for name, value in said.items() if name not in TAKEN[self.word]}

    def matching(self, rows: list[Words], filters: Words) -> list[Words]:
        """Select rows that have one of the values of every filter; what is inherited and no column is left out."""
        columns = rows[0] if rows else {}
        if unknown := [name for name in filters if name not in columns]:
            raise ValueError(f"there is no column {unknown[0]}")
        for name, value in ({n: v for n, v in self.inherited.items() if n in columns} | filters).items():
            wanted = set(value.split(","))
            rows = [row for row in rows if row[name] in wanted]
        self.lines += rows if "best_verdict" in columns else []
        return rows

    def single(self, rows: list[Words], filters: Words) -> Words:
        if not (found := self.matching(rows, filters)) or any(row != found[0] for row in found):
            raise ValueError(f"{len(found)} lines match, not one")
        return found[0]

    def cell(self, options: _Options, filters: Words) -> tuple[float, float]:
        row = self.single(self.published.cells, filters)
        if self.word == "points":
            return float(row[f"{options.at}_points"]), np.nan
        stem = "paper" if self.word == "paper" else options.at
        if self.word == "paper" and row["suspect"] == "1":
            return np.nan, np.nan
        scale = _kind(row).scale
        return scale * float(row[f"{stem}_mean"]), scale * float(row[f"{stem}_std"] or "nan")

    def value(self, options: _Options, filters: Words) -> tuple[float, float]:
        path = self.published.folder / (self.inherited | filters)["protocol"] / options.file
        row, scale = self.single(lines_of(path), filters), float(options.scale or 1)
        return scale * float(row[options.show]), scale * float(row.get("std") or "nan")

    def runs(self, options: _Options, filters: Words) -> tuple[float, float]:
        every = {name: value for name, value in self.inherited.items() if name in SHORT} | filters
        wanted = {name: value.split("+") for name, value in every.items()}
        found = [(k, c) for k, c in self.published.configs if all(c.get(n, "") in some for n, some in wanted.items())]
        names = {name for _, config in found for name in config} - {"seed", "protocol"}
        if differ := sorted(n for n in names if len({config.get(n) for _, config in found}) > 1):
            raise ValueError(f"the {len(found)} packed runs that match differ in {', '.join(differ)}")
        if not (values := [self.measured(key, options) for key, _ in found]):
            raise ValueError("no packed run matches")
        self.keys += [key for key, _ in found]
        return float(np.mean(values)), float(np.std(values)) if len(values) > 1 else np.nan

    def measured(self, key: str, options: _Options) -> float:
        """Read one entry of a packed run, or one round of its curves; accuracies in percent, errors as they are."""
        found = self.published.records[key].as_json()
        unit = _kind(found["metrics"].get(options.probe, {}).get(options.at, {})).scale
        if options.curve:
            return unit * float(self.published.curves[key][options.probe][int(options.curve)] or "nan")
        entry: Any = found
        for name in (options.show or f"metrics.{options.probe}.{options.at}.accuracy").split("."):
            entry = entry[int(name) if isinstance(entry, list) else name]
        return float(entry) * float(options.scale or (1 if options.show else unit))

    def counted(self, options: _Options, filters: Words) -> str:
        rule = f"{options.at}_old_rule"
        found = [row for row in self.matching(self.published.cells, filters) if row[rule] in COUNTED]
        if not found:
            raise ValueError("no cell that counts matches")
        if self.word == "agree":
            return f"{sum(row[rule] == 'agrees' for row in found)} of {len(found)}"
        return f"{np.mean([abs(float(row[f'{options.at}_points'])) for row in found]):.1f}"

    def reproduced(self, options: _Options, filters: Words) -> str:
        verdict = f"{options.at}_verdict"
        once = [row for row in self.matching(self.published.cells, filters) if row["counted"] == "1"]
        if not (verdicts := [row[verdict] for row in once if row[verdict] != NOTHING]):
            raise ValueError("no cell with evidence matches")
        return f"{verdicts.count(REPRODUCED)} of {len(verdicts)}"

    def tau(self, options: _Options, filters: Words) -> str:
        """Tell tau at the printed round, over methods that both sides have, as the scoreboard has it."""
        if not (found := compare.shares(self.matching(self.published.cells, filters), ranked=2)["tau"]):
            raise ValueError("no column that matches has two methods")
        return str(found)

    def noted(self, options: _Options, filters: Words) -> str:
        """Tell the mean gap over the rows of a note's table that have ``rows`` in their name."""
        if filters:
            raise ValueError(f"noted takes no {next(iter(filters))}")
        path = self.published.folder / "notes" / f"{options.note}.md"
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        section = text.partition(f"\n## {options.under}\n")[2].partition("\n## ")[0]
        table = [[word.strip() for word in line.split("|")[1:-1]] for line in section.splitlines() if line[:1] == "|"]
        if not table:
            raise ValueError("no table stands there")
        column = table[0].index(options.show) + 1
        found = [float(line[column]) for line in table[2:] if options.rows in line[0]]
        if table[0][column] != "gap" or not found:
            raise ValueError("no gap stands there")
        return f"{np.mean(found):.1f}"

    def tested_gaps(self, options: _Options, filters: Words) -> str:
        """Count the tested gaps of a row to others that are told ``way``, or name these others (``fgl-table test``)."""
        if self.form.keys() - {"list"} or self.form.get("list", "rows") != "rows":
            raise ValueError("told takes no form but list=rows")
        if options.way not in (ways := ("ahead", "behind", "not")):
            raise ValueError(f"way={options.way} is none of {', '.join(ways)}")
        found = self.compared(options, filters)
        if not (tested := self.matching([_words(line) for line in found.lines if line.way], filters)):
            raise ValueError("no gap that matches is tested")
        others = [each["against"] for each in tested if each["way"] == options.way]
        if self.form.get("list") != "rows":
            return f"{len(others)} of {len(tested)}"
        if len({(each["panel"], each["dataset"], each["clients"]) for each in tested}) > 1:
            raise ValueError("list=rows is of one column: say which by panel, dataset and clients")
        names, rows = [row.name for row in found.spec.rows], [row for row in found.spec.rows if row.id in others]
        *first, last = [row.label if names.count(row.name) > 1 else row.name for row in rows] or ["none"]
        return f"{', '.join(first)} and {last}" if first else last

    def lead(self, options: _Options, filters: Words) -> tuple[float, float]:
        """Tell how far a row is ahead of another one on the seeds that both have, be it tested or not."""
        spec, lines = (found := self.compared(options, filters)).spec, found.lines
        place = self.single([_words(line) for line in lines if line.gap], filters)
        (line,) = (line for line in lines if _words(line) == place)
        assert line.gap is not None
        scale = 1 if spec.metric_of(line.cell.panel).error else 100
        return scale * line.gap.mean, scale * (np.nan if line.gap.std is None else line.gap.std)

    def compared(self, options: _Options, filters: Words) -> PairedComparison:
        """Compare the row that is named with each other one."""
        try:
            found = self.published.compared(options.table, options.protocol, options.row)
        except UserError as error:
            raise ValueError(str(error).removesuffix(".")) from None
        others = [other.id for other in found.spec.rows if other != found.row]
        if unknown := [other for other in filters.get("against", others[0]).split(",") if other not in others]:
            raise ValueError(f"against={unknown[0]} is none of {', '.join(others)}")
        return found

    def ahead(self, options: _Options, filters: Words) -> str:
        """Count columns with the row above every row of another method, of those where it and another one ran."""
        above, mean = [], f"{options.at}_mean"
        for own in self.matching(self.published.cells, filters):
            place = {name: own[name] for name in ("protocol", "panel", "dataset", "clients")}
            there = [row for row in self.published.cells if place.items() <= row.items() and row[mean]]
            merit = _kind(own).merit
            rivals = [merit(float(row[mean])) for row in there if row["method"] != own["method"]]
            above += [merit(float(own[mean])) > max(rivals)] if own[mean] and rivals else []
        return f"{sum(above)} of {len(above)}"


def _words(line: PairedLine) -> Words:
    """Tell of a tested gap where it stands, which row it is to, and which way it is told."""
    cell = line.cell
    words = {"panel": cell.panel.name, "dataset": cell.dataset, "clients": str(cell.clients)}
    return words | {"against": cell.row.id, "way": line.way}


def _combinations(filters: Words) -> list[Words]:
    return [dict(zip(filters, some, strict=True)) for some in product(*(v.split(",") for v in filters.values()))]


def _in_prose(word: str, value: str) -> str:
    """Write what an ``each`` stands at, as a method or a data set is called; other values as they are."""
    return registry.options("method")[value].display if word == "method" else spelled(value)


def fill(text: str, published: PublishedPaper, where: str, inherited: Words, linked: Linked | None = None) -> str:
    """Put a number, or a link of one, in place of every placeholder in ``text``.

    Raises:
        UserError: It names ``where`` and the first placeholder that has no number.
    """
    out, position = [], 0
    while match := PLACEHOLDER.search(text, position):
        out.append(text[position : match.start()])
        word, position = match[1], match.end()
        try:
            parts = shlex.split(match[2])
            if lost := [part for part in parts if "=" not in part]:
                raise ValueError(f"{lost[0]} is no name=value")
            given = dict(part.split("=", 1) for part in parts)
            if word == "each":
                body, end, _ = text[position:].removeprefix("\n").partition("{end}\n")
                if not end:
                    raise ValueError("no line {end} follows")
                position = text.index(end, position) + len(end)
                out += [fill(body, published, where, inherited | values, linked) for values in _combinations(given)]
            elif word == "set":
                inherited, position = inherited | given, position + text.startswith("\n", position)
            elif word in inherited and not given:
                out.append(_in_prose(word, inherited[word]))
            else:
                lookup = _Lookup(published, word, given, inherited)
                number = lookup.text()
                out.append(number if linked is None else linked(number, lookup.lines, lookup.keys))
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise UserError(f"{where}: {' '.join(match[0].split())} cannot be filled: {error}.") from None
    return "".join([*out, text[position:]])


def pages(results: Path) -> dict[Path, str]:
    """Write the text of the scoreboard, of every paper's findings, of causes, columns and pictures, by file.

    What has no template has no page.
    """
    every = all_published(results)
    head, found = "<!-- Written from {}; do not edit. -->\n", {}
    for paper, published in every.items():
        if (template := published.folder / "findings.md.in").exists():
            found[paper] = fill(template.read_text(encoding="utf-8"), published, f"{paper}/{template.name}", {})
    out = {
        results / paper / "FINDINGS.md": head.format("findings.md.in") + with_contents(text)
        for paper, text in found.items()
    }
    if (template := results / "README.md.in").exists():
        text = template.read_text(encoding="utf-8")
        out[results / "README.md"] = head.format(template.name) + scoreboard.fill(text, every, found)
    if every:
        out[results / "CAUSES.md"] = head.format("findings.md.in of every paper") + causes.page(found)
        out[results / "COLUMNS.md"] = head.format("tables/columns.py") + columns.page(results)
        out[results / "PICTURES.md"] = head.format("tables/pictures.py") + pictures.page(results)
    return out


def write_all(results: Path) -> list[Path]:
    """Write every page that says something else now; returns the files."""
    texts = pages(results)
    changed = [path for path, text in texts.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in changed:
        write_atomic(path, texts[path])
    return changed
