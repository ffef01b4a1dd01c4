"""Stacked networks: K models as tensors with a leading client axis."""

from fgl_repro.nn.gcn import GCN
from fgl_repro.nn.halo import Halo, halo_of
from fgl_repro.nn.model import Model, Params
from fgl_repro.nn.ops import fan_in, glorot, stack
from fgl_repro.nn.prompts import generators, prompts
from fgl_repro.nn.prototypes import PrototypeNet
from fgl_repro.nn.random_graph import RandomGraph, random_graph
from fgl_repro.nn.sage import SAGE
from fgl_repro.nn.view import View, Views

__all__ = [
    "GCN",
    "SAGE",
    "Halo",
    "Model",
    "Params",
    "PrototypeNet",
    "RandomGraph",
    "View",
    "Views",
    "fan_in",
    "generators",
    "glorot",
    "halo_of",
    "prompts",
    "random_graph",
    "stack",
]
