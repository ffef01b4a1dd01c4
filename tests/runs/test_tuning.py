"""Tuning: validation alone chooses, with the same budget for every method."""

from __future__ import annotations

from pathlib import Path

import pytest

from fgl_repro.config import key_of, options, unchecked
from fgl_repro.core import registry
from fgl_repro.core.errors import UserError
from fgl_repro.runs import tuning
from fgl_repro.runs.provenance import note_of
from fgl_repro.runs.store import Archive, RecordStore
from support import helpers
from support.candidates import RATES, record_candidates, tuned


@pytest.fixture
def store(tmp_path: Path) -> RecordStore:
    return RecordStore(tmp_path / "records")


def test_candidates_run_at_the_tuning_seed() -> None:
    found = tuning.candidate_configs(tuned(seed=2))
    assert [(c.protocol.lr, c.seed) for c in found] == [(rate, 0) for rate in RATES]
    assert tuning.candidate_configs(helpers.config()) == []


def test_validation_chooses_and_the_seed_stays(store: RecordStore) -> None:
    run = tuned(seed=2)
    record_candidates(store, run, [0.7, 0.9, 0.8], [0.5, 0.5, 0.5])
    chosen = tuning.chosen_config(run, store)
    assert chosen is not None
    assert (chosen.protocol.lr, chosen.seed) == (0.01, 2)


def test_test_metrics_cannot_choose(store: RecordStore, tmp_path: Path) -> None:
    picks = set()
    for number, test in enumerate(([0.0, 0.5, 1.0], [1.0, 0.5, 0.0], [0.3, 0.3, 0.3], [None, None, None])):
        folder = RecordStore(tmp_path / str(number))
        record_candidates(folder, tuned(), [0.7, 0.9, 0.8], test)
        picks.add(tuning.chosen_config(tuned(), folder).protocol.lr)
    assert picks == {0.01}


def test_ties_go_to_the_first(store: RecordStore) -> None:
    record_candidates(store, tuned(), [0.9, 0.7, 0.9], [0.1, 0.2, 0.3])
    assert tuning.chosen_config(tuned(), store).protocol.lr == 0.1


def test_what_diverged_has_lost_and_what_failed_may_yet_win(store: RecordStore) -> None:
    record_candidates(store, tuned(), [0.9, 0.7, 0.8], [0.5] * 3)
    first = tuning.candidate_configs(tuned())[0]
    store.path(key_of(first)).unlink()
    for status, rate in (("failed", None), ("oom", None), ("diverged", 0.001)):
        store.save_failed(note_of(first).changed(status=status, error="why"))
        chosen = tuning.chosen_config(tuned(), store)
        assert (chosen and chosen.protocol.lr) == rate
    note = store.load_failed(key_of(first))
    records = {record.key: record for record in store.all()}
    elsewhere = RecordStore(store.folder / "elsewhere")
    assert tuning.chosen_config(tuned(), Archive(elsewhere, records)) is None
    assert tuning.chosen_config(tuned(), Archive(elsewhere, records, diverged={note.key: note})).protocol.lr == 0.001
    store.save(helpers.record(first, probes={"validation": 0.9}))
    assert tuning.chosen_config(tuned(), Archive(store, {}, diverged={note.key: note})).protocol.lr == 0.1, (
        "a result counts"
    )


def test_no_choice_before_all_candidates(store: RecordStore) -> None:
    record_candidates(store, tuned(), [0.7, 0.9, 0.8], [0.5] * 3)
    store.path(key_of(tuning.candidate_configs(tuned())[0])).unlink()
    assert tuning.chosen_config(tuned(), store) is None


def test_without_tuning_a_config_passes_through(store: RecordStore) -> None:
    run = helpers.config()
    assert tuning.chosen_config(run, store) is run


def test_budgets_must_be_equal() -> None:
    run = tuned()
    run.protocol.tuning["candidates"]["fedpub"].pop()
    with pytest.raises(UserError, match="fedavg 3, fedpub 2"):
        tuning.candidate_configs(run)
    with pytest.raises(UserError, match="no tuning candidates for method=local"):
        tuning.candidate_configs(tuned(method="local"))


@pytest.mark.parametrize("candidates", [3, {"fedavg": None}, {"fedavg": [3]}, {"fedavg": "lr"}, []])
def test_candidates_are_lists_of_overrides(candidates: object) -> None:
    run = tuned()
    run.protocol.tuning["candidates"] = candidates
    with pytest.raises(UserError, match="needs a seed, a whole number, and candidates: a list of overrides for each"):
        tuning.candidate_configs(run)


@pytest.mark.parametrize(
    "word",
    [
        *("seed", "partitioner.clients", "dataset.component", "setting", "model", "method", "method.variant"),
        *("protocol.split_seed", "protocol.split", "protocol.judged", "protocol.selected_by", "runtime.threads"),
    ],
)
def test_validation_chooses_no_world_and_no_variant(word: str) -> None:
    """Else it would choose what is tested on, and the table would tell of another run than was asked for."""
    run = tuned()
    run.protocol.tuning["candidates"]["fedavg"][1] = {"protocol.lr": 0.1, word: 1}
    with pytest.raises(UserError, match=f"for method=fedavg with {word}, which validation may not choose: give "):
        tuning.candidate_configs(run)


def test_every_shipped_protocol_tunes_fairly() -> None:
    """The candidates of every method that a protocol lists are different runs, on nodes where the method can.

    But for methods of which the yaml says that they have nothing to choose.
    """
    graphs = {"dataset": "motif_basis", "partitioner": "environment", "setting": "plain"}
    tuning_protocols = set()
    for protocol in options("protocol"):
        for method in unchecked(None, protocol=protocol).protocol.tuning.get("candidates", {}):
            on_nodes = "node" in registry.options("method")[method].units
            run = helpers.config(protocol=protocol, method=method, **({} if on_nodes else graphs))
            keys = [key_of(c) for c in tuning.candidate_configs(run)]
            different = len(keys) if any(tuning.candidate_overrides(run)) else 1
            assert len(set(keys)) == different, f"two candidates of {method} in {protocol} are the same run"
            tuning_protocols.add(protocol)
    assert {"fedlog_tuned", "fedvn_tuned"} <= tuning_protocols


def test_of_errors_the_least_is_chosen_and_a_run_without_any_has_lost(store: RecordStore) -> None:
    """Whose loss was not finite has lost, too: errors are larger than 1 here, so that no made-up score will do."""
    run = tuned()
    for candidate, error in zip(tuning.candidate_configs(run), (None, 2.5, 2.0), strict=True):
        store.save(helpers.record(candidate, error, error, metric="mae"))
    assert tuning.chosen_config(run, store).protocol.lr == 0.001
    last = tuning.candidate_configs(run)[2]
    store.path(key_of(last)).unlink()
    store.save_failed(note_of(last).changed(status="diverged", error="why"))
    assert tuning.chosen_config(run, store).protocol.lr == 0.01


def test_tuning_needs_a_seed() -> None:
    run = tuned()
    del run.protocol.tuning["seed"]
    with pytest.raises(UserError, match="needs a seed, a whole number"):
        tuning.candidate_configs(run)
