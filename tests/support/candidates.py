"""A protocol that tunes, and records of its candidates."""

from __future__ import annotations

import copy

from fgl_repro.config import Config
from fgl_repro.runs import tuning
from fgl_repro.runs.store import RecordStore
from support import helpers

RATES = (0.1, 0.01, 0.001)


def tuned(seed: int = 1, **choices: object) -> Config:
    run = helpers.config(seed=seed, **choices)
    listed = [{"protocol.lr": rate} for rate in RATES]
    run.protocol.tuning = {"seed": 0, "candidates": {"fedavg": listed, "fedpub": copy.deepcopy(listed)}}
    return run


def record_candidates(store: RecordStore, run: Config, validation: list[float], test: list[float]) -> None:
    for candidate, chosen_by, other in zip(tuning.candidate_configs(run), validation, test, strict=True):
        store.save(helpers.record(candidate, best=other, last=other, probes={"validation": chosen_by}))
