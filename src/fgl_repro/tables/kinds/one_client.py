"""F1, recall and precision of single classes at one client, beside the printed ones (O-pFGL's Table 21).

``options.client`` counts from 0, ``options.classes`` maps a class to what the reference's column ``variant`` calls it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fgl_repro.runs.record import Record
from fgl_repro.runs.store import Source
from fgl_repro.tables import reference
from fgl_repro.tables.artifact import Content
from fgl_repro.tables.kinds import common
from fgl_repro.tables.kinds.common import Line, told
from fgl_repro.tables.results import ROUND, columns_of, decimal
from fgl_repro.tables.spec import Cell, TableSpec

METRICS = ("f1_class", "recall", "precision")


def content(spec: TableSpec, protocol: str, source: Source) -> Content:
    """Rows down; the three numbers of each class, ours and printed, across; all in percent."""
    paper = reference.numbers(spec.option("reference"), "dataset", "n_clients", "method", "variant", "metric")
    classes, client, wanted = dict(spec.option("classes")), int(spec.option("client")), len(spec.seeds)

    def line(cell: Cell) -> Line:
        records = common.recorded(spec, cell, protocol, source)
        selection = ROUND[spec.config(cell, protocol, spec.seeds[0]).protocol.selection]
        words: list[object] = [cell.row.label]
        rows: list[dict[str, Any]] = []
        for label, name in classes.items():
            found = [scores(record, cell.panel.probe, selection, client, int(label)) for record in records]
            for metric in METRICS:
                own = common.stat([100 * each[metric] for each in found])
                theirs = paper.get((cell.dataset, cell.clients, cell.row.name, name, metric))
                words += [told(own, 2, wanted), decimal(theirs, 2)]
                row = common.head(spec, protocol, cell) | {"client": client, "class": label, "metric": metric}
                row |= columns_of(own, 4, "value", "std", "n_seeds") | {"wanted": wanted}
                rows.append(row | {"printed": decimal(theirs, 2)})
        return words, rows

    names = [f"{name}, {metric.partition('_')[0]}" for name in classes.values() for metric in METRICS]
    heads = [head for name in names for head in (name, "paper")]
    return common.filled(spec, ["method", *heads], line, wanted)


def scores(record: Record, probe: str, selection: str, client: int, label: int) -> dict[str, float]:
    """The three numbers of a class as fractions, from a record's counts; 0 where they are 0 / 0."""
    table = np.array(record.metrics[probe][selection].confusion)[client]
    both, true, said = float(table[label, label]), float(table[label].sum()), float(table[:, label].sum())
    shares = 2 * both / max(true + said, 1), both / max(true, 1), both / max(said, 1)
    return dict(zip(METRICS, shares, strict=True))
