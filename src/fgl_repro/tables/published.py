"""What is published of a paper: comparisons, packed runs and curves, read from its folder of ``results``."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from fgl_repro.runs import curves
from fgl_repro.runs.packed import Packed
from fgl_repro.runs.record import Record
from fgl_repro.tables.load import papers

SHORT = {"method": "method.name", "variant": "method.variant", "dataset": "dataset.name", "world": "setting.world"}
SHORT["clients"] = "partitioner.clients"

Words = dict[str, str]


class Published:
    """The published files of one paper, each read once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def cells(self) -> list[Words]:
        return [row for path in sorted(self.folder.glob("*/compare_*.csv")) for row in lines_of(path)]

    @cached_property
    def records(self) -> Mapping[str, Record]:
        return Packed(self.folder / "runs.csv")

    @cached_property
    def configs(self) -> list[tuple[str, Words]]:
        """Key and flat config of every packed run, under short names as well."""
        flat = {key: dict(_flat(r.config)) | {"protocol": r.protocol} for key, r in self.records.items()}
        return [(key, f | {short: f.get(dotted, "") for short, dotted in SHORT.items()}) for key, f in flat.items()]

    @cached_property
    def curves(self) -> dict[str, dict[str, list[float | None]]]:
        return curves.read_packed(self.folder / "curves.csv")


def all_published(results: Path) -> dict[str, Published]:
    """Find every paper that has packed runs."""
    return {paper: Published(results / paper) for paper in papers() if (results / paper / "runs.csv").exists()}


def lines_of(path: Path) -> list[Words]:
    """Read the lines of a published CSV; a ValueError names one that is missing."""
    if not path.exists():
        raise ValueError(f"there is no file {path.parent.name}/{path.name}")
    with open(path, encoding="utf-8", newline="") as text:
        return list(csv.DictReader(text))


def _flat(config: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in config.items():
        yield from _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else [(prefix + name, str(value))]
