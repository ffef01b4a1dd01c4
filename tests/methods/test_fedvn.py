"""FedVN against PyG and plain loops: messages of virtual nodes, both losses, parameter counts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch_geometric.nn import GINConv

from fgl_repro.federation.world import UnionGraph
from fgl_repro.methods.fedvn.method import contrastive, correlation
from fgl_repro.methods.fedvn.networks import VirtualGIN
from fgl_repro.nn.ops import stack
from fgl_repro.nn.view import Views
from support import worlds

CPU = torch.device("cpu")
Tensors = dict[str, torch.Tensor]


def direct(net: VirtualGIN, w: Tensors, x: torch.Tensor, edges: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
    """One client's outputs, graph by graph and virtual node by virtual node, with PyG's layers and torch's norms."""

    def mlp(kind: str, layer: int) -> torch.nn.Module:
        def norm(values: torch.Tensor) -> torch.Tensor:
            gain, shift = w[f"{kind}inner_gain{layer}"], w[f"{kind}inner_shift{layer}"]
            return F.batch_norm(values, None, None, gain, shift, training=True)

        class Mlp(torch.nn.Module):
            def forward(self, h: torch.Tensor) -> torch.Tensor:
                h = norm(h @ w[f"{kind}inner_W{layer}"] + w[f"{kind}inner_b{layer}"])
                return torch.relu(h) @ w[f"{kind}W{layer}"] + w[f"{kind}b{layer}"]

        return Mlp()

    def convolved(weights: Tensors, layer: int, h: torch.Tensor, kind: str) -> torch.Tensor:
        h = GINConv(mlp(kind, layer))(h, edges)
        return F.batch_norm(h, None, None, weights[f"{kind}gain{layer}"], weights[f"{kind}shift{layer}"], training=True)

    # the generator
    s = x @ w["generator_W1"] + w["generator_b1"]
    for layer in (2, 3, 4):
        s = convolved(w, layer, s, "generator_")
        s = torch.relu(s) if layer < 4 else s
    s = torch.relu(s @ w["generator_W5"] + w["generator_b5"])
    s = torch.sigmoid(s @ w["generator_W6"] + w["generator_b6"])
    # the network
    h, graphs, count = x @ w["W1"] + w["b1"], int(batch.max()) + 1, s.shape[1]
    q = (w["Q1"] @ w["W1"] + w["b1"] if net.raw else w["Q1"]).repeat(graphs, 1, 1)
    for layer in (2, 3, 4):
        message = torch.stack([sum(s[v, m] * q[batch[v], m] for m in range(count)) for v in range(len(x))])
        heard = torch.stack(
            [
                torch.stack([q[g, m] + sum(s[v, m] * h[v] for v in torch.where(batch == g)[0]) for m in range(count)])
                for g in range(graphs)
            ]
        )
        if net.inside:
            h = convolved(w, layer, h + message, "")
            h = torch.relu(h) if layer < 4 else h
        else:
            h = convolved(w, layer, h, "")
            h = (torch.relu(h) if layer < 4 else h) + message
        if layer < 4:
            for kind in ("virtual_inner_", "virtual_"):
                flat = (heard @ w[f"{kind}W{layer}"] + w[f"{kind}b{layer}"]).flatten(1)
                gain, shift = w[f"{kind}gain{layer}"], w[f"{kind}shift{layer}"]
                flat = F.batch_norm(flat, None, None, gain, shift, training=True)
                heard = torch.relu(flat).view(graphs, count, -1)
            q = heard
    pooled = torch.stack([h[batch == g].mean(0) for g in range(graphs)])
    return torch.relu(pooled @ w["W5"] + w["b5"]) @ w["W6"] + w["b6"]


@pytest.mark.parametrize("inside", [True, False], ids=["release", "paper"])
def test_virtual_nodes_are_those_of_a_direct_model(inside: bool) -> None:
    """Two clients with three graphs each; outputs to 2e-5."""
    base = worlds.graph_set(3, 2)
    union = UnionGraph.induced(base, [np.arange(3), np.arange(3, 6)])
    net = VirtualGIN(5, 3, hidden=4, dropout=0.0, virtual=3, inside=inside, raw=not inside)
    rng = torch.Generator().manual_seed(3)
    params = {
        name: value + 0.5 * torch.randn(value.shape, generator=rng)
        for name, value in stack(net.init(rng) | net.init_generator(rng), 2).items()
    }
    found = net(params, net.view(Views(CPU), union, np.arange(6)))
    for k in range(2):
        low, high = base.ptr[3 * k], base.ptr[3 * k + 3]
        links = base.links[low:high][:, low:high].tocoo()
        edges = torch.from_numpy(np.stack([links.col, links.row]).astype(np.int64))
        batch = torch.from_numpy(np.repeat(np.arange(3), np.diff(base.ptr)[3 * k : 3 * k + 3]))
        x = torch.from_numpy(base.inner[low:high].toarray())
        expected = direct(net, {name: value[k] for name, value in params.items()}, x, edges, batch)
        torch.testing.assert_close(found[k], expected, rtol=2e-5, atol=2e-5)


def test_contrastive_loss_is_the_papers_ratio() -> None:
    """Equation 8 as it is printed, against the softplus that is computed."""
    totals, local = torch.rand(2, 4, 5), torch.rand(2, 5)
    for k in range(2):
        for i in range(4):
            near = torch.exp(F.cosine_similarity(totals[k, i], local[k], dim=0) / 0.1)
            far = torch.exp(F.cosine_similarity(totals[k, i], torch.full((5,), 1 / 5), dim=0) / 0.1)
            expected = -torch.log(near / (near + far))
            assert contrastive(totals, local, 0.1)[k, i].item() == pytest.approx(expected.item(), abs=1e-5)


def test_decoupling_is_that_of_the_correlation_matrix_and_still_at_zero() -> None:
    virtual = torch.randn(2, 4, 6)
    for k in range(2):
        expected = np.linalg.norm(np.corrcoef(virtual[k].numpy())) ** 2 / 16
        assert correlation(virtual)[k].item() == pytest.approx(expected, rel=1e-5)
    zero = torch.zeros(1, 4, 6, requires_grad=True)
    (grad,) = torch.autograd.grad(correlation(zero).sum(), zero)
    assert correlation(zero).item() == 0
    assert torch.equal(grad, torch.zeros_like(grad))
    first_is_constant = torch.linalg.qr(torch.cat([torch.ones(6, 1), torch.randn(6, 5)], dim=1))[0]
    apart = first_is_constant[:, 1:5].T  # means of 0, no two correlated
    assert correlation(apart.unsqueeze(0)).item() == pytest.approx(1 / 4, abs=1e-5)


def test_as_many_parameters_as_the_released_network() -> None:
    net = VirtualGIN(1, 3)
    sizes = {name: value.numel() for name, value in net.init(torch.Generator()).items()}
    assert sizes.pop("Q1") == 2_000
    assert sum(sizes.values()) == 241_803
    assert sum(value.numel() for value in net.init_generator(torch.Generator()).values()) == 138_920
