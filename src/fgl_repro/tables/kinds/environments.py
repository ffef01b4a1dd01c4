"""Data sets whose units are graphs: clients, graphs, sizes and task, ours and printed (FedVN's Table 3)."""

from __future__ import annotations

from typing import Any

from fgl_repro.core.errors import UserError
from fgl_repro.data.catalog import facts, printed_as
from fgl_repro.federation.partitioners.environment import Environment
from fgl_repro.runs.store import RunSource
from fgl_repro.tables import reference
from fgl_repro.tables.artifact import Content
from fgl_repro.tables.entries import spelled
from fgl_repro.tables.kinds import common
from fgl_repro.tables.printing import grid_text
from fgl_repro.tables.spec import TableSpec


def content(spec: TableSpec, protocol: str, source: RunSource) -> Content:
    """Write a line of the CSV a data set and quantity; those that print has are told beside it."""
    lines = reference.lines(spec.printed_file)
    paper = {(line["dataset"], line["metric"]): line["value"] or line["note"] for line in lines}  # words are notes
    rows: list[dict[str, Any]] = []
    body = []
    for dataset in spec.datasets:
        partitioner = common.example(spec, dataset, 1, protocol).partitioner
        if not isinstance(partitioner, Environment):
            raise UserError(f"{spec.name} is of kind {spec.kind}, whose clients have an environment: partition by it.")
        ours = quantities(dataset, partitioner.graphs)
        words = [spelled(dataset)]
        for quantity, own in ours.items():
            printed = paper.get((printed_as(dataset), quantity), "")
            row = common.data_head(spec, protocol, dataset) | {"quantity": quantity, "value": own, "printed": printed}
            rows.append(row | {"equal": int(own == printed) if printed else ""})
            words.append(own if printed in ("", own) else f"{own} ({printed})")
        body.append(words)
    met = [row["equal"] for row in rows if row["equal"] != ""]
    tally = f"{sum(met)} of {len(met)} printed entries are met; where another one is printed, it stands in brackets."
    heads = ["data set", *(quantity.replace("_", " ") for quantity in quantities(spec.datasets[0], 0))]
    text = "\n\n".join([grid_text(heads, body), *([tally] if spec.printed_file else [])])
    return Content(rows, text, len(rows), len(rows))


def quantities(dataset: str, graphs: int) -> dict[str, str]:
    """List what is told of a data set of which each client takes so many ``graphs``."""
    known = facts(dataset)
    count = sum(known.graphs)
    return {
        "n_clients": str(len(known.graphs)),
        "graphs_per_client": str(graphs),
        "task": "Classification" if known.classes > 1 else "Regression",
        "metric": "Accuracy" if known.classes > 1 else "MAE",
        "graphs": f"{count:,}",
        "fewest_in_an_environment": f"{min(known.graphs):,}",
        "mean_nodes": f"{known.full_nodes / count:.1f}",
        "mean_edges": f"{known.full_edges / 2 / count:.1f}",
        "features": str(known.features),
        "classes": str(known.classes) if known.classes > 1 else "",
    }
