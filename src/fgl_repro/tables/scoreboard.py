"""The page ``results/README.md``: how many printed numbers come back, paper by paper, and what the runs ran on.

Its template, ``README.md.in``, is prose with ``{scoreboard}``, ``{machines}`` and ``{causes}``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from fgl_repro.tables import causes, compare
from fgl_repro.tables.load import by_number, load, papers
from fgl_repro.tables.printing import grid_text
from fgl_repro.tables.published import PublishedPaper, Words


def fill(text: str, every: Mapping[str, PublishedPaper], found: Mapping[str, str]) -> str:
    """Fill the template with what stands in place of its words.

    Args:
        every: What is published, by paper.
        found: The text of each paper's findings.
    """
    words = {"scoreboard": board(every), "machines": machines(every), "causes": causes.counted(found)}
    for word, made in words.items():
        text = text.replace(f"{{{word}}}", made)
    return text


def scores(every: Mapping[str, PublishedPaper]) -> Iterator[tuple[str, str, dict[str, list[Words]]]]:
    """Yield each paper and protocol, with lines of comparisons of its tables that have run in more than half the cells.

    The others are not on the scoreboard yet: the report of their paper has them. Nor are those that repeat another one.
    """
    for paper, published in sorted(every.items(), key=lambda pair: papers()[pair[0]]):
        counted: dict[str, dict[str, list[Words]]] = {}
        for line in published.cells:
            if not line["paper_mean"]:
                continue
            counted.setdefault(line["protocol"], {}).setdefault(line["table"], []).append(line)
        for protocol, tables in sorted(counted.items()):
            ran = {t: own for t, own in tables.items() if 2 * sum(line["n_seeds"] != "0" for line in own) > len(own)}
            ran = {t: own for t, own in ran.items() if not load(f"{paper}/{t}").repeats}
            if ran:
                yield paper, protocol, ran


def board(every: Mapping[str, PublishedPaper]) -> str:
    """Write a line for each paper and protocol: its printed numbers by verdict, and links to what is behind them."""
    body: list[list[object]] = []
    for paper, protocol, ran in scores(every):
        links = [f"[{table}]({paper}/{protocol}/compare_{table}.md)" for table in sorted(ran, key=by_number)]
        names = (
            f"[{papers()[paper]}]({paper}/FINDINGS.md)",
            f"[`{protocol}`]({paper}/README.md)",
            " ".join(links),
        )
        body.append([*names, *compare.shares([line for own in ran.values() for line in own]).values()])
    heads = ["paper", "protocol", "tables", *compare.HEADS]
    return grid_text(heads, body, numbers_from=3)


def machines(every: Mapping[str, PublishedPaper]) -> str:
    """Say on what packed runs were made, most first: ``3 runs: 2 on a CPU (torch 2.13.0, 1 thread), 1 on a GPU``."""
    runs_on: Counter[str] = Counter()
    for published in every.values():
        for record in published.records.values():
            threads = f"{record.threads} thread{'s' * (record.threads > 1)}"
            torch = f"torch {record.versions.get('torch', 'unknown').partition('+')[0]}"
            runs_on[f"on a GPU ({torch})" if record.on_gpu else f"on a CPU ({torch}, {threads})"] += 1
    return f"{runs_on.total():,} runs: {', '.join(f'{number:,} {where}' for where, number in runs_on.most_common())}"
