"""Evaluation settings: what clients train on and what is probed. Each world is found by its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from fgl_repro.core.schema import Option, how

if TYPE_CHECKING:
    from fgl_repro.data.graph import Graph
    from fgl_repro.federation.partitioners import Partitioner
    from fgl_repro.federation.split import Split
    from fgl_repro.federation.world import World


@dataclass
class Setting(Option):
    """A setting builds a world from a graph. Subclasses add their parameters and override ``build``.

    Options of ``conf/setting`` may share a world and differ in ``focus`` alone: their runs are one run.

    Attributes:
        units: What it can hold: ``node`` for those of one graph, ``graph`` where there are many without links.
        probes: Names of what ``build`` probes.
        apart: Whether it is for clients that share no nodes alone.
        focus: The probe that a person wants to see first.
    """

    axis: ClassVar[str] = "setting"
    named: ClassVar[str] = "world"
    probes: ClassVar[tuple[str, ...]] = ("seen_graph",)
    units: ClassVar[tuple[str, ...]] = ("node",)
    apart: ClassVar[bool] = False

    focus: str = how("seen_graph")

    @property
    def world(self) -> str:
        """This is the name of the world."""
        return self.name

    @property
    def option_name(self) -> str:
        """This is what one gives as ``setting=``; options that share a world have other names than it."""
        return self.name

    def check(self) -> None:
        self.one_of(focus=self.probes)

    def build(self, graph: Graph, partitioner: Partitioner, split: Split) -> World:
        """Build the world of ``partitioner.clients`` clients on ``graph``.

        Raises:
            UserError: A parameter is out of range for this graph, or a client is left without nodes or training nodes.
        """
        raise NotImplementedError(f"the setting {self.name} builds no world")


class NoNewNodes(Setting):
    """A setting whose clients meet no new nodes at test time."""

    recorded: ClassVar[Mapping[str, Any]] = {"hops": 0, "crop": 0.0}
