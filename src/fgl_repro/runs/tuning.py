"""Choosing hyper-parameters by seen-graph validation accuracy, on one seed, with the same budget for every method.

A protocol says ``tuning: {seed: s, candidates: {method: [{dotted override: value}, ...]}}``. Candidates are ordinary
runs with ordinary records. Only the validation accuracy of a record is read here: test data never chooses. A candidate
whose loss or validation was not finite has lost.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from fgl_repro.config import Config, key_of, override
from fgl_repro.core.errors import UserError
from fgl_repro.runs.record import DIVERGED, Note, Record
from fgl_repro.runs.store import RunSource

TUNABLE = (
    *("lr", "weight_decay", "optimiser", "momentum", "moments"),
    *("rounds", "local_epochs", "steps", "batch", "remainder"),
    *("fine_tuning", "fine_tuning_lr", "check_every", "patience"),
)
"""Rules of a protocol that validation may choose: how clients are trained, not what they are tested on or how."""


@dataclass(frozen=True)
class Candidate:
    """Settings to choose from: a run with them, and what they override."""

    config: Config
    overrides: dict[str, Any]

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.overrides.items())


def candidate_overrides(config: Config) -> list[dict[str, Any]]:
    """List what each candidate for the method of ``config`` overrides, as the yaml has it; empty without tuning.

    Raises:
        UserError: The method has no candidates, methods have different numbers of them, or one overrides what
            validation may not choose.
    """
    tuning = config.protocol.tuning
    if not tuning:
        return []
    where = f"conf/protocol/{config.protocol.name}.yaml"
    given = tuning.get("candidates")
    if not isinstance(tuning.get("seed"), int) or not _lists(given):
        raise UserError(
            f"protocol.tuning in {where} needs a seed, a whole number, and candidates: a list of overrides for each "
            "method, as {protocol.lr: 0.1}."
        )
    counts = {method: len(found) for method, found in given.items()}
    if len(set(counts.values())) > 1:
        numbers = ", ".join(f"{method} {count}" for method, count in counts.items())
        raise UserError(f"methods must have the same number of candidates, but {where} gives {numbers}: even them out.")
    if not counts.get(config.method.name):
        raise UserError(
            f"{where} has no tuning candidates for method={config.method.name}: add as many as others have, "
            f"in a protocol of your own with defaults: [{config.protocol.name}, _self_] (docs/adding.md)."
        )
    found = [dict(overrides) for overrides in given[config.method.name]]
    if wrong := [name for overrides in found for name in overrides if not _tunable(name)]:
        raise UserError(
            f"{where} has a candidate for method={config.method.name} with {wrong[0]}, which validation may not "
            f"choose: give settings of method or model, as method.mu, or protocol.{', protocol.'.join(TUNABLE)}."
        )
    return found


def _tunable(name: str) -> bool:
    """Tell whether validation may choose an override: no variant, which is a row of its own, and no other world."""
    group, _, rest = str(name).partition(".")
    return rest in TUNABLE if group == "protocol" else group in ("method", "model") and rest not in ("", "variant")


def candidates(config: Config) -> list[Candidate]:
    """List candidates for the method of ``config``, in the order of the yaml.

    There are none when the protocol does not tune.
    """
    seed = config.protocol.tuning.get("seed")
    return [Candidate(override(config, {**each, "seed": seed}), each) for each in candidate_overrides(config)]


def _lists(given: Any) -> TypeGuard[Mapping[str, Sequence[Mapping[str, Any]]]]:
    """Tell whether there is a list of overrides for each method."""

    def listed(found: Any) -> bool:
        return isinstance(found, Sequence) and all(isinstance(overrides, Mapping) for overrides in found)

    return isinstance(given, Mapping) and all(map(listed, given.values()))


def candidate_configs(config: Config) -> list[Config]:
    """List the runs that must have ended before one is chosen; none when the protocol does not tune."""
    return [candidate.config for candidate in candidates(config)]


def validation_accuracy(record: Record) -> float:
    """Return what a candidate is judged by: validation accuracy at the best validation round, and nothing else.

    Where clients were fine-tuned, it is that of the models after it. Of an error its minus, so that more is better.
    """
    found = record.metrics["validation"]["best"]
    if found.accuracy is None:
        return -math.inf if found.kind.error else -1.0
    return found.kind.merit(found.accuracy)


def best_candidate(config: Config, store: RunSource) -> Candidate | None:
    """Choose the best candidate, moved to the seed of ``config``; None while some candidates have not ended.

    Ties go to the first in the list. Without tuning the config itself comes back, with no overrides.
    """
    listed = candidates(config)
    if not listed:
        return Candidate(config, {})
    number = number_of_best([outcome(key_of(candidate.config), store) for candidate in listed])
    if number is None:
        return None
    overrides = listed[number].overrides
    return Candidate(override(config, overrides), overrides)


def outcome(key: str, store: RunSource) -> Note | None:
    """Load the record of a candidate, or the note that it diverged; None while there is neither."""
    found = store.load(key)
    if found is not None:
        return found
    note = store.load_failed(key)
    return note if note is not None and note.status == DIVERGED else None


def diverged(key: str, store: RunSource) -> bool:
    """Tell whether a run has ended without a result, so that a candidate has lost."""
    note = outcome(key, store)
    return note is not None and note.status == DIVERGED


def number_of_best(outcomes: Sequence[Note | None]) -> int | None:
    """Tell which candidate is the best, the first of those that tie; None while some have not ended."""
    if None in outcomes:
        return None
    scores = [validation_accuracy(found) if isinstance(found, Record) else -math.inf for found in outcomes]
    return scores.index(max(scores))


def chosen_config(config: Config, store: RunSource) -> Config | None:
    """Choose the config that a table prints for this cell and seed; None while candidates are missing."""
    found = best_candidate(config, store)
    return None if found is None else found.config
