"""Views of clients with different numbers of rows: what is padded counts for nothing."""

from __future__ import annotations

import numpy as np
import torch

from fgl_repro.data.graph import Graph
from fgl_repro.nn.view import Views
from support import worlds


def test_a_mean_is_over_each_clients_own_rows(toy_graph: Graph) -> None:
    graph = worlds.build("plain", toy_graph, "metis", 3).graph
    rows = np.concatenate([np.arange(graph.ptr[k], graph.ptr[k] + size) for k, size in enumerate((2, 7, 4))])
    view = Views(torch.device("cpu")).of(graph, rows)
    values = torch.rand(len(rows))
    padded = torch.full((view.mask.numel(),), 9.0)
    padded[view.slots] = values
    found = view.mean(padded.view_as(view.mask))
    torch.testing.assert_close(found, torch.stack([part.mean() for part in values.split([2, 7, 4])]))
