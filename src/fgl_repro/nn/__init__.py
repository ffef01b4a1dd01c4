"""Stacked networks: K models as tensors with a leading client axis."""

from fgl_repro.nn.gcn import GCN
from fgl_repro.nn.halo import Halo, halo_of, widened
from fgl_repro.nn.matching import pretrained
from fgl_repro.nn.mending import Generated, Impaired, MendedGraph, distances, locals_of
from fgl_repro.nn.model import CLASSIFIER, Model, Params
from fgl_repro.nn.neighgen import NeighGen, Others, Pool
from fgl_repro.nn.ops import fan_in, glorot, stack
from fgl_repro.nn.prompts import generators, prompts
from fgl_repro.nn.prototypes import PrototypeNet
from fgl_repro.nn.ragged import Draws
from fgl_repro.nn.random_graph import RandomGraph, random_graph
from fgl_repro.nn.sage import SAGE
from fgl_repro.nn.sage_halves import SageHalves
from fgl_repro.nn.sampling import Neighbours
from fgl_repro.nn.view import View, Views

__all__ = [
    "CLASSIFIER",
    "GCN",
    "SAGE",
    "Draws",
    "Generated",
    "Halo",
    "Impaired",
    "MendedGraph",
    "Model",
    "NeighGen",
    "Neighbours",
    "Others",
    "Params",
    "Pool",
    "PrototypeNet",
    "RandomGraph",
    "SageHalves",
    "View",
    "Views",
    "distances",
    "fan_in",
    "generators",
    "glorot",
    "halo_of",
    "locals_of",
    "pretrained",
    "prompts",
    "random_graph",
    "stack",
    "widened",
]
