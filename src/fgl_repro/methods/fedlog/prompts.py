"""FedLoG's prompt generators: one feature vector for a node, standing in for its neighbourhood; and their pretraining.

A node with its prompt must teach an encoder what its neighbourhood does: Kim et al., ICLR 2025, section 4.3 and A.7.
For a training node v with prompt p = PG(x_v):

    L_feat = |p - mean of its neighbours' features|^2,
    L_grad = 1/N sum_n D(grad of v's loss on the graph, grad of its loss on the pair {v, p}),

both gradients with respect to the weights of the n-th random encoder, D the sum over its six tensors of the mean
squared difference, both losses averaged over a client's training nodes. Gradients of single nodes are never formed:
each is a sum of few outer products f_u delta_u^T, so squared norms and inner products follow from dot products of the
factors. The norm of the graph's own gradient does not depend on the generator and is left out of the value. The graph's
gradient sees two hops, as the encoder does; the paper's radius is not stated.
"""

from __future__ import annotations

from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Generator, Tensor

from fgl_repro.core.streams import torch_rng
from fgl_repro.fl.optim import StackedAdam
from fgl_repro.fl.phase import Turn
from fgl_repro.methods.fedlog.prototypes import net_of
from fgl_repro.nn import view as views_of
from fgl_repro.nn.models.sage import SAGE
from fgl_repro.nn.ops import dropout, fan_in, linear, stack
from fgl_repro.nn.sparse import csr_tensor, product

if TYPE_CHECKING:
    from fgl_repro.federation.world import UnionGraph
    from fgl_repro.fl.clients import Clients
    from fgl_repro.nn.models.model import Params
    from fgl_repro.nn.view import Views

WIDTHS = (256, 512)
DROPOUT = 0.5


def generators(num_features: int, copies: int, rng: Generator) -> Params:
    """Draw ``copies`` independent generators d -> 256 -> 512 -> d, leaves ``[copies, ...]``."""
    widths = (num_features, *WIDTHS, num_features)
    out = {}
    for number, (fan, to) in enumerate(pairwise(widths), 1):
        out[f"G{number}"] = fan_in((copies, fan, to), fan, rng)
        out[f"g{number}"] = fan_in((copies, to), fan, rng)
    return out


def generate(params: Params, x: Tensor, rng: Generator | None = None) -> Tensor:
    """Make a prompt for every row: ``[copies, n, d] -> [copies, n, d]`` in (-1, 1); dropout when ``rng`` is given."""
    hidden = torch.relu(linear(x, params["G1"], params["g1"]))
    hidden = torch.relu(linear(hidden, params["G2"], params["g2"]))
    if rng is not None:
        hidden = dropout(hidden, DROPOUT, rng)
    return torch.tanh(linear(hidden, params["G3"], params["g3"]))


def prompts(params: Params, x: Tensor, rng: Generator | None = None) -> Tensor:
    """Generate prompts of class-wise nodes: row c * s + i of every client goes through generator c.

    Args:
        params: One generator a class, leaves ``[C, ...]``.
        x: Features ``[K, C * s, d]``.
    """
    by_class = x.view(len(x), len(params["g1"]), -1, x.shape[2]).transpose(0, 1)
    out = generate(params, by_class.flatten(1, 2), rng)
    return out.view(by_class.shape).transpose(0, 1).flatten(1, 2)


class Surroundings:
    """Training nodes among their neighbours, R nodes and E links ``row -> column``.

    Attributes:
        x: Features of the training nodes ``[R, d]``.
        around: Mean feature of their neighbours ``[R, d]``.
        labels: Their classes, int64 ``[R]``.
        node: Their union nodes, int64 ``[R]``.
        degree: Their neighbours, float ``[R]``.
        links: Ones, CSR ``[R, N]``.
        row: Training node (0 .. R-1) of each link, int64 ``[E]``.
        propagated, own: ``A X`` and ``X`` of every union node ``[N, d]``.
        inputs: ``X`` once more as CSR where that is the faster factor, else ``own`` itself.
        mean: Row-normalised adjacency ``[N, N]``, CSR.
    """

    def __init__(self, encoder: SAGE, views: Views, graph: UnionGraph, rows: np.ndarray) -> None:
        source, tensor = encoder.source(views, graph), partial(torch.as_tensor, device=views.device)
        features, of_rows = graph.base.features[graph.node], sp.csr_matrix(graph.adjacency[rows])
        self.propagated, self.own = (x.contiguous() for x in source.inputs().to(views.device).chunk(2, dim=1))
        self.inputs = csr_tensor(features, views.device) if views_of.thin(features) else self.own
        self.mean = csr_tensor(source.mean, views.device)
        self.node = tensor(rows.astype(np.int64))
        self.x, self.around = self.own[self.node], self.propagated[self.node]
        self.labels, self.degree = tensor(graph.labels[rows]), tensor(source.degree[rows])
        self.links = csr_tensor(of_rows, views.device)
        self.row = tensor(np.repeat(np.arange(len(rows)), np.diff(of_rows.indptr)))

    @cached_property
    def products(self) -> DotProducts:
        """Those of the training nodes' own features."""
        return DotProducts.of(self, self.x)


class _LinkDots(torch.autograd.Function):
    """Dot products of training nodes' vectors with their neighbours' rows of a constant table."""

    @staticmethod
    def forward(ctx: Any, here: Surroundings, table: Tensor, vectors: Tensor) -> Tensor:
        ctx.here, ctx.table = here, table
        sampled: Tensor = torch.sparse.sampled_addmm(here.links, vectors, table.t(), beta=0)
        return sampled.values()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, None, Tensor]:
        here: Surroundings = ctx.here
        pointer, column = here.links.crow_indices(), here.links.col_indices()
        weights = torch.sparse_csr_tensor(
            pointer, column, grad.contiguous(), size=here.links.shape, check_invariants=False
        )
        return None, None, product(weights, ctx.table)


def link_dots(here: Surroundings, table: Tensor, vectors: Tensor) -> Tensor:
    """Compute ``vectors[row] . table[column]`` of every link: ``[R, F]`` and ``[N, F]`` to ``[E]``.

    The gradient goes to ``vectors``.
    """
    out: Tensor = _LinkDots.apply(here, table, vectors)  # type: ignore[no-untyped-call]
    return out


class Pretraining:
    """One generator a client, trained on its training nodes by full-batch epochs of Adam.

    All start alike. Random encoders depend on no data; one draw serves all clients, each comparing its own nodes. The
    slope of a prompt is summed over the encoders by hand, which is why this step is not the common training loop's.
    """

    def __init__(self, clients: Clients, lr: float, draws: int) -> None:
        view, seed, device = clients.inputs.train, clients.seed, clients.device
        encoder = net_of(clients)
        self.encoder, self.draws, self.slots, self.count = encoder, draws, view.slots, clients.count
        first = generators(encoder.num_features, 1, torch_rng("own-prompts", seed))
        params = stack({name: value[0].to(device) for name, value in first.items()}, clients.count)
        self.params = {name: value.requires_grad_() for name, value in params.items()}
        self.here = Surroundings(encoder, clients.views, clients.world.graph, clients.world.train)
        inputs = torch.zeros(view.mask.numel(), encoder.num_features, device=device)
        inputs[view.slots] = self.here.x
        self.inputs = inputs.view(clients.count, -1, encoder.num_features)
        self.weight = (1 / view.counts).repeat_interleave(view.counts.long())
        self.adam = StackedAdam(self.params, lr)
        self.dropout, self.nets = torch_rng("pretraining", seed, str(device)), torch_rng("encoders", seed)

    @property
    def generators(self) -> Params:
        """The generators as they are now, ``[K, ...]``."""
        return {name: value.detach() for name, value in self.params.items()}

    def turn(self, number: int, going: np.ndarray) -> Turn:
        """Train everybody for one epoch; return its mean L_feat and L_grad."""
        here, weight, device = self.here, self.weight, self.inputs.device
        prompts = generate(self.params, self.inputs, self.dropout).flatten(0, 1)[self.slots]
        slope = torch.zeros_like(prompts)
        leaf = prompts.detach().requires_grad_()
        products = DotProducts.of(here, leaf)
        cut = DotProducts(*(value.detach().requires_grad_() for value in products))
        slopes = [torch.zeros_like(value) for value in cut]
        gradients = torch.zeros((), device=device)
        for _ in range(self.draws):  # one at a time: their graphs together would not fit beside a large union graph
            net = {name: value.to(device) for name, value in SAGE.init(self.encoder, self.nets).items()}
            loss = (weight * gradient_loss(here, net, leaf, cut)).sum() / self.draws
            for total, part in zip([slope, *slopes], torch.autograd.grad(loss, [leaf, *cut]), strict=True):
                total += part
            gradients += loss.detach()
        features = (weight * feature_loss(here, leaf)).sum()
        slope += sum(torch.autograd.grad([features, *products], leaf, [None, *slopes]))
        self.adam.step(list(torch.autograd.grad(prompts, self.adam.params, slope)))
        means = (torch.stack([features.detach(), gradients]) / self.count).tolist()
        return Turn(dict(zip(("feature_loss", "gradient_loss"), means, strict=True)))


def feature_loss(here: Surroundings, prompts: Tensor) -> Tensor:
    """Compute L_feat of each training node ``[R]``; 0 for a node without neighbours, which has no mean to match."""
    return (prompts - here.around).square().sum(1) * (here.degree > 0)


class DotProducts(NamedTuple):
    """What is d numbers wide in L_grad and the same for every encoder: dot products of a vector of each node.

    Attributes:
        propagated, own: With ``A X`` and ``X`` of the node's neighbours ``[E]``.
        itself, node, around: With itself, with the node's features, with the mean of its neighbours' ``[R]``.
    """

    propagated: Tensor
    own: Tensor
    itself: Tensor
    node: Tensor
    around: Tensor

    @staticmethod
    def of(here: Surroundings, vectors: Tensor) -> DotProducts:
        linked = (link_dots(here, table, vectors) for table in (here.propagated, here.own))
        return DotProducts(*linked, *(dot(vectors, other) for other in (vectors, here.x, here.around)))


def gradient_loss(here: Surroundings, net: Params, prompts: Tensor, products: DotProducts) -> Tensor:
    """Compute L_grad of training nodes for one random encoder, without the generator-free norm of the graph's gradient.

    Args:
        net: Weights of a SAGE without client axis.
        prompts: ``[R, d]``.
        products: Theirs.

    Returns:
        ``[R]``: summed over W1, b1, W2, b2, each as a mean over its entries (the two maps of a layer are two tensors).
    """
    first_maps = torch.cat(net["W1"].chunk(2), dim=1)  # of neighbours and of the node itself, side by side
    near2, root2 = net["W2"].chunk(2)
    with torch.no_grad():
        mapped = product(here.inputs, first_maps) if here.inputs.is_sparse_csr else here.inputs @ first_maps
        near, root = mapped.chunk(2, dim=1)
        hidden = product(here.mean, near.contiguous()) + root + net["b1"]
        on, hidden = (hidden > 0).float(), torch.relu(hidden)
        heard, mine = product(here.mean, hidden)[here.node], hidden[here.node]
        slope = output_slope(net, here.labels, heard @ near2 + mine @ root2)
        spread = slope @ near2.T
        self_slope = slope @ root2.T * on[here.node]
        summed = spread * product(here.mean, on)[here.node] + self_slope
        spread = spread / here.degree.clamp_min(1).unsqueeze(1)
    prompt_near, prompt_root = (prompts @ first_maps).chunk(2, dim=1)
    node, prompt = prompt_near + root[here.node] + net["b1"], near[here.node] + prompt_root + net["b1"]
    node_hidden, prompt_hidden = torch.relu(node), torch.relu(prompt)
    own_slope = output_slope(net, here.labels, prompt_hidden @ near2 + node_hidden @ root2)
    to_node, to_prompt = own_slope @ root2.T * (node > 0), own_slope @ near2.T * (prompt > 0)

    known, pp, xp = here.products, products.itself, products.node
    norm = (known.itself + pp) * (dot(to_node, to_node) + dot(to_prompt, to_prompt)) + 4 * xp * dot(to_node, to_prompt)
    at_self = (products.around + known.itself) * dot(self_slope, to_node)
    at_self = at_self + (known.around + xp) * dot(self_slope, to_prompt)
    links = (products.propagated + known.own) * link_dots(here, on, spread * to_node)
    links = links + (known.propagated + products.own) * link_dots(here, on, spread * to_prompt)
    inner = at_self.index_add(0, here.row, links)
    first = (norm - 2 * inner) / (first_maps.numel() // 2) + (summed - to_node - to_prompt).square().mean(1)
    graph, pair = torch.cat([heard, mine], 1), torch.cat([prompt_hidden, node_hidden], 1)
    second = dot(graph, graph) * dot(slope, slope) + dot(pair, pair) * dot(own_slope, own_slope)
    second = second - 2 * dot(graph, pair) * dot(slope, own_slope)
    return first + second / near2.numel() + (slope - own_slope).square().mean(1)


def output_slope(net: Params, labels: Tensor, embedding: Tensor) -> Tensor:
    """Compute the gradient of each node's cross-entropy with respect to its embedding before the bias, ``[R, E]``."""
    logits = (embedding + net["b2"]) @ net["W3"] + net["b3"]
    return (torch.softmax(logits, 1) - torch.nn.functional.one_hot(labels, logits.shape[1])) @ net["W3"].T


def dot(a: Tensor, b: Tensor) -> Tensor:
    """Compute row-wise dot products ``[R]``."""
    return (a * b).sum(1)
