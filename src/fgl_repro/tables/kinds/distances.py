"""How far neighbourhoods are from the global graph's, before and after mending (FedSage's Table D1).

L2 distance of the mean feature of a node's neighbours, mean and std over nodes, from what runs of FedSage+ record;
means over seeds. Verdicts are on the share of the distance that mending leaves: levels depend on how features are
scaled. ``options``: ``reference``, the printed numbers; ``nodes``: ``all``, or those that ``lost`` some.
"""

from __future__ import annotations

from collections.abc import Sequence

from fgl_repro.runs.store import RunSource
from fgl_repro.tables import printed_pairs, reference
from fgl_repro.tables.artifact import Content
from fgl_repro.tables.entries import place, spelled
from fgl_repro.tables.kinds import common
from fgl_repro.tables.printed_pairs import PrintedPair
from fgl_repro.tables.printing import columns_of, decimal
from fgl_repro.tables.spec import TableSpec

GRAPHS = ("mended", "original")


def content(spec: TableSpec, protocol: str, source: RunSource) -> Content:
    """Write a line a cell: both distances and their ratio, ours and printed, with a verdict on the ratio."""
    printed = reference.numbers(spec.printed_file, "dataset", "n_clients", "variant")
    theirs = {(*where, graph.partition(" ")[0]): value for (*where, graph), value in printed.items()}
    rows, body, nodes = [], [], spec.option("nodes")
    pairs: list[PrintedPair] = []
    for cell in spec.cells():
        facts = [record.fact("distance") for record in common.recorded(spec, cell, protocol, source)]
        distances = [fact[nodes] for fact in facts if fact is not None]
        row = common.head(spec, protocol, cell)
        sides: list[list[float | None]] = [[], []]
        for graph in GRAPHS:
            mean, within = (common.stat([distance[graph][part] for distance in distances]) for part in (0, 1))
            other = theirs.get((cell.dataset, cell.clients, graph))
            row |= columns_of(mean, 6, graph) | columns_of(within, 6, f"{graph}_std")
            row[f"paper_{graph}"] = decimal(other, 4)
            sides[0].append(None if mean is None else mean.mean)
            sides[1].append(other)
        own, paper = map(_ratio, sides)
        row |= {"ratio": decimal(own, 4), "paper_ratio": decimal(paper, 4)}
        shares = [share for fact in distances if (share := _ratio([fact[graph][0] for graph in GRAPHS])) is not None]
        name = f"{place(cell.dataset, cell.clients)}, {cell.row.label}"
        pairs.append(PrintedPair(name, common.stat(shares), paper, whole=1))
        rows.append(row | {"n_seeds": len(distances), "wanted": len(spec.seeds)})
        shown = [decimal(value, 4) for side in sides for value in side]
        seeds = f"{len(distances)} of {len(spec.seeds)}"
        place_and_name = [spelled(cell.dataset), cell.clients, cell.row.label]
        body.append([*place_and_name, *shown, decimal(own, 2), decimal(paper, 2), seeds])
    heads = ["data set", "owners", "method", "mended", "original", "mended, paper", "original, paper"]
    heads += ["mended / original", "paper", "seeds"]
    done = sum(row["n_seeds"] == row["wanted"] for row in rows)
    return printed_pairs.with_verdicts(
        Content(rows, common.grid(spec, heads, body, numbers_from=3), done, len(rows)), pairs
    )


def _ratio(values: Sequence[float | None]) -> float | None:
    mended, original = values
    return mended / original if mended is not None and original else None
