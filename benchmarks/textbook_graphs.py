"""FedAvg on whole graphs as a textbook writes it: K PyG models, a DataLoader each, one client after the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GINConv, GINEConv, global_mean_pool

from fgl_repro.data.graphset import GraphSet
from fgl_repro.federation.world import World
from fgl_repro.nn.models.gin import BONDS
from fgl_repro.nn.models.model import Params


class TextbookGIN(nn.Module):
    """One client's graph isomorphism network, batch norms without running statistics."""

    def __init__(self, base: GraphSet, hidden: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.widths, self.dropout = base.fields, dropout
        self.tables = nn.ModuleList(nn.Embedding(width, hidden) for width in base.fields)
        self.map = nn.Linear(base.num_features, hidden)
        self.bonds = nn.ModuleList(nn.ModuleList(nn.Embedding(w, hidden) for w in BONDS) for _ in range(3))
        self.convs, self.norms = nn.ModuleList(), nn.ModuleList()
        for _ in range(3):
            inner = nn.BatchNorm1d(2 * hidden, track_running_stats=False)
            mlp = nn.Sequential(nn.Linear(hidden, 2 * hidden), inner, nn.ReLU(), nn.Linear(2 * hidden, hidden))
            self.convs.append(GINConv(mlp) if base.bonds is None else GINEConv(mlp))
            self.norms.append(nn.BatchNorm1d(hidden, track_running_stats=False))
        drop = nn.Dropout(dropout)
        self.head = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), drop, nn.Linear(hidden, base.num_classes))

    def forward(self, batch: Batch) -> Tensor:
        """Outputs ``[graphs, C]``."""
        if len(self.tables):
            codes = [part.argmax(1) for part in batch.x.split(list(self.widths), 1)]
            x = torch.stack([table(code) for table, code in zip(self.tables, codes, strict=True)]).sum(0)
        else:
            x = self.map(batch.x)
        for layer, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            if batch.edge_attr is None:
                x = conv(x, batch.edge_index)
            else:
                kinds = [table(batch.edge_attr[:, i]) for i, table in enumerate(self.bonds[layer])]
                x = conv(x, batch.edge_index, edge_attr=torch.stack(kinds).sum(0))
            x = norm(x)
            x = torch.relu(x) if layer < 2 else x
            x = F.dropout(x, self.dropout, self.training)
        out: Tensor = self.head(global_mean_pool(x, batch.batch))
        return out


def load(network: TextbookGIN, weights: Params, base: GraphSet) -> dict[str, nn.Parameter]:
    """Give one client's weights to a network; returns its parameter for every tensor that is not cut up."""
    named: dict[str, nn.Parameter] = {}

    def give(parameter: nn.Parameter, name: str) -> None:
        parameter.data.copy_(weights[name].T if "W" in name else weights[name])
        named[name] = parameter

    if base.fields:
        for table, part in zip(network.tables, weights["W1"].split(list(base.fields)), strict=True):
            table.weight.data.copy_(part)
    else:
        give(network.map.weight, "W1")
        give(network.map.bias, "b1")
    for number, (conv, norm) in enumerate(zip(network.convs, network.norms, strict=True), 2):
        first, inner, _, second = conv.nn
        for module, kind in ((first, "inner_"), (second, "")):
            give(module.weight, f"{kind}W{number}")
            give(module.bias, f"{kind}b{number}")
        for module, kind in ((inner, "inner_"), (norm, "")):
            give(module.weight, f"{kind}gain{number}")
            give(module.bias, f"{kind}shift{number}")
        for table, part in zip(network.bonds[number - 2], weights[f"bond{number}"].split(list(BONDS)), strict=True):
            table.weight.data.copy_(part)
    for number, module in ((5, network.head[0]), (6, network.head[3])):
        give(module.weight, f"W{number}")
        give(module.bias, f"b{number}")
    return named


def as_data(base: GraphSet, graph: int) -> Data:
    """One graph as PyG has it."""
    low, high = base.ptr[graph], base.ptr[graph + 1]
    block = base.links[low:high, low:high].tocoo()
    first, last = base.links.indptr[low], base.links.indptr[high]
    return Data(
        x=torch.from_numpy(base.inner[low:high].toarray()),
        edge_index=torch.from_numpy(np.stack([block.col, block.row])).long(),
        edge_attr=None if base.bonds is None else torch.from_numpy(base.bonds[first:last]).long(),
        y=int(base.labels[graph]),
    )


@dataclass
class Client:
    """One client's graphs and network."""

    train: DataLoader
    test: DataLoader
    network: TextbookGIN


def make_clients(
    world: World, initial: Params, hidden: int, dropout: float, batch: int, test_batch: int, seed: int = 0
) -> list[Client]:
    """Separate clients from a world; ``initial`` holds one model's weights in the stacked engine's names."""
    base = world.graph.base
    assert isinstance(base, GraphSet)
    out = []
    for k in range(world.num_clients):

        def held(rows: np.ndarray, k: int = k) -> list[Data]:
            return [as_data(base, graph) for graph in world.graph.node[rows[world.graph.owner[rows] == k]]]

        network = TextbookGIN(base, hidden, dropout)
        load(network, initial, base)
        rng = torch.Generator().manual_seed(seed + k)
        train = DataLoader(held(world.train), batch, shuffle=True, generator=rng)
        test = DataLoader(held(world.probes[0].rows), test_batch)
        out.append(Client(train, test, network))
    return out


def round_of_fedavg(clients: list[Client], lr: float) -> tuple[float, float]:
    """One round: every client trains one epoch by plain SGD, all get the mean, which is then tested.

    Returns:
        Mean of the losses at the last steps, mean test accuracy.
    """
    losses, accuracies = [], []
    for client in clients:
        client.network.train()
        optimiser = torch.optim.SGD(client.network.parameters(), lr)
        for batch in client.train:
            optimiser.zero_grad()
            loss = F.cross_entropy(client.network(batch), batch.y)
            loss.backward()
            optimiser.step()
        losses.append(float(loss.detach()))
    states = [client.network.state_dict() for client in clients]
    mean = {name: torch.stack([state[name] for state in states]).mean(0) for name in states[0]}
    for client in clients:
        client.network.load_state_dict(mean)
        client.network.eval()
        right = graphs = 0
        with torch.no_grad():
            for batch in client.test:
                right += int((client.network(batch).argmax(-1) == batch.y).sum())
                graphs += len(batch.y)
        accuracies.append(right / graphs)
    return sum(losses) / len(losses), sum(accuracies) / len(accuracies)
