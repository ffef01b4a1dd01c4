"""What PyG computes, one client after the other."""

from __future__ import annotations

import numpy as np
import torch
from torch_geometric.nn import SAGEConv

from fgl_repro.federation.world import UnionGraph
from fgl_repro.nn.models.sage import SAGE


def separate(graph: UnionGraph, model: SAGE, params: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    """Embeddings of every node of each client, by PyG, ``K x [n_k, H/2]``."""
    out = []
    for k in range(graph.num_clients):
        own = slice(graph.ptr[k], graph.ptr[k + 1])
        x = torch.from_numpy(graph.base.features[graph.node[own]].toarray())
        edges = torch.from_numpy(np.stack(graph.adjacency[own, own].nonzero())).long()
        for number, width in ((1, x.shape[1]), (2, model.hidden)):
            weight, bias = params[f"W{number}"][k], params[f"b{number}"][k]
            layer = SAGEConv(width, weight.shape[1])
            with torch.no_grad():
                layer.lin_l.weight.copy_(weight[:width].T)
                layer.lin_l.bias.copy_(bias)
                layer.lin_r.weight.copy_(weight[width:].T)
            x = layer(x, edges.flip(0))
            x = torch.relu(x) if number == 1 else x
        out.append(x)
    return out
