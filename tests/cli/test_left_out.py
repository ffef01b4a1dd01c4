"""A one-shot method under a protocol of many rounds is told of."""

from __future__ import annotations

import pytest

from fgl_repro.cli import train
from fgl_repro.config import build


class BegunError(Exception):
    """The run would begin now."""


@pytest.mark.parametrize(
    ("method", "protocol", "told"),
    [("opfgl", "fedlog", True), ("fedgm", "fedlog", True), ("opfgl", "opfgl", False), ("fedavg", "fedlog", False)],
)
def test_rounds_in_which_nobody_trains_are_told_of_once(
    method: str, protocol: str, told: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def begin(*_: object) -> None:
        raise BegunError

    monkeypatch.setattr(train, "tune", begin)
    train._tell_of_phases.cache_clear()
    for seed in (0, 1):
        with pytest.raises(BegunError):
            train.job(build(method=method, dataset="cora", protocol=protocol, seed=seed))
    said = f"method={method} trains nobody in the 100 rounds of protocol={protocol}"
    assert capsys.readouterr().err.count(said) == told
