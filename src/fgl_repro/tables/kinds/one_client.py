"""F1, recall and precision of single classes at one client, beside the printed ones (O-pFGL's Table 21).

``options.client`` counts from 0, ``options.classes`` maps a class to what the reference's column ``variant`` calls it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fgl_repro.runs.record import Record
from fgl_repro.runs.store import RunSource
from fgl_repro.tables import printed_pairs, reference
from fgl_repro.tables.artifact import Content
from fgl_repro.tables.entries import Cell
from fgl_repro.tables.kinds import common
from fgl_repro.tables.kinds.common import CellLines, stat_text
from fgl_repro.tables.printed_pairs import PrintedPair
from fgl_repro.tables.printing import columns_of, decimal
from fgl_repro.tables.results import printed_round
from fgl_repro.tables.spec import TableSpec

OF_A_CLASS = ("f1_class", "recall", "precision")


def content(spec: TableSpec, protocol: str, source: RunSource) -> Content:
    """Fill a grid: rows down; the three numbers of each class, ours and printed, across; all in percent."""
    columns = "dataset", "n_clients", "method", "variant", "metric"
    paper = reference.numbers(spec.printed_file, *columns)
    misprints = reference.misprints(spec.printed_file, *columns)
    pairs: list[PrintedPair] = []
    classes, client, wanted = dict(spec.option("classes")), int(spec.option("client")), len(spec.seeds)

    def line(cell: Cell) -> CellLines:
        records = common.recorded(spec, cell, protocol, source)
        selection = printed_round(spec, protocol)
        words: list[object] = [cell.row.label]
        rows: list[dict[str, Any]] = []
        for label, name in classes.items():
            counts = [counted(record, cell.panel.probe, selection, client, int(label)) for record in records]
            for metric in OF_A_CLASS:
                own = common.stat([100 * each.scores[metric] for each in counts])
                where = cell.dataset, cell.clients, cell.row.name, name, metric
                theirs, step = paper.get(where), max((100 * each.steps[metric] for each in counts), default=0.0)
                number_name = f"{cell.row.name}, {name}, {metric.partition('_')[0]}"
                pairs.append(PrintedPair(number_name, own, theirs, step=step, suspect=where in misprints))
                words += [stat_text(own, 2, wanted), decimal(theirs, 2)]
                row = common.head(spec, protocol, cell) | {"client": client, "class": label, "metric": metric}
                row |= columns_of(own, 4, "value", "std", "n_seeds") | {"wanted": wanted}
                rows.append(row | {"printed": decimal(theirs, 2)})
        return words, rows

    names = [f"{name}, {metric.partition('_')[0]}" for name in classes.values() for metric in OF_A_CLASS]
    heads = [head for name in names for head in (name, "paper")]
    return printed_pairs.with_verdicts(common.filled(spec, ["method", *heads], line, wanted), pairs)


@dataclass(frozen=True)
class ClassCounts:
    """Nodes of a class at a client: told right, of the class, told to be of it."""

    both: int
    true: int
    predicted: int

    @property
    def scores(self) -> dict[str, float]:
        """The three numbers as fractions; 0 where they are 0 / 0."""
        return {metric: share * self.both for metric, share in self.steps.items()}

    @property
    def steps(self) -> dict[str, float]:
        """By how much one node more told right moves each of them."""
        shares = 2 / max(self.true + self.predicted, 1), 1 / max(self.true, 1), 1 / max(self.predicted, 1)
        return dict(zip(OF_A_CLASS, shares, strict=True))


def counted(record: Record, probe: str, selection: str, client: int, label: int) -> ClassCounts:
    """Read what a record has counted of a class at a client."""
    table = np.array(record.metrics[probe][selection].confusion)[client]
    return ClassCounts(int(table[label, label]), int(table[label].sum()), int(table[:, label].sum()))
