"""A grid of accuracies beside the printed ones: methods down, data sets and clients across, a panel a probe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fgl_repro.runs.store import Source
from fgl_repro.tables import compare, results
from fgl_repro.tables.artifact import Content
from fgl_repro.tables.results import ROUNDS, Grid, cell_text, csv_text, exact, grid_text, row_gap, signed
from fgl_repro.tables.spec import Cell, Panel, Row, TableSpec, spelled

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def content(spec: TableSpec, protocol: str, source: Source) -> Content:
    """Long and paper-shaped CSV, the page at both rounds, the comparison as CSV and page."""
    table = results.fill(spec, protocol, source)
    comparison = compare.markdown(table)
    files = {
        f"{spec.stem}_wide.csv": wide_text(table),
        f"compare_{spec.table}.csv": csv_text(compare.rows(table)),
        f"compare_{spec.table}.md": comparison,
    }

    def draw(figure: Figure) -> None:
        from fgl_repro.tables.figures import gaps

        gaps.draw(figure, table)

    return Content(
        long_rows(table),
        comparison.partition("## By cell")[0].rstrip(),
        *results.tally(table),
        draw=draw,
        page=markdown(table),
        screen=compare.screen(table),
        files=files,
        grid=table,
    )


def long_rows(table: Grid) -> list[dict[str, Any]]:
    """One row a cell and selection."""
    spec = table.spec
    rows = []
    for cell, found in table.results.items():
        for selection in ("best", "last"):
            value = found.at(selection)
            row: dict[str, Any] = {
                "paper": spec.paper,
                "table": spec.table,
                "panel": cell.panel.name,
                "protocol": table.protocol,
            }
            row |= {"dataset": cell.dataset, "clients": cell.clients, "method": cell.row.method}
            row |= {"name": cell.row.name, "variant": cell.row.variant, "probe": cell.panel.probe}
            row |= {"metric": spec.metric, "selection": selection, "printed": int(selection == table.selection)}
            row |= {"mean": exact(value.mean if value else None), "std": exact(value.std if value else None)}
            row |= {"ddof": table.ddof, "n_seeds": value.n if value else 0, "wanted": found.wanted}
            row |= {"status": found.status, "chosen": found.chosen, "runs": " ".join(found.keys)}
            rows.append(row)
    return rows


def _columns(spec: TableSpec) -> list[tuple[str, int]]:
    return [(dataset, clients) for dataset in spec.datasets for clients in spec.clients]


def _wide_row(table: Grid, panel: Panel, row: Row, selection: str) -> list[str]:
    return [
        cell_text(table.results[Cell(panel, row, dataset, clients)], selection, table.spec.format)
        for dataset, clients in _columns(table.spec)
    ]


def _across_panels(table: Grid, dataset: str, clients: int, selection: str) -> list[list[str]]:
    """Lines of one column of the grid, a panel each across, differences of rows below."""
    panels = table.spec.panels
    lines = [
        [
            row.label,
            *(cell_text(table.results[Cell(p, row, dataset, clients)], selection, table.spec.format) for p in panels),
        ]
        for row in table.spec.rows
    ]
    for name, pair in table.spec.differences.items():
        lines.append([name, *(signed(row_gap(table, pair, p, dataset, clients, selection)) for p in panels)])
    return lines


def _wide_across_panels(table: Grid) -> str:
    columns = ["column", "selection", "method", *(panel.title for panel in table.spec.panels)]
    rows = []
    for selection in _both(table):
        for dataset, clients in _columns(table.spec):
            for line in _across_panels(table, dataset, clients, selection):
                rows.append(dict(zip(columns, [f"{spelled(dataset)} {clients}", selection, *line], strict=True)))
    return csv_text(rows)


def wide_text(table: Grid) -> str:
    """Shaped as the paper prints it: methods down, data sets and clients across; both selections, the printed first."""
    if table.spec.columns == "panels":
        return _wide_across_panels(table)
    heads = [f"{spelled(dataset)} {clients}" for dataset, clients in _columns(table.spec)]
    columns = ["panel", "selection", "method", *heads]
    rows = []
    for selection in _both(table):
        for panel in table.spec.panels:
            for row in table.spec.rows:
                values = [panel.name, selection, row.label, *_wide_row(table, panel, row, selection)]
                rows.append(dict(zip(columns, values, strict=True)))
    return csv_text(rows)


def _both(table: Grid) -> tuple[str, str]:
    return ("best", "last") if table.selection == "best" else ("last", "best")


def markdown(table: Grid) -> str:
    """The table as a page: one grid a panel and data set group, at both rounds."""
    spec = table.spec
    unit = "percent" if spec.format == "percent" else "fractions"
    lines = [
        f"# {spec.full_title}",
        "",
        f"Protocol `{table.protocol}`; {spec.metric} in {unit}, mean and std (ddof {table.ddof}) over seeds "
        f"{', '.join(map(str, spec.seeds))}; the protocol prints the {ROUNDS[table.selection]}. "
        "`[n of m]`: seeds are missing; blank: not run.",
    ]
    lines += ["", spec.note] if spec.note else []
    for selection in _both(table):
        lines += ["", f"## At the {ROUNDS[selection]}"]
        if spec.columns == "panels":
            for dataset, clients in _columns(spec):
                heads = ["method", *(panel.title for panel in spec.panels)]
                grid = grid_text(heads, _across_panels(table, dataset, clients, selection))
                lines += ["", f"### {spelled(dataset)}, {clients} clients", "", grid]
            continue
        for panel in spec.panels:
            lines += ["", f"### {panel.name}: {panel.title}"]
            for dataset in spec.datasets:
                heads = ["method", *(f"{spelled(dataset)}, {clients} clients" for clients in spec.clients)]
                body = [
                    [row.label]
                    + [
                        cell_text(table.results[Cell(panel, row, dataset, clients)], selection, spec.format)
                        for clients in spec.clients
                    ]
                    for row in spec.rows
                ]
                lines += ["", grid_text(heads, body)]
    return "\n".join(lines) + "\n"
