"""Words that ``fgl-train`` cannot take, or not together, and what it says of them before Hydra reads any."""

from __future__ import annotations

import sys

import hydra
import pytest

import fgl_repro
from fgl_repro.cli import train
from fgl_repro.core.errors import UserError

WRITTEN = "settings are written key=value, as in "


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            "method=fedavg seed=0 method=local",
            "method is given twice, as fedavg and as local: give one, or add -m and write method=fedavg,local",
        ),
        ("logger=online logger=offline logger=disabled", "logger is given 3 times, as online and as offline and as"),
        ("fedavg", f"'fedavg' has no value: {WRITTEN}method=fedavg"),
        ("-m seed=0,1 fedlog", f"'fedlog' has no value: {WRITTEN}protocol=fedlog or method=fedlog"),
        ("dataset cora", f"'dataset' has no value: {WRITTEN}dataset=..."),
        ("what", f"'what' has no value: {WRITTEN}method=fedavg"),
        ("--method local", f"unrecognized arguments: --method: see fgl-train --help; {WRITTEN}method=local"),
        ("--protocol.lr=0.1", f"--protocol.lr=0.1: see fgl-train --help; {WRITTEN}protocol.lr=0.1"),
        ("seed=1 --dataset", f"--dataset: see fgl-train --help; {WRITTEN}dataset=..."),
        ("--rounds 3", f"--rounds: see fgl-train --help; {WRITTEN}method=fedavg"),
    ],
)
def test_settings_are_written_as_key_and_value_and_groups_once(
    words: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["fgl-train", *words.split()])
    with pytest.raises(UserError) as caught:
        train._in_order()
    assert said in str(caught.value)


@pytest.mark.parametrize("words", ["method=local method=local", "-m method=local method=fedavg", "~seed seed=0 seed=1"])
def test_what_hydra_understands_is_left_to_it(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["fgl-train", *words.split()])
    train._in_order()
    assert sys.argv[1:] == words.split()


def test_it_tells_its_version_and_that_of_hydra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["fgl-train", "--version"])
    with pytest.raises(SystemExit) as ended:
        train._in_order()
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"fgl_repro {fgl_repro.__version__}, Hydra {hydra.__version__}\n"
