"""No client hears of another one but through what the server sends: every method and variant, every phase."""

from __future__ import annotations

import pytest
import torch

from fgl_repro.data.graph import Graph
from fgl_repro.federation.world import World
from fgl_repro.runs.execute import federate
from support import worlds
from support.isolation import first_uploads, tampered
from support.runs import VARIANTS, make_config

CPU = torch.device("cpu")
ONE_SHOT = ("fedgm", "ghost", "opfgl")
"""Methods whose models come from what the server has made of all uploads: their uploads alone are compared."""


@pytest.fixture
def world(toy_graph: Graph) -> World:
    return worlds.build("closed_set", toy_graph, "metis", 3, hops=2)


@pytest.mark.parametrize(("name", "variant"), VARIANTS)
def test_a_clients_upload_depends_on_its_own_data_only(name: str, variant: str, world: World) -> None:
    """Client 0's features and labels change: what clients 1 and 2 upload in any phase does not, bit for bit.

    Methods that share features before training by design are held to labels.
    """
    config = make_config(name, variant)
    strange = tampered(world, client=0, features=not config.method.shares_features)
    before, after = (first_uploads(w, config) for w in (world, strange))
    if name in ONE_SHOT:
        before = {field: tensor for field, tensor in before.items() if "/" in field}
    assert before
    for field, tensor in before.items():
        assert torch.equal(tensor[1:], after[field][1:]), f"{field} of an untouched client changed"
    changed = [field for field in before if not torch.equal(before[field][0], after[field][0])]
    assert changed, "the tampering had no effect: the test proves nothing"


def test_local_never_hears_of_others(world: World) -> None:
    """Training one client among three equals training it among strangers with other data, to the last bit."""
    config = make_config("local", "paper", **{"protocol.rounds": 4})
    plain, _, _ = federate(config, world, CPU)
    strange, _, _ = federate(config, tampered(world, client=2), CPU)
    for name, value in plain.last.items():
        assert torch.equal(value[:2], strange.last[name][:2])
