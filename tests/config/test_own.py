"""Options that a notebook defines for itself."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, ClassVar

import pytest

from fgl_repro.config import build, compose, key_of, search, yamls
from fgl_repro.config.own import announce
from fgl_repro.core import registry
from fgl_repro.core.errors import UserError
from fgl_repro.methods.fedavg import FedAvg
from fgl_repro.tables import needs
from fgl_repro.tables.added import with_rows
from fgl_repro.tables.load import load


@pytest.fixture(autouse=True)
def _undone() -> Iterator[None]:
    """What a test announces is forgotten after it."""
    known, searched = dict(registry.options("method")), list(yamls.searched)
    yield
    registry.options("method").clear()
    registry.options("method").update(known)
    registry._announced.clear()
    yamls.searched[:] = searched
    compose.forget()


def fedmine(factor: float = 2.0) -> Any:
    @dataclass
    class FedMine(FedAvg):
        name: ClassVar[str] = "fedmine"
        scale: ClassVar[float] = factor
        shrink: float = 0.5

        @property
        def whole(self) -> float:
            return self.shrink * self.scale

    return FedMine


def other() -> Any:
    @dataclass
    class FedMine(FedAvg):
        name: ClassVar[str] = "fedmine"
        scale: ClassVar[float] = 2.0
        shrink: float = 0.5

        @property
        def whole(self) -> float:
            return self.shrink + self.scale

    return FedMine


def key(**overrides: Any) -> str:
    return key_of(build(overrides, method="fedmine", dataset="cora"))


def test_an_announced_class_is_an_option_whose_text_is_in_the_key() -> None:
    own = announce(fedmine())
    config = build({"method.shrink": 0.25}, method="fedmine", dataset="cora")
    assert type(config.method) is own
    assert config.method.whole == 0.5
    assert config.protocol.lr == build(method="fedavg", dataset="cora").protocol.lr
    first = key()
    assert key(**{"method.shrink": 0.25}) != first
    announce(own)
    assert key() == first, "announced twice"
    announce(fedmine())
    assert key() == first, "a cell that is run again"
    announce(other())
    assert key() != first, "a method that was edited"
    announce(fedmine(3.0))
    assert key() != first, "another constant"
    with pytest.raises(UserError, match=r"method\.shrunk does not exist \(did you mean shrink\?\): the keys of"):
        key(**{"method.shrunk": 1})
    row = with_rows(load("fedlog/1"), ["fedmine:paper"]).rows[-1]
    assert row.label == "fedmine (paper)"


def test_the_key_of_a_class_with_sets_is_the_same_in_every_process() -> None:
    code = """
from dataclasses import make_dataclass
from types import MappingProxyType
from fgl_repro.config.own import announce
from fgl_repro.methods.fedavg import FedAvg

Layers = make_dataclass("Layers", ["names"], frozen=True)

class Own(FedAvg):
    name = "own"
    shared = {"layers": frozenset({"W1", "W2", "b1", "b2"}), "order": ("W1",)}
    frozen = MappingProxyType({"layers": {"W1", "W2", "b1", "b2"}})
    named = Layers(frozenset({"W1", "W2", "b1", "b2"}))
    kind = Layers

print(announce(Own).recorded["source"])
"""
    seen = {
        subprocess.run(
            [sys.executable, "-c", code], env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(seen) == 1


def test_a_class_that_no_configuration_can_hold_is_refused_at_once() -> None:
    """It would break every run of every method."""

    @dataclass
    class Bad(FedAvg):
        name: ClassVar[str] = "bad"
        table: dict = None  # type: ignore[type-arg, assignment]

    class Bare(FedAvg):
        name: ClassVar[str] = "bare"
        variant: str = "paper"

    with pytest.raises(UserError, match="Bad has a field that no configuration can hold"):
        announce(Bad)
    with pytest.raises(UserError, match="Bare is no dataclass, and nobody can set variant: write @dataclass above it"):
        announce(Bare)
    assert {"bad", "bare"}.isdisjoint(registry.options("method"))


def test_a_protocol_that_calls_itself_otherwise_is_refused(tmp_path: Path) -> None:
    """Its records would be another one's."""
    (tmp_path / "protocol").mkdir()
    path = tmp_path / "protocol" / "quick.yaml"
    path.write_text("defaults: [fedlog, _self_]\nrounds: 5\n")
    search(tmp_path)
    with pytest.raises(UserError, match=r"quick\.yaml does not say its name: write `name: quick` there"):
        build(protocol="quick")
    path.write_text("defaults: [fedlog, _self_]\nname: quick\nrounds: 5\n")
    compose.forget()
    assert build(protocol="quick").protocol.rounds == 5


def test_a_table_runs_the_class_that_was_announced_last() -> None:
    def of_table() -> str:
        spec = with_rows(load("fedlog/1"), ["fedmine"]).narrow(["cora"], [3], ["fedmine"], [0])
        return key_of(needs.runs(spec, "fedlog")[0])

    announce(fedmine())
    first = of_table()
    announce(other())
    assert of_table() != first
    announce(fedmine())
    assert of_table() == first


def test_a_value_that_refers_to_nothing_is_one_sentence() -> None:
    with pytest.raises(UserError, match=r"protocol\.lr=\$\{x\}: Interpolation key 'x' not found"):
        build({"protocol.lr": "${x}"}, method="fedavg")


def test_a_yaml_of_ones_own_says_what_differs(tmp_path: Path) -> None:
    (tmp_path / "method").mkdir()
    (tmp_path / "method" / "fedmine.yaml").write_text("defaults: [_fedmine, _self_]\nshrink: 0.125\n")
    search(tmp_path)
    announce(fedmine())
    assert build(method="fedmine").method.shrink == 0.125  # type: ignore[attr-defined]


def test_mistakes() -> None:
    class Nameless(FedAvg):
        pass

    class FedProx(FedAvg):
        name: ClassVar[str] = "fedprox"

    for item in (Nameless, int, registry):
        with pytest.raises(UserError, match="is no class of an axis with a name of its own"):
            registry.announce(item)  # type: ignore[arg-type]
    for name in (5, "", "with space"):
        with pytest.raises(UserError, match="take one of letters, digits, _ and -"):
            registry.announce(type("Odd", (FedAvg,), {"name": name}))
    with pytest.raises(UserError, match="method fedprox exists already: give FedProx another name"):
        announce(FedProx)
    names: dict[str, Any] = {"FedAvg": FedAvg, "__name__": "nowhere"}
    exec("class Mine(FedAvg):\n    name = 'mine'\n    def check(self):\n        pass", names)
    with pytest.raises(UserError, match=r"the text of Mine\.check cannot be found"):
        announce(names["Mine"])
    assert not {"mine"} & set(registry.options("method"))


def test_a_file_of_ours_that_cannot_be_imported_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stripes.py").write_text("@dataclass\nclass Stripes:\n    pass\n")
    monkeypatch.setattr("fgl_repro.methods.__path__", [str(tmp_path)])
    said = r"fgl_repro\.methods\.stripes cannot be imported: NameError: name 'dataclass' is not defined\."
    with pytest.raises(UserError, match=said):
        registry.options.__wrapped__("method")


@pytest.mark.parametrize("value", ["nowhere.conf", "fgl_repro.nowhere", "fgl_repro.api"])
def test_an_installed_folder_that_is_not_there_is_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("mine", value, yamls.GROUP)
    monkeypatch.setattr(yamls, "entry_points", lambda group: [point])
    with pytest.raises(UserError, match="the installed yaml files mine cannot be found: "):
        yamls.installed.__wrapped__()
