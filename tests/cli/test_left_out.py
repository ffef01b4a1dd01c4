"""What a run would leave out without a word: the rounds of a one-shot method, roles that a partitioner draws."""

from __future__ import annotations

import pytest

from fgl_repro.cli import train
from fgl_repro.config import build


class BegunError(Exception):
    """The run would begin now."""


@pytest.fixture(autouse=True)
def begin(monkeypatch: pytest.MonkeyPatch) -> None:
    def begun(*_: object) -> None:
        raise BegunError

    monkeypatch.setattr(train, "_candidates", begun)
    train._tell_of_phases.cache_clear()
    train._tell_of_roles.cache_clear()


@pytest.mark.parametrize(
    ("method", "protocol", "told"),
    [("opfgl", "fedlog", True), ("fedgm", "fedlog", True), ("opfgl", "opfgl", False), ("fedavg", "fedlog", False)],
)
def test_rounds_in_which_nobody_trains_are_told_of_once(
    method: str, protocol: str, told: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in (0, 1):
        with pytest.raises(BegunError):
            train.job(build(method=method, dataset="cora", protocol=protocol, seed=seed))
    said = f"method={method} trains nobody in the 100 rounds of protocol={protocol}"
    assert capsys.readouterr().err.count(said) == told


@pytest.mark.parametrize(("source", "told"), [("stream", True), ("partitioner", False)])
def test_roles_that_a_partitioner_draws_for_nobody_are_told_of_once(
    source: str, told: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    named = {"dataset": "motif_basis", "partitioner": "environment", "setting": "plain", "protocol": "fedvn"}
    for seed in (0, 1):
        with pytest.raises(BegunError):
            train.job(build({"protocol.split_source": source}, method="fedavg", seed=seed, **named))
    said = f"partitioner=environment draws roles, and protocol.split_source={source} draws others: "
    assert capsys.readouterr().err.count(said) == told
