"""A grid of accuracies in LaTeX: ``booktabs``, best and second best marked, stars where a test tells them apart.

The best mean of a column gets a star if a paired t-test over the runs that it shares with the second best says that it
is better, at a false discovery rate of 5 % over all columns, those of the whole table where a part is asked for. That
a test picks the two by the runs that it is made on makes it too sure rather than too timid; the note below the table
says so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import pandas as pd

from fgl_repro.core.errors import UserError
from fgl_repro.data.catalog import rebuilds
from fgl_repro.runs.store import RunSource
from fgl_repro.tables import compare, printing, reference, results
from fgl_repro.tables.entries import ACCURACY, Cell, Panel, Row, place, spelled
from fgl_repro.tables.kinds import ranks
from fgl_repro.tables.paired import ENOUGH, gap
from fgl_repro.tables.results import Grid, Stat
from fgl_repro.tables.spec import TableSpec
from fgl_repro.tables.verdict import LEVEL, differing

SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "†": r"$\dagger$"}
SPECIAL |= {sign: f"\\{sign}" for sign in "&%$#_{}"} | {"±": r"$\pm$", "×": r"$\times$"}

NEEDS = "% needs \\usepackage{booktabs,graphicx}"


@dataclass(frozen=True)
class Column:
    """A column of numbers, and under which heads it stands."""

    head: str
    group: str
    panel: Panel
    dataset: str
    clients: int

    def cell(self, row: Row) -> Cell:
        return Cell(self.panel, row, self.dataset, self.clients)


@dataclass(frozen=True)
class Marks:
    """Cells that are marked; ``columns`` were tested, of those that have two methods (``several``)."""

    best: frozenset[Cell]
    second: frozenset[Cell]
    starred: frozenset[Cell]
    tested: int
    several: int


def text(spec: TableSpec, protocol: str, source: RunSource, *, printed: bool = False) -> str:
    """Write a ``table*`` for each panel, or where panels run across for each data set and client count.

    Args:
        printed: Whether the paper's numbers stand below ours.

    Raises:
        UserError: The table is no grid of accuracies.
    """
    if spec.kind != ACCURACY:
        raise UserError(f"{spec.name} is no grid of accuracies, which LaTeX is made of: see 'fgl-table show'.")
    table = results.fill(spec, protocol, source)
    marks = marked(table, source)
    notes = _notes(table, marks, printed)
    blocks = [_block(table, marks, title, columns, notes, printed) for title, columns in _blocks(spec)]
    return "\n\n".join([NEEDS, *blocks])


def marked(table: Grid, source: RunSource) -> Marks:
    """Mark the best and the second best of every column, and which of the best a test tells apart from the second."""
    spec, best, second = table.spec, set[Cell](), set[Cell]()
    whole, found = spec.whole or spec, table.whole or table.results  # which columns are asked for moves no star
    pairs: list[tuple[Cell, float]] = []
    several = 0
    for panel in whole.panels:
        runs = ranks.accuracies(whole, panel, table.protocol, source)
        for at in whole.places:
            cells = [Cell(panel, row, *at) for row in spec.rows]
            numbers = {cell: found[cell].at(table.selection) for cell in cells}
            merits = {
                cell: spec.metric_of(panel).merit(stat.mean) for cell, stat in numbers.items() if stat is not None
            }
            order = pd.Series(list(merits.values())).round(results.DECIMALS).rank(ascending=False, method="min")
            by_rank = {rank: [c for c, own in zip(merits, order, strict=True) if own == rank] for rank in (1, 2)}
            best.update(by_rank[1])
            second.update(by_rank[2])
            several += len(merits) > 1
            if len(by_rank[1]) == 1 and by_rank[2]:
                both = gap(runs[runs["column"] == place(*at)], by_rank[1][0].row.label, by_rank[2][0].row.label)
                pairs += [(by_rank[1][0], both.p)] if both is not None and both.p is not None else []
    apart_from_zero = differing([p for _, p in pairs])
    starred = {cell for (cell, _), apart in zip(pairs, apart_from_zero, strict=True) if apart}
    return Marks(frozenset(best), frozenset(second), frozenset(starred), len(pairs), several)


def _blocks(spec: TableSpec) -> list[tuple[str, list[Column]]]:
    """List title and columns of each tabular."""
    if spec.columns == "panels":
        across = [(panel.title, "", panel) for panel in spec.panels]
        return [(place(*at), [Column(*heads, *at) for heads in across]) for at in spec.places]
    alone = len(spec.clients) == 1
    heads = [(spelled(d), "") if alone else (str(k), spelled(d)) for d, k in spec.places]
    return [
        (panel.title, [Column(*head, panel, *at) for head, at in zip(heads, spec.places, strict=True)])
        for panel in spec.panels
    ]


def _block(table: Grid, marks: Marks, title: str, columns: Sequence[Column], notes: str, printed: bool) -> str:
    spec = table.spec
    groups = [(group, len(list(members))) for group, members in groupby(column.group for column in columns)]
    lines = ["\\toprule"]
    if any(group for group, _ in groups):
        lines.append("".join(f" & \\multicolumn{{{n}}}{{c}}{{{escaped(group)}}}" for group, n in groups) + r" \\")
        ends = [sum(n for _, n in groups[: i + 1]) + 1 for i in range(len(groups))]
        rules = [f"\\cmidrule(lr){{{end - n + 1}-{end}}}" for end, (_, n) in zip(ends, groups, strict=True)]
        lines.append(" ".join(rules))
    heads = ["clients" if groups[0][0] else "", *(escaped(column.head) for column in columns)]
    lines += [" & ".join(heads) + r" \\", "\\midrule"]
    for row in spec.rows:
        if spec.added_rows and row.id == spec.added_rows[0]:
            lines.append("\\midrule")
        cells = [_cell(table, marks, column.cell(row)) for column in columns]
        lines.append(" & ".join([escaped(row.label), *cells]) + r" \\")
        theirs = [_paper(table, column.cell(row)) for column in columns]
        if printed and any(theirs):
            lines.append(" & ".join([r"\quad\scriptsize in print", *theirs]) + r" \\")
    lines.append("\\bottomrule")
    whole = spec.whole or spec
    narrowed = [] if spec.columns == "panels" else [(spec.datasets, whole.datasets), (spec.clients, whole.clients)]
    part = [str(item) for own, every in narrowed if own != every for item in own]
    named = re.sub(r"[^a-z0-9]+", "-", " ".join([spec.name, title, table.protocol, *part]).lower()).strip("-")
    caption = f"{spec.full_title}." if len(_blocks(spec)) == 1 else f"{spec.full_title}. {title}."
    only = "" if len(spec.clients) > 1 or len(whole.clients) == 1 else f" {spec.clients[0]} clients."
    return "\n".join(
        [
            r"\begin{table*}[t]",
            r"\centering",
            f"\\caption{{{escaped(caption + only)} {_caption(table, [column.panel for column in columns])}}}",
            f"\\label{{tab:{named}}}",
            r"\resizebox{\ifdim\width>\textwidth\textwidth\else\width\fi}{!}{%",
            f"\\begin{{tabular}}{{l{'c' * len(columns)}}}",
            *lines,
            r"\end{tabular}}",
            f"\\par\\smallskip{{\\footnotesize\\raggedright {notes}\\par}}",
            r"\end{table*}",
        ]
    )


def _cell(table: Grid, marks: Marks, cell: Cell) -> str:
    """Write ``\\textbf{86.01}$^{*}$ {\\scriptsize $\\pm$ 0.45}``; or why there is no number."""
    found = table.results[cell]
    stat = found.at(table.selection)
    if stat is None:
        return printing.cell_text(found, table.selection, "percent") or "--"
    mean, std = _parts(stat, table.spec.format_of(cell.panel))
    mean = f"\\textbf{{{mean}}}" if cell in marks.best else f"\\underline{{{mean}}}" if cell in marks.second else mean
    signs = "*" * (cell in marks.starred) + (f"({stat.n})" if stat.n < found.wanted else "")
    return f"{mean}{f'$^{{{signs}}}$' if signs else ''}{std}"


def _parts(stat: Stat, form: str) -> tuple[str, str]:
    """Write mean and std as they are set."""
    mean, _, std = printing.number(stat, form).replace(" (", " ± ").rstrip(")").partition(" ± ")
    return mean, f" {{\\scriptsize $\\pm$ {std}}}" if std else ""


def _paper(table: Grid, cell: Cell) -> str:
    text = compare.paper_number(reference.of(cell), table.spec.format_of(cell.panel))
    return f"{{\\scriptsize {escaped(text)}}}" if text else ""


def _caption(table: Grid, panels: Sequence[Panel]) -> str:
    """Say what the numbers of these panels are."""
    spec, repeated = table.spec, "splits and seeds" if table.redraw else "seeds"
    caption = f"{spec.measure_of(panels)}, mean and std (ddof {table.ddof}) over {len(spec.seeds)} {repeated}"
    caption = f"{caption[0].upper()}{caption[1:]}, {table.round_name(table.selection)}, protocol {table.protocol}."
    return f"{escaped(caption)} \\textbf{{Best}}, \\underline{{second best}}."


def _notes(table: Grid, marks: Marks, printed: bool) -> str:
    """Say which test was made, and what a reader must know."""
    spec, repeated = table.spec, "splits" if table.redraw else "seeds"
    if marks.tested:
        tested = "the one column tested" if marks.tested == 1 else f"the {marks.tested} columns tested"
        tested += " of the whole table" if spec.whole else ""
        stars = (
            f"*: better than the second best by a paired t-test over {repeated} (two-sided, false discovery rate "
            f"{LEVEL:.0%} over {tested}). Best and second best are picked by the same runs, "
            "which makes the test too sure."
        )
        left = marks.several - marks.tested
        others = "One column has" if left == 1 else f"{left} columns have"
        stars += f" {others} too few runs that both share, a tie, or one gap throughout." if left else ""
    else:
        shared = f"{ENOUGH} {repeated} that the best and the second best share"
        stars = f"No stars: a paired test wants {shared}, and gaps that vary."
    few = any(0 < stat.n < found.wanted for found in table.results.values() if (stat := found.at(table.selection)))
    sentences = [
        stars,
        "A small number in brackets: of fewer seeds, so many." * few,
        *compare.warning_of_fit(table),
        *compare.fine_tuned(table),
    ]
    sentences += [rebuilds(spec.datasets), spec.blank]
    sentences += ["In print: the paper's own numbers, in brackets where they are taken for misprints."] * (
        printed and compare.has_printed_numbers(table)
    )
    sentences += ["--: no number."] * any(found.at(table.selection) is None for found in table.results.values())
    return escaped(" ".join(filter(None, sentences)))


def escaped(words: str) -> str:
    """Return ``words`` with what LaTeX would read as commands made harmless."""
    return "".join(SPECIAL.get(sign, sign) for sign in words)
