"""FedAvg as a textbook writes it: K ordinary PyG models, one client after the other. Yardstick and oracle."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import GCNConv

from fgl_repro.federation.world import World


class TextbookGCN(nn.Module):
    """GCN, GCN, linear, with PyG's own layers; normalisation cached, as a careful author would."""

    def __init__(self, features: int, classes: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.conv1 = GCNConv(features, hidden, cached=True)
        self.conv2 = GCNConv(hidden, hidden, cached=True)
        self.linear = nn.Linear(hidden, classes)
        self.dropout = dropout

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        x = F.dropout(self.conv1(x, edges).relu(), self.dropout, self.training)
        x = F.dropout(self.conv2(x, edges).relu(), self.dropout, self.training)
        out: Tensor = self.linear(x)
        return out


@dataclass
class Client:
    """One client's graph, masks, model and optimiser."""

    x: Tensor
    edges: Tensor
    y: Tensor
    train: Tensor
    validation: Tensor
    model: TextbookGCN
    optimiser: torch.optim.Optimizer


def make_clients(
    world: World, initial: dict[str, Tensor], hidden: int, dropout: float, lr: float, weight_decay: float
) -> list[Client]:
    """Separate clients from a world; ``initial`` holds one model's weights in the stacked engine's names."""
    features = torch.from_numpy(world.graph.base.features.toarray())
    clients = []
    for k in range(world.num_clients):
        start, stop = world.graph.ptr[k], world.graph.ptr[k + 1]
        nodes = world.graph.node[start:stop]
        block = world.graph.adjacency[start:stop, start:stop].tocoo()
        model = TextbookGCN(features.shape[1], world.graph.base.num_classes, hidden, dropout)
        load(model, initial)
        clients.append(
            Client(
                x=features[nodes],
                edges=torch.from_numpy(np.stack([block.row, block.col])).long(),
                y=torch.from_numpy(world.graph.labels[start:stop]),
                train=_inside(world.train, start, stop),
                validation=_inside(world.validation.rows, start, stop),
                model=model,
                optimiser=torch.optim.Adam(model.parameters(), lr=lr, weight_decay=weight_decay),
            )
        )
    return clients


def _inside(rows: np.ndarray, start: int, stop: int) -> Tensor:
    return torch.from_numpy(rows[(rows >= start) & (rows < stop)] - start)


def load(model: TextbookGCN, weights: dict[str, Tensor]) -> None:
    """Copy weights named as in ``fgl_repro.nn.models.gcn.GCN`` into a PyG model."""
    with torch.no_grad():
        for name, module in (("1", model.conv1.lin), ("2", model.conv2.lin), ("3", model.linear)):
            module.weight.copy_(weights[f"W{name}"].T)
        for name, owner in (("b1", model.conv1), ("b2", model.conv2), ("b3", model.linear)):
            owner.bias.copy_(weights[name])


def dump(model: TextbookGCN) -> dict[str, Tensor]:
    """The inverse of ``load``."""
    return {
        "W1": model.conv1.lin.weight.detach().T.clone(),
        "b1": model.conv1.bias.detach().clone(),
        "W2": model.conv2.lin.weight.detach().T.clone(),
        "b2": model.conv2.bias.detach().clone(),
        "W3": model.linear.weight.detach().T.clone(),
        "b3": model.linear.bias.detach().clone(),
    }


def round_of_fedavg(clients: list[Client], share: Tensor) -> tuple[float, float, list[dict[str, Tensor]]]:
    """One round: every client trains one full-batch epoch and is validated, then all get the weighted mean.

    Returns:
        Mean loss, pooled validation accuracy, and the clients' weights before averaging.
    """
    losses, right, rows = [], 0, 0
    for client in clients:
        client.model.train()
        client.optimiser.zero_grad()
        logits = client.model(client.x, client.edges)
        loss = F.cross_entropy(logits[client.train], client.y[client.train])
        loss.backward()
        client.optimiser.step()
        losses.append(float(loss.detach()))
        client.model.eval()
        with torch.no_grad():
            predicted = client.model(client.x, client.edges)[client.validation].argmax(-1)
        right += int((predicted == client.y[client.validation]).sum())
        rows += len(client.validation)
    local = [dump(client.model) for client in clients]
    mean = {name: sum(s * w[name] for s, w in zip(share, local, strict=True)) for name in local[0]}
    for client in clients:
        load(client.model, mean)
    return sum(losses) / len(losses), right / rows, local
