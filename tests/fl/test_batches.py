"""Mini-batches: each client's own draws, and who rests."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fgl_repro.core.streams import numpy_rng
from fgl_repro.data.graph import Graph
from fgl_repro.federation.world import World
from fgl_repro.fl.batches import Batches
from support import worlds
from support.isolation import make_clients
from support.runs import make_config
from support.worlds import world_of


def uneven(graph: Graph) -> World:
    """Client 0 with two training nodes, the others with all of theirs."""
    world = world_of("plain", graph, 3, partitioner="metis")
    owner = world.graph.owner[world.train]
    return replace(world, train=np.concatenate([world.train[owner == 0][:2], world.train[owner > 0]]))


def test_clients_with_fewer_batches_rest_and_every_client_has_one(toy_graph: Graph) -> None:
    world = uneven(toy_graph)
    batches = Batches(world, 4, 0)
    held = np.bincount(world.graph.owner[world.train])
    assert batches.steps.tolist() == [1, held[1] // 4, held[2] // 4]
    for number, batch in enumerate(batches.epoch()):
        assert batch.active.tolist() == [number < steps for steps in batches.steps]
        assert set(world.graph.owner[batch.rows]) == set(np.flatnonzero(batch.active))


def test_a_clients_draws_do_not_depend_on_anothers_nodes(toy_graph: Graph) -> None:
    whole, fewer = world_of("plain", toy_graph, 3, partitioner="metis"), uneven(toy_graph)
    drawn, numbers = [], []
    for world in (whole, fewer):
        batches = list(Batches(world, 4, 0, draws=3).epoch())
        mine = [world.graph.owner[batch.rows] == 2 for batch in batches]
        drawn.append([batch.rows[own].tolist() for batch, own in zip(batches, mine, strict=True)])
        numbers.append([batch.uniform[own].tolist() for batch, own in zip(batches, mine, strict=True)])
    most = min(map(len, drawn))
    assert drawn[0][:most] == drawn[1][:most]
    assert numbers[0][:most] == numbers[1][:most], "those that choose neighbours"
    stream = numpy_rng("neighbours/2", 0).random((len(drawn[0]) * 4, 3), dtype=np.float32)
    assert np.concatenate(numbers[0]).tolist() == stream.tolist(), "of a stream of their own"
    orders = [np.concatenate([b.rows for b in Batches(whole, 4, seed).epoch()]) for seed in (0, 1)]
    assert not np.array_equal(orders[0], orders[1][: len(orders[0])])


def test_as_many_steps_at_every_client(toy_graph: Graph) -> None:
    """Three steps of an epoch: a small client goes through its nodes three times, a large one takes a part of them."""
    world = uneven(toy_graph)
    held = np.bincount(world.graph.owner[world.train])
    drawn = list(Batches(world, 4, 0, steps=3).epoch())
    assert [batch.active.all() for batch in drawn] == [True] * 3
    each = [np.concatenate([b.rows[world.graph.owner[b.rows] == k] for b in drawn]) for k in range(3)]
    assert np.array_equal(np.unique(each[0], return_counts=True)[1], [3, 3])
    for k in (1, 2):
        assert held[k] >= 12
        assert len(np.unique(each[k])) == len(each[k]) == 12
    whole, twice = (next(Batches(world, 4, 0, steps=steps).epoch()) for steps in (0, 2 * int(held[1] // 4)))
    assert np.array_equal(*(b.rows[world.graph.owner[b.rows] == 1] for b in (whole, twice)))


def test_clients_that_stand_by_take_no_step(toy_graph: Graph) -> None:
    world = worlds.build("plain", toy_graph, "metis", 3)
    clients = make_clients(world, make_config("local", "paper", **{"protocol.batch": 4}))
    steps = list(clients.steps(1, going=np.array([True, False, True])))
    assert len(steps) > 2
    assert not any(step.active[1] for step in steps if step.active is not None)
    assert all(step.active is not None for step in steps)
