"""What the protocols of the tables choose settings from."""

from __future__ import annotations

import pytest

from fgl_repro.config import key_of
from fgl_repro.runs import tuning
from fgl_repro.tables.load import load, names


@pytest.mark.parametrize(
    ("protocol", "seed", "nothing"),
    [
        ("fedlog_tuned", 0, set()),
        ("opfgl_tuned", 0, set()),
        ("fedvn_weights", 5, {"local", "fedavg", "fedbn", "fedrep", "fedstar"}),
        ("fedvn_tuned", 5, set()),
    ],
)
def test_candidates_are_as_many_for_every_method_of_the_tables_and_all_different(
    protocol: str, seed: int, nothing: set[str]
) -> None:
    """Those of methods with nothing to choose are all the same run."""
    keys = []
    tuned = [spec for spec in map(load, names()) if protocol in spec.protocols]
    every = {(cell.row.method, cell.dataset): (cell, spec) for spec in tuned for cell in spec.cells()}
    for cell, table in every.values():
        found = tuning.candidate_configs(table.config(cell, protocol, 2))
        assert {c.seed for c in found} == {seed}
        keys.append([key_of(c) for c in found])
        assert len(set(keys[-1])) == (1 if cell.row.method in nothing else len(found))
    assert len({len(k) for k in keys}) == 1
    assert len({key for k in keys for key in k}) == sum(len(set(k)) for k in keys) > len(keys)
