"""The schema of a configuration: one dataclass a group, with types that are enforced and defaults.

Everything that can change a number is *science* and is hashed; everything else (names of protocols, tuning grids,
where files lie, which device) carries ``science=False`` or sits in a group that is not an axis.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from omegaconf import MISSING, BooleanNode, FloatNode, IntegerNode, StringNode
from omegaconf.errors import ValidationError

AXES = ("dataset", "partitioner", "setting", "protocol", "model", "method")
GROUPS = (*AXES, "runtime", "logger", "paths")


def _how(default: Any) -> Any:
    """A field that says how to run or report, never what is computed; left out of the identity."""
    return field(default=default, metadata={"science": False})


def added(default: Any) -> Any:
    """A field that came later: left out of the identity at its default, so that older records keep their keys."""
    return field(default=default, metadata={"added": True})


@dataclass
class DatasetConfig:
    """``features``: ``row`` (normalised) or ``raw``; ``component``: ``largest`` (connected) or ``whole``."""

    name: str = MISSING
    features: str = "row"
    component: str = added("largest")
    revision: int = 1


@dataclass
class PartitionerConfig:
    name: str = MISSING
    clients: int = 3
    revision: int = 1


@dataclass
class SettingConfig:
    """``world`` is what is built and hashed; ``focus`` is the probe a person asked to see.

    Attributes:
        hops: Distance up to which a client meets new nodes at test time.
        crop: Share of nodes held back before partitioning (world ``open_set``).
        target: Class that is made rare or common (world ``imbalance``).
        rate: By how much, in tenths of the smallest class, -9 to 9 (world ``imbalance``).
        tail_degree: Highest degree that counts as tail degree (world ``imbalance``).
    """

    world: str = MISSING
    hops: int = 0
    crop: float = 0.0
    target: int = added(0)
    rate: int = added(0)
    tail_degree: int = added(3)
    revision: int = 1
    focus: str = _how("seen_graph")


@dataclass
class ProtocolConfig:
    """Optimisation and evaluation rules shared by all methods of a paper.

    Attributes:
        split: Shares of training, validation and test nodes.
        split_seed: Seed of the global split and crop; most papers draw one for all run seeds.
        split_source: Who draws the split: ``stream``, ours, or ``fedpub``, the released generator (see ``split.py``).
        redraw: Whether every run seed draws split, crop and random parts anew (added to ``split_seed``).
        rounds: Communication rounds R.
        local_epochs: Epochs a client trains each round.
        batch: Training nodes of a local step, drawn without replacement; 0: all of them.
        remainder: Whether an epoch ends with a smaller batch of the nodes that are left, or leaves them out.
        optimiser: ``adam`` or ``sgd``, one for each client.
        momentum: Share of SGD's last direction that it goes on with; 0 for Adam, which has moments of its own.
        moments: Whether what the optimiser remembers (Adam's moments, SGD's direction) is ``kept`` from round to round
            or begins anew in ``each_round``.
        lr: The optimiser's learning rate.
        weight_decay: Its coupled L2 factor.
        average: What selects the round and is printed: ``pooled`` over nodes, or the plain mean over ``clients``. It is
            for what clients are tested on of their own; a new client, met by K models, is always a mean over them.
        judged: Which models are validated and tested: each client's ``own`` after local training, before the server
            mixes, or the ``server``'s, as it sends them down after that (a method without server: the own).
        features, component: Form of the data that the paper uses; the data sets take theirs from here.
        selection: What a table prints: ``best_validation`` or ``last`` (records always hold both).
        ddof: Delta degrees of freedom of the printed std.
        tuning: ``{seed: s, candidates: {method: [{dotted override: value}, ...]}}``, or empty.
    """

    split: list[float] = field(default_factory=lambda: [0.4, 0.3, 0.3])
    split_seed: int = 0
    split_source: str = added("stream")
    redraw: bool = added(False)
    rounds: int = 100
    local_epochs: int = 1
    batch: int = added(0)
    remainder: bool = added(False)
    optimiser: str = added("adam")
    momentum: float = added(0.0)
    moments: str = added("kept")
    lr: float = 0.01
    weight_decay: float = 1e-6
    average: str = added("pooled")
    judged: str = added("own")
    revision: int = 1
    name: str = _how(MISSING)
    features: str = _how("row")
    component: str = _how("largest")
    selection: str = _how("best_validation")
    ddof: int = _how(0)
    tuning: dict[str, Any] = field(default_factory=dict, metadata={"science": False})


@dataclass
class ModelConfig:
    """``fanout``: neighbours drawn of each node and layer when a mini-batch is trained on; 0: all of them.

    ``test_fanout`` is the same for validation and tests.
    """

    name: str = "gcn"
    hidden: int = 128
    dropout: float = 0.5
    fanout: int = added(0)
    test_fanout: int = added(0)


@dataclass
class RuntimeConfig:
    """How to run. ``curves``: ``validation`` (cheap) or ``all`` (every probe every round)."""

    device: str = "auto"
    threads: int = 1
    deterministic: bool = False
    curves: str = "validation"
    progress: bool = True
    force: bool = False


@dataclass
class LoggerConfig:
    """W&B. ``mode``: ``offline``, ``online`` or ``disabled``; sweeps log afterwards unless ``live_in_sweeps``."""

    mode: str = "offline"
    project: str = "fgl_repro"
    entity: str | None = None
    live_in_sweeps: bool = False


@dataclass
class PathsConfig:
    cache: str = "cache"
    records: str = "results/records"
    outputs: str = "outputs"


@dataclass
class Config:
    dataset: DatasetConfig = field(default_factory=DatasetConfig)
    partitioner: PartitionerConfig = field(default_factory=PartitionerConfig)
    setting: SettingConfig = field(default_factory=SettingConfig)
    protocol: ProtocolConfig = field(default_factory=ProtocolConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    method: Any = MISSING
    seed: int = 0
    runtime: RuntimeConfig = field(default_factory=RuntimeConfig)
    logger: LoggerConfig = field(default_factory=LoggerConfig)
    paths: PathsConfig = field(default_factory=PathsConfig)

    @property
    def world_seed(self) -> int:
        """Seed of everything drawn for the world: split, crop, random parts."""
        return self.protocol.split_seed + (self.seed if self.protocol.redraw else 0)


def unknown(dotted: str, owner: type) -> str:
    """The sentence for a key that ``owner``, a dataclass of this schema, does not have."""
    parent = dotted.rpartition(".")[0]
    keys = ", ".join(f.name for f in fields(owner))
    return f"{dotted} does not exist: {f'the keys of {parent} are' if parent else 'choose from'} {keys}."


@cache
def types_of(owner: type) -> dict[str, Any]:
    """Field name to declared type of a dataclass of this schema."""
    hints = get_type_hints(owner)
    return {f.name: hints[f.name] for f in fields(owner)}


def converted(declared: Any, value: Any) -> Any:
    """``value`` as its declared type, by the rules of a Hydra command line: ``2`` is a float, ``2.5`` no integer."""
    nodes: dict[Any, Any] = {bool: BooleanNode, int: IntegerNode, float: FloatNode, str: StringNode}
    origin, arguments = get_origin(declared), get_args(declared)
    if declared in nodes:
        return nodes[declared](value, is_optional=False)._value()
    if origin in (Union, UnionType):
        (inner,) = (a for a in arguments if a is not NoneType)
        return None if value is None else converted(inner, value)
    if origin is list:
        if not isinstance(value, list | tuple):
            raise ValidationError(f"Value '{value}' is not a list")
        return [converted(arguments[0], item) for item in value]
    if origin is dict and not isinstance(value, Mapping):
        raise ValidationError(f"Value '{value}' is not a mapping")
    return copy.deepcopy(value)
