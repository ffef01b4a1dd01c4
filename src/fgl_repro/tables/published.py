"""What is published of a paper: comparisons, packed runs and curves, read from its folder of ``results``."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from fgl_repro.runs.folders import RunFolders
from fgl_repro.runs.record import Record
from fgl_repro.tables.load import load, papers
from fgl_repro.tables.paired import PairedComparison, compared
from fgl_repro.tables.request import NARROWED, narrowed

SHORT = {"method": "method.name", "variant": "method.variant", "dataset": "dataset.name", "world": "setting.world"}
SHORT["clients"] = "partitioner.clients"

Words = dict[str, str]


class PublishedPaper:
    """The published files of one paper, each read once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._folders = RunFolders(folder, folder.parent)
        self._comparisons: dict[tuple[str, str, str], PairedComparison] = {}

    @cached_property
    def cells(self) -> list[Words]:
        return [row for path in sorted(self.folder.glob("*/compare_*.csv")) for row in lines_of(path)]

    @cached_property
    def records(self) -> Mapping[str, Record]:
        return self._folders.published(self.folder.name).runs

    def compared(self, table: str, protocol: str, row: str) -> PairedComparison:
        """Compare a row of a table with each other one, from packed runs alone (see :func:`paired.compared`)."""
        asked = (table, protocol, row)
        if asked not in self._comparisons:
            wanted = narrowed(load(f"{self.folder.name}/{table}"), protocol, dict.fromkeys(NARROWED, ()))
            self._comparisons[asked] = compared(wanted, row, self._folders.published_alone(self.folder.name))
        return self._comparisons[asked]

    @cached_property
    def configs(self) -> list[tuple[str, Words]]:
        """Key and flat config of every packed run, under short names as well."""
        flat = {key: dict(_flat(r.config)) | {"protocol": r.protocol} for key, r in self.records.items()}
        return [(key, f | {short: f.get(dotted, "") for short, dotted in SHORT.items()}) for key, f in flat.items()]

    @cached_property
    def curves(self) -> dict[str, dict[str, list[float | None]]]:
        return self._folders.published(self.folder.name).curves


def all_published(results: Path) -> dict[str, PublishedPaper]:
    """Find every paper that has packed runs."""
    return {paper: PublishedPaper(results / paper) for paper in papers() if (results / paper / "runs.csv").exists()}


def lines_of(path: Path) -> list[Words]:
    """Read the lines of a published CSV; a ValueError names one that is missing."""
    if not path.exists():
        raise ValueError(f"there is no file {path.parent.name}/{path.name}")
    with open(path, encoding="utf-8", newline="") as text:
        return list(csv.DictReader(text))


def _flat(config: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in config.items():
        yield from _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else [(prefix + name, str(value))]
