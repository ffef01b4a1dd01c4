"""Keys are promises: what packed runs are called is what today's code calls them."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from fgl_repro.config import digest, from_science, key_of, science

RESULTS = Path(__file__).resolve().parents[2] / "results"


def packed(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """Key and science of every run in a packed CSV."""
    csv.field_size_limit(2**31 - 1)
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    return [(row["key"], json.loads(row["record"])["config"]) for row in rows]


FEWEST = {"opfgl": 1684, "fedvn": 167}
"""Runs that a paper had packed while its tables were still begun."""


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*/runs.csv")), ids=lambda path: path.parent.name)
def test_every_packed_run_keeps_its_key(path: Path) -> None:
    runs = packed(path)
    assert len(runs) >= FEWEST.get(path.parent.name, 301)
    for key, identity in runs:
        config = from_science(identity)
        assert science(config) == identity, key
        assert key_of(config) == digest(identity) == key
