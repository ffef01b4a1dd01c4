"""What ``fgl-table`` writes and prints of one table or figure, whatever its kind."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from fgl_repro.tables.spec import ACCURACY

if TYPE_CHECKING:
    from fgl_repro.cli.request import Request
    from fgl_repro.runs.store import Source
    from fgl_repro.tables.artifact import Sheet
    from fgl_repro.tables.results import Table
    from fgl_repro.tables.spec import TableSpec


def fill(spec: TableSpec, protocol: str, source: Source) -> Table | Sheet:
    """A table or figure from whatever records there are."""
    from fgl_repro.tables import artifact as sheet
    from fgl_repro.tables import results as tables

    make = tables.fill if spec.kind == ACCURACY else sheet.make
    return make(spec, protocol, source)


def narrowed(filled: Table | Sheet, wanted: Request, source: Source) -> Table | Sheet:
    """The part that was asked for, of the same records; a table of accuracies keeps all its seeds."""
    from fgl_repro.tables.results import Table

    if isinstance(filled, Table):
        return filled.narrowed(wanted.part)
    return fill(wanted.part, wanted.protocol, source)


def cells(filled: Table | Sheet) -> tuple[int, int]:
    """How many numbers are there, and how many there would be."""
    from fgl_repro.tables.results import Table

    if isinstance(filled, Table):
        results = filled.results.values()
        return sum(result.status == "complete" for result in results), len(results)
    return filled.content.done, filled.content.wanted


def write(filled: Table | Sheet, results: Path) -> list[Path]:
    """Every file of it. Always of the whole: a narrowed run must not blank the rest."""
    from fgl_repro.tables import artifact as sheet
    from fgl_repro.tables import compare
    from fgl_repro.tables import results as tables
    from fgl_repro.tables.figures import accuracies as plots
    from fgl_repro.tables.results import Table

    folder = results / filled.spec.paper / filled.protocol
    if isinstance(filled, Table):
        return [*tables.write(filled, folder), *compare.write(filled, folder), plots.write(filled, folder)]
    return sheet.write(filled, folder)


def rows(filled: Table | Sheet) -> list[dict[str, Any]]:
    """Every number of it, one a line."""
    from fgl_repro.tables import results as tables

    return tables.long_rows(filled) if isinstance(filled, tables.Table) else filled.content.rows


def told(written: list[Path]) -> str:
    """Where the files are."""
    return f"Written to {written[0].parent}: {', '.join(path.name for path in written)}."


def show(filled: Table | Sheet, *, only_rows: bool = False) -> None:
    """Print it beside the paper."""
    from fgl_repro.tables.results import Table

    if isinstance(filled, Table):
        _show_table(filled, only_rows=only_rows)
    else:
        print(filled.page.removeprefix("# ").rstrip())


def summary(filled: Table | Sheet) -> str:
    """The comparison in short."""
    from fgl_repro.tables import compare
    from fgl_repro.tables.results import Table

    if isinstance(filled, Table):
        return compare.markdown(filled).partition("## By cell")[0].rstrip()
    return filled.page.rstrip()


def _show_table(table: Table, *, only_rows: bool) -> None:
    from fgl_repro.tables import compare
    from fgl_repro.tables import results as tables
    from fgl_repro.tables.spec import spelled

    spec = table.spec
    print(spec.full_title)
    print(f"protocol {table.protocol}, {tables.SAID[table.selection]}, {spec.metric} in {spec.format}")
    for panel in spec.panels:
        for dataset in spec.datasets:
            for clients in spec.clients:
                text = compare.beside(table, panel, dataset, clients, only_rows=only_rows)
                if text:
                    print(f"\n{panel.title}, {spelled(dataset)}, {clients} clients\n\n{text}")
    if spec.differences:
        print(f"\nDifferences of rows, in points\n\n{compare.differences(table)}")
