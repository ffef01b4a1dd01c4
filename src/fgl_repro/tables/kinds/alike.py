"""How alike two clients' embeddings of graphs of one class are, as runs with all curves record it (FedVN's Figure 6).

``options.reference``: printed values by class and clients, of whatever method.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from fgl_repro.data.catalog import printed_as
from fgl_repro.runs.store import RunSource
from fgl_repro.tables import reference
from fgl_repro.tables.artifact import Content
from fgl_repro.tables.entries import Cell, place
from fgl_repro.tables.kinds import common
from fgl_repro.tables.kinds.common import stat_text
from fgl_repro.tables.printing import columns_of, decimal, grid_text
from fgl_repro.tables.results import Stat
from fgl_repro.tables.spec import TableSpec

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CURVES = "all"

SimilarityByPair = dict[tuple[int, int], Stat]
"""Similarity by pair of clients, those without a graph of the class left out."""


def content(spec: TableSpec, protocol: str, source: RunSource) -> Content:
    """Write a CSV line a row, class and pair; in text the mean over pairs, the pair least alike, and printed pairs."""
    paper = reference.numbers(spec.printed_file, "dataset", "class", "client", "other")
    found: dict[Cell, list[SimilarityByPair]] = {}
    rows: list[dict[str, Any]] = []
    body, known, bare, seeds = [], [], 0, len(spec.seeds)
    for cell in spec.cells():
        facts = [record.fact("alike") for record in common.recorded(spec, cell, protocol, source)]
        bare += facts.count(None)
        found[cell] = [by_pair(squares) for squares in zip(*filter(None, facts), strict=True)]
        head = common.head(spec, protocol, cell)
        for label, pairs in enumerate(found[cell]):
            body.append([place(cell.dataset, cell.clients), cell.row.label, label, *_summary(pairs, seeds)])
            for (client, other), value in pairs.items():
                printed = paper.get((printed_as(cell.dataset).lower(), label, str(client), str(other)))
                row = head | {"class": label, "client": client, "other": other}
                rows.append(row | columns_of(value, 6, "mean", "std", "n_seeds") | {"printed": decimal(printed, 2)})
                if printed is not None:
                    where = f"class {label}, clients {client} and {other}: {printed:.2f}"
                    known.append(f"Printed of {where}; here {stat_text(value, 2, seeds)} ({cell.row.label}).")
        if not found[cell]:
            row = head | {"class": "", "client": "", "other": ""}
            rows.append(row | columns_of(None, 6, "mean", "std", "n_seeds") | {"printed": ""})
    heads = ["column", "method", "class", "mean of pairs", "least alike", "clients"]
    parts = [grid_text(heads, body, numbers_from=3), *known]
    if bare:
        parts.append(f"{bare} runs do not tell of embeddings: `{common.run_command(spec)} --fresh` does them again.")
    done = common.count_done(rows, seeds)
    return Content(rows, "\n\n".join(parts), done, len(rows), draw=lambda figure: draw(figure, found))


def by_pair(squares: Sequence[Sequence[Sequence[float | None]]]) -> SimilarityByPair:
    """Compute mean and std over runs of one class's similarities, ``[K, K]`` each."""
    pairs = combinations(range(len(squares[0])), 2)
    known = {(i, j): [v for square in squares if (v := square[i][j]) is not None] for i, j in pairs}
    return {pair: value for pair, values in known.items() if (value := common.stat(values)) is not None}


def _summary(pairs: SimilarityByPair, seeds: int) -> list[object]:
    """Tell the mean over pairs, the lowest, and whose that is; blanks where no two clients have graphs of the class."""
    if not pairs:
        return [stat_text(None, 3, seeds), stat_text(None, 3, seeds), ""]
    least = min(pairs, key=lambda pair: pairs[pair].mean)
    mean = Stat(float(np.mean([value.mean for value in pairs.values()])), None, pairs[least].n)
    return [stat_text(mean, 3, seeds), stat_text(pairs[least], 3, seeds), "{} and {}".format(*least)]


def draw(figure: Figure, found: dict[Cell, list[SimilarityByPair]]) -> None:
    """Draw a line of squares a method, classes across; darker is more alike."""
    classes = max(map(len, found.values()), default=0) or 1
    figure.set_size_inches(1.4 + 2.4 * classes, 0.8 + 2.5 * len(found))
    grid = figure.subplots(len(found), classes, squeeze=False)
    for line, (cell, squares) in zip(grid, found.items(), strict=True):
        for label, chart in enumerate(line):
            pairs = squares[label] if label < len(squares) else {}
            clients = max((j for _, j in pairs), default=1) + 1
            values = np.full((clients, clients), np.nan)
            for (i, j), value in pairs.items():
                values[i, j] = values[j, i] = value.mean
                for x, y in ((i, j), (j, i)):
                    colour = "white" if value.mean > 0.6 else "black"
                    chart.text(x, y, f"{value.mean:.2f}", ha="center", va="center", fontsize=7, color=colour)
            chart.imshow(values, vmin=0, vmax=1, cmap="Blues")
            if not pairs:
                chart.text(0.5, 0.5, "not run", ha="center", color="0.5")
            chart.set_xticks(range(clients))
            chart.set_yticks(range(clients))
            chart.set_title(f"class {label}", fontsize=10)
            chart.set_ylabel(cell.row.label if label == 0 else "")
