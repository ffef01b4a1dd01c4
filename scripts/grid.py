"""What the scripts share: the words that choose cells of a grid, their runs, and the printed numbers beside them."""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from fgl_repro import config as configs
from fgl_repro.config import Config
from fgl_repro.core.errors import UserError
from fgl_repro.core.files import folder_of
from fgl_repro.runs.record import Record
from fgl_repro.runs.store import RecordStore
from fgl_repro.tables import reference

FEDLOG_CLOSED_SET = {"seen_graph": "1", "unseen_node": "2a", "missing_class": "2b", "new_client": "2c"}
"""FedLoG's closed-set panels: the probe, and the table that prints it."""


def parser(description: str | None, **defaults: str) -> argparse.ArgumentParser:
    """A parser of ``--records`` and of comma-separated axes, one for each of ``defaults``."""
    out = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    for axis, default in defaults.items():
        kind = numbers if axis in ("clients", "seeds", "splits") else words
        out.add_argument(f"--{axis}", type=kind, default=default, help=f"comma-separated; default {default}")
    records = folder_of("FGL_RECORDS", "results/records")
    out.add_argument("--records", type=Path, default=records, help=f"folder of records; default {records}")
    return out


def words(text: str) -> list[str]:
    """``cora,pubmed`` as a list."""
    return text.split(",")


def numbers(text: str) -> list[int]:
    """``3,5`` as a list."""
    return [int(word) for word in text.split(",")]


def cells(args: argparse.Namespace) -> Iterator[tuple[str, int, str]]:
    """Every data set, number of clients and method, in this order."""
    return itertools.product(args.datasets, args.clients, args.methods)


def with_seed(config: Config, seed: int) -> Config:
    """The same run with another seed."""
    return configs.override(config, {"seed": seed})


def recorded(store: RecordStore, config: Config) -> Record | None:
    """The record of a run, if there is one."""
    return store.load(configs.key_of(config))


def printed(dataset: str, clients: int, display: str, table: str, setting: str) -> float | None:
    """FedLoG's mean of one cell of a table, percent; None where it prints none or a misprint."""
    return reference.percent(f"fedlog/table_{table}.csv", setting, (dataset, clients, display))


def run(main: Callable[[], int]) -> None:
    """Leave with the status of ``main``: 2, with one sentence, where the user can mend what is wrong."""
    try:
        sys.exit(main())
    except UserError as error:
        print(f"{Path(sys.argv[0]).stem}: {error}", file=sys.stderr)
        sys.exit(2)
