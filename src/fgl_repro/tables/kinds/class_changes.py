"""F1 of every class at one client, in points above that of the first row, seed by seed (O-pFGL's Figure 5).

``options.client`` counts from 0. The reference has numbers by ``variant`` (a row's name) and ``class``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fgl_repro.core.errors import UserError
from fgl_repro.data.catalog import facts
from fgl_repro.runs.store import RunSource
from fgl_repro.tables import printed_pairs, reference
from fgl_repro.tables.artifact import Content
from fgl_repro.tables.entries import Cell, Row
from fgl_repro.tables.figures import charts
from fgl_repro.tables.kinds import common
from fgl_repro.tables.kinds.common import stat_text
from fgl_repro.tables.kinds.one_client import ClassCounts, counted
from fgl_repro.tables.printed_pairs import PrintedPair
from fgl_repro.tables.printing import columns_of, grid_text, signed
from fgl_repro.tables.results import Stat, printed_round
from fgl_repro.tables.spec import TableSpec

if TYPE_CHECKING:
    from matplotlib.figure import Figure

F1 = "f1_class"

Changes = dict[Row, list[Stat | None]]
"""Points of each class, by row."""


def content(spec: TableSpec, protocol: str, source: RunSource) -> Content:
    """Fill a grid: rows but the first down, classes across; ours, and what is printed behind it in brackets.

    Raises:
        UserError: The table has several columns, or is narrowed to the row that the others are compared with.
    """
    panel, dataset, clients = common.only_column(spec)
    first, *_ = (spec.whole or spec).rows
    others, wanted = [row for row in spec.rows if row != first], len(spec.seeds)
    if not others:
        raise UserError(f"{spec.name} compares rows with {first.id}: name one of the others.")
    base = by_seed(spec, Cell(panel, first, dataset, clients), protocol, source)
    paper = reference.numbers(spec.printed_file, "variant", "class")
    found: Changes = {}
    pairs: list[PrintedPair] = []
    rows: list[dict[str, Any]] = []
    lines = []
    for row in others:
        cell = Cell(panel, row, dataset, clients)
        own = by_seed(spec, cell, protocol, source)
        shared = [seed for seed in own if seed in base]
        found[row], line = [], [row.label]
        for label in range(facts(dataset).classes):
            after, before = ([side[seed][label] for seed in shared] for side in (own, base))
            gained = [a.scores[F1] - b.scores[F1] for a, b in zip(after, before, strict=True)]
            change, theirs = common.stat([100 * gain for gain in gained]), paper.get((row.name, label))
            step = 100 * max((each.steps[F1] for each in after), default=0.0)
            pairs.append(PrintedPair(f"{row.name}, class {label}", change, theirs, step=step))
            found[row].append(change)
            line.append(" ".join(filter(None, (stat_text(change, 2, wanted), f"({signed(theirs)})" if theirs else ""))))
            head = common.head(spec, protocol, cell) | {"client": spec.option("client"), "class": label}
            head |= columns_of(change, 4, "points", "std", "n_seeds") | {"wanted": wanted}
            rows.append(head | {"printed": signed(theirs)})
        lines.append(line)
    body = grid_text(["", *(f"class {label}" for label in range(facts(dataset).classes))], lines)
    caption = f"F1 in points above {first.name}, mean and std over seeds; in brackets what the paper's text says."
    done = common.count_done(rows, wanted)
    content = Content(rows, f"{caption}\n\n{body}", done, len(rows), draw=lambda figure: draw(figure, found))
    return printed_pairs.with_verdicts(content, pairs)


def by_seed(spec: TableSpec, cell: Cell, protocol: str, source: RunSource) -> dict[int, list[ClassCounts]]:
    """Read what is counted of each class at the client, by seed; seeds that have not run are left out."""
    selection = printed_round(spec, protocol)
    client, classes = int(spec.option("client")), range(facts(cell.dataset).classes)
    return {
        int(record.config["seed"]): [counted(record, cell.panel.probe, selection, client, label) for label in classes]
        for record in common.recorded(spec, cell, protocol, source)
    }


def draw(figure: Figure, found: Changes) -> None:
    """Draw a mark with its std for each row, classes across."""
    figure.set_size_inches(7.2, 4.2)
    chart = figure.subplots()
    for number, (row, changes) in enumerate(found.items()):
        shift = charts.aside(number, len(found), charts.SHARED)
        points = [(x + shift, own.mean, own.std) for x, own in enumerate(changes) if own is not None]
        charts.spans(chart, points, number, row.label)
    chart.axhline(0, color="0.6", lw=0.8)
    charts.tidy(chart, "class", "points of F1", whole=False)
    charts.legend(figure)
