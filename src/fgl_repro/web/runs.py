"""Runs behind the numbers, a script for each configuration: it holds the records of its seeds, and their curves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fgl_repro.runs.frames import sent
from fgl_repro.runs.record import Record
from fgl_repro.web import scripts

DIGITS = 12
"""Digits of a cell's digest that name its script."""
SHORT = 8
"""Digits of a key that tables name a run by."""

CurvesByRun = Mapping[str, Mapping[str, list[Any]]]


class Runs:
    """Where pages find runs.

    Args:
        found: Runs and the paper with whose results they are published (empty: they are not).
    """

    def __init__(self, found: Iterable[tuple[str, Record]]) -> None:
        self._of: dict[str, list[tuple[str, Record]]] = {}
        self._files: dict[str, list[str]] = {}
        every: set[str] = set()
        for paper, record in found:
            if record.key not in every:
                every.add(record.key)
                self._of.setdefault(record.cell[:DIGITS], []).append((paper, record))
                self._files.setdefault(record.key[:SHORT], []).append(record.cell[:DIGITS])

    def files(self, keys: Iterable[str]) -> list[str]:
        """Name the scripts that hold the runs whose keys begin so; runs that are not at hand have none."""
        return list(dict.fromkeys(file for key in keys for file in self._files.get(key[:SHORT], [])))

    def write(self, docs: Path, curves: CurvesByRun) -> None:
        """Write ``runs/<cell>.js`` for every configuration, and ``runs.js``, a line a run."""
        lines = []
        for cell, runs in self._of.items():
            runs.sort(key=lambda run: int(run[1].config["seed"]))
            shown = [_content(paper, record, curves.get(record.key, {})) for paper, record in runs]
            scripts.write(docs, f"runs/{cell}", shown)
            lines += [_line(paper, record, cell) for paper, record in runs]
        scripts.write(docs, "all-runs", lines)


def _content(paper: str, record: Record, curves: Mapping[str, list[Any]]) -> dict[str, Any]:
    content = record.as_json()
    content.pop("checksum", None)
    for rounds in content["metrics"].values():
        for measured in rounds.values():
            measured.pop("confusion", None)  # the largest part, and no page shows it
    wanted = {name: values for name, values in curves.items() if "/" not in name}
    return {"paper": paper, "record": content, "curves": wanted, "sent": sent(record)}


def _line(paper: str, record: Record, cell: str) -> list[Any]:
    config = record.config
    probe = next(name for name in record.metrics if name != "validation") if len(record.metrics) > 1 else "validation"
    found = record.at(probe, "best")
    score = None if found is None or found.accuracy is None else round(found.kind.scale * found.accuracy, 2)
    return [
        *(
            paper,
            record.key[:SHORT],
            config["method"]["name"],
            config["method"].get("variant", ""),
            config["dataset"]["name"],
        ),
        *(config["partitioner"]["clients"], config["partitioner"]["name"], config["setting"]["world"], record.protocol),
        *(config["protocol"].get("lr"), config["seed"], probe, score, round(record.seconds["total"], 1), cell),
    ]
