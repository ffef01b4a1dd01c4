"""Short runs of every method and variant."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from omegaconf import OmegaConf

from fgl_repro import config as configs
from fgl_repro.core import registry
from fgl_repro.fl.method import Method


def methods_of(unit: str = "node") -> dict[str, type[Method]]:
    """Methods that can predict something about a ``node`` or a ``graph``, by name."""
    return {name: cls for name, cls in sorted(registry.options("method").items()) if unit in cls.units}


def every_variant(unit: str = "node") -> Iterator[tuple[str, str]]:
    for name, cls in methods_of(unit).items():
        for variant in cls.variants:
            yield name, variant


VARIANTS = [pytest.param(*pair, id="-".join(pair)) for pair in every_variant()]
OF_GRAPHS = [pytest.param(*pair, id="-".join(pair)) for pair in every_variant("graph")]


def make_config(name: str, variant: str, **overrides: object) -> configs.Config:
    """Two rounds of a small model."""
    dotted = {"method.variant": variant, "protocol.rounds": 2, "protocol.lr": 0.01, "model.hidden": 8}
    dotted |= {f"method.{field}": value for field, value in registry.options("method")[name].quick.items()}
    return configs.build(dataset="cora", method=name, clients=3, overrides={**dotted, **overrides})


def config_of_graphs(name: str, variant: str, **overrides: object) -> configs.Config:
    """Two rounds of a small network for whole graphs, on batches of four."""
    dotted = {"method.variant": variant, "protocol.rounds": 2, "protocol.batch": 4, "protocol.lr": 0.05}
    dotted |= {"model.hidden": 6, "model.together": 4}
    dotted |= {f"method.{field}": value for field, value in registry.options("method")[name].quick.items()}
    return configs.build({**dotted, **overrides}, method=name, clients=3, **GRAPHS)


GRAPHS = {"dataset": "motif_basis", "partitioner": "environment", "setting": "plain", "protocol": "fedvn"}


def about_graphs(group: str, option: str) -> bool:
    """Whether a yaml is for data sets of graphs alone."""
    if group == "protocol":
        return option.startswith("fedvn")
    first = str(OmegaConf.load(configs.conf_dir() / group / f"{option}.yaml").get("defaults", [""])[0])
    kind = registry.options(group).get(first.removeprefix("_")) if group in registry.PACKAGES else None
    return getattr(kind, "unit", "") == "graph" or getattr(kind, "units", ()) == ("graph",)
