"""Options that are fine by themselves and can never do together: one sentence, before anything is loaded."""

from __future__ import annotations

import pytest

from fgl_repro.cli.explain import explain
from fgl_repro.core.errors import UserError
from fgl_repro.data.graph import Graph
from support import worlds
from support.helpers import composed


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("method=opfgl method.per_class=0 method.rate=0", "leave no node to condense to: raise one of them."),
        ("method=oracle setting=links", "method=oracle trains on the whole graph, with the links that setting=links"),
        ("method=local model=fleet setting=global_graph", "model=fleet is for what clients are tested on of their own"),
        (
            "method=local model=fleet setting=plain protocol.judged=crosswise",
            "clients of model=fleet cannot: set protocol.judged=own.",
        ),
        (
            "setting=new_client partitioner=overlap partitioner.clients=9",
            "setting=new_client is for clients that share no nodes, which those of partitioner=overlap do",
        ),
        ("setting=imbalance partitioner=overlap partitioner.clients=10", "setting=imbalance is for clients that share"),
        ("setting=global_graph protocol.selected_by=test", "has none of: set protocol.selected_by=validation."),
        ("method=fedgm protocol.selected_by=test", "would have method=fedgm train by looking at test nodes"),
        ("method=opfgl protocol.selected_by=test", "would have method=opfgl train by looking at test nodes"),
        ("method=fedlog protocol.selected_by=test", "would have method=fedlog train by looking at test nodes"),
        ("protocol.fine_tuning=10 protocol.selected_by=test", "fine_tuning chooses models by what validates"),
        ("protocol=fedlog_tuned protocol.selected_by=test", "tuning chooses settings by what validates"),
        ("method=fedlog protocol.moments=shared", "do not take turns with the protocol's optimiser"),
        ("method.secure=true protocol.moments=shared", "do not take turns with the protocol's optimiser"),
        ("method=fedrep protocol.moments=shared", "do not take turns with the protocol's optimiser"),
        (
            "method=local dataset=motif_basis partitioner=environment setting=plain protocol=fedvn protocol.batch=64",
            "set model.together=64",
        ),
        ("method=fedspray protocol.moments=shared", "do not take turns with the protocol's optimiser"),
    ],
)
def test_they_are_refused(words: str, said: str) -> None:
    with pytest.raises(UserError) as caught:
        composed(*words.split())
    assert said in explain(caught.value)


def test_a_setting_of_ones_own_whose_first_probe_is_elsewhere_cannot_select_by_it(toy_graph: Graph) -> None:
    world = worlds.build("global_graph", toy_graph, "metis", 3)
    with pytest.raises(UserError, match="global_graph is of another graph than clients train on"):
        world.selected_by_test()
