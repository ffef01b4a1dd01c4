"""Options are read once and looked up; what they say together is what OmegaConf resolves."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from unittest.mock import Mock

import pytest
from omegaconf import DictConfig, OmegaConf

from fgl_repro.config import AXES, GROUPS, Config, compose, options, parts
from fgl_repro.core.errors import UserError
from fgl_repro.fl.protocol import Protocol
from support.helpers import composed

NESTED = '${by_method:{fedlog:0.5,default:"${by_dataset:{cora:0.01,default:1e-3}}"}}'


def protocol(**values: object) -> DictConfig:
    compose.register()
    node = OmegaConf.structured(Protocol)
    for name, value in values.items():
        node[name] = value
    return node


@pytest.fixture
def anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Options are read anew, and again once what the test has changed is as before."""
    compose.forget()
    yield
    monkeypatch.undo()
    compose.forget()


def test_nothing_of_ours_has_to_be_composed_for_each_combination(monkeypatch: pytest.MonkeyPatch, anew: None) -> None:
    def resolve(_: object) -> None:
        raise AssertionError("OmegaConf has resolved a whole configuration")

    monkeypatch.setattr(OmegaConf, "resolve", resolve)
    compose.compose_ahead((group, name) for group in GROUPS for name in options(group))
    for group in GROUPS:
        for name in options(group):
            assert compose.unchecked(None, **{group: name}).seed == 0


def test_together_options_say_what_omegaconf_resolves(monkeypatch: pytest.MonkeyPatch, anew: None) -> None:
    asked = {"dataset": ("cora", "photo"), "method": ("fedlog", "fedavg", "fedpub"), "protocol": options("protocol")}
    several = [dict(zip(asked, names, strict=True)) for names in product(*asked.values())]
    clients = {"cora": 5, "photo": None}

    def configs() -> list[Config]:
        compose.compose_ahead((group, name) for group, names in asked.items() for name in names)
        return [compose.unchecked(clients[choices["dataset"]], **choices) for choices in several]

    together = configs()
    compose.forget()
    monkeypatch.setattr(parts, "read", lambda node: None)  # every option is left to OmegaConf
    for choices, one, other in zip(several, together, configs(), strict=True):
        assert one == other, choices


def test_a_table_of_tables_is_read_once() -> None:
    part = parts.read(protocol(lr=NESTED))
    assert part is not None
    nested = parts.Table("dataset", {"cora": 0.01, "default": 0.001})
    assert part.open == {"lr": parts.Table("method", {"fedlog": 0.5, "default": nested})}
    assert part.with_value("lr", 1.0).open == {}


def test_what_depends_on_others_in_its_own_way_is_left_to_omegaconf() -> None:
    assert parts.read(protocol(name="of ${dataset.name}")) is None
    assert parts.read(OmegaConf.create({"rounds": 3})) is None


def test_a_name_without_an_entry_is_told() -> None:
    with pytest.raises(UserError, match=r"no value for method fedavg in .*: add it, or a default, to the yaml"):
        parts.entry("method", "fedavg", {"fedlog": 1})


def test_an_override_may_be_what_another_key_says() -> None:
    """As on the command line: in whatever order they stand, the value is the one that the run has."""
    asked = {"method.starts": "${protocol.local_epochs}", "protocol.local_epochs": "${protocol.rounds}"}
    asked |= {"protocol.rounds": "7"}
    given = composed("method=fedavg", *(f"{key}={value}" for key, value in asked.items()))
    assert compose.build(asked, method="fedavg").method.starts == given.method.starts == 7
    with pytest.raises(UserError, match=r"^partitioner\.client does not exist"):
        compose.build({"method.starts": "${partitioner.client}"}, method="fedavg")


def test_axes_are_composed_in_one_go_and_unknown_names_passed_over(monkeypatch: pytest.MonkeyPatch, anew: None) -> None:
    composed = Mock(wraps=compose.compose)
    monkeypatch.setattr(compose, "compose", composed)
    compose.compose_ahead((axis, name) for axis in AXES for name in (*options(axis), "no such option"))
    assert composed.call_count == 1
    compose.compose_ahead((axis, name) for axis in AXES for name in options(axis))
    assert composed.call_count == 1


def test_another_combination_of_known_options_reads_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables compose thousands."""

    def read(*_: object, **__: object) -> None:
        raise AssertionError("a yaml file was read")

    compose.build(method="fedavg", protocol="fedpub", dataset="citeseer", clients=41)
    compose.build(method="local", protocol="fedlog", dataset="citeseer", clients=41)
    monkeypatch.setattr("fgl_repro.config.refused.read_yaml", read)
    compose.build(method="local", protocol="fedpub", dataset="citeseer", clients=43)
