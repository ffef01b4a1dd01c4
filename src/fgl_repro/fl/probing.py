"""What probes give: every probe measured with the clients' own models, once or in every round."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from fgl_repro.core.device import wait_for
from fgl_repro.data.graphset import GraphSet
from fgl_repro.federation.world import Probe, UnionGraph
from fgl_repro.fl.clients import Clients
from fgl_repro.fl.metrics import Measured, likeness, measure
from fgl_repro.fl.rounds import Trained
from fgl_repro.fl.steps import LocalStep
from fgl_repro.nn.models.model import Params
from fgl_repro.nn.view import View


class Prober:
    """Measures every probe with a given set of trained tensors; graphs are prepared on first use.

    Attributes:
        seconds: What :meth:`accuracies`, :meth:`alike` and :meth:`both` have taken in all; none of it is training.
    """

    def __init__(self, clients: Clients) -> None:
        self.clients = clients
        self.seconds = 0.0
        self.probes = (clients.world.validation, *clients.world.probes)

    def metrics(self, trained: Params) -> dict[str, Measured]:
        """Measure every probe, by its name, with the clients' own models."""
        found: dict[str, Measured] = {}
        with torch.no_grad():
            for probes, rows, view in self._groups:
                predicted = self._predicted(trained, view).cpu().numpy()
                for probe in probes:
                    found[probe.name] = measure(probe, predicted[np.searchsorted(rows, probe.rows)])
        return {probe.name: found[probe.name] for probe in self.probes}

    def _predicted(self, trained: Params, view: View) -> Tensor:
        """Predict the class (or number) of each row.

        One model may answer for many clients; a graph that all have is read model by model.
        """
        model, clients, readers = self.clients.model, self.clients.count, view.num_clients
        if clients in (1, readers):
            one = clients != readers
            own = {name: w.expand(readers, *w.shape[1:]) for name, w in trained.items()} if one else trained
            return _answers(model(own, view), view)
        equal = all(torch.equal(w, w[:1].expand_as(w)) for w in trained.values())
        alone = [{name: w[k : k + 1] for name, w in trained.items()} for k in range(1 if equal else clients)]
        found = [_answers(model(single, view), view) for single in alone]
        return torch.cat(found * (clients // len(found)))

    def accuracies(self, trained: Params) -> dict[str, float]:
        """Take the curves: every test probe's printed accuracy and each client's validation accuracy; NaN without rows.

        Of whole graphs the mean test loss besides, by which a federation whose accuracies are noisy is compared.
        """
        with self._clock():
            measured = self.metrics(trained)
            found = {probe.name: measured[probe.name].accuracy for probe in self.probes[1:]}
            found |= {f"validation/{k}": own for k, own in enumerate(measured["validation"].clients)}
            found |= {f"loss/{name}": self._loss(trained, view) for name, view in self._losses.items()}
        return {name: float("nan") if value is None else value for name, value in found.items()}

    def alike(self, trained: Params) -> dict[str, list[list[list[float | None]]]]:
        """Measure how alike every two clients' embeddings of a class of test graphs are, by class."""
        if self.clients.world.graph.base.num_classes < 2 or not self._losses:
            return {}
        view = next(iter(self._losses.values()))
        with self._clock():
            with torch.no_grad():
                embedded = self.clients.model.embed(trained, view)
            found = likeness(embedded, view, self.clients.world.graph.base.num_classes).tolist()
        rounded = [[[None if np.isnan(v) else round(v, 6) for v in line] for line in square] for square in found]
        return {"alike": rounded}

    def both(self, training: Trained) -> dict[str, dict[str, Measured]]:
        """Measure every probe at the best validation round and at the last."""
        with self._clock():
            best = self.metrics(training.best)
            last = best if training.last is training.best else self.metrics(training.last)
        return {name: {"best": best[name], "last": last[name]} for name in best}

    @contextmanager
    def _clock(self) -> Iterator[None]:
        """Count what runs inside, and nothing that a GPU was given before."""
        device = self.clients.device
        wait_for(device)
        start = time.perf_counter()
        yield
        wait_for(device)
        self.seconds += time.perf_counter() - start

    @torch.no_grad()
    def _loss(self, trained: Params, view: View) -> float:
        """Average the loss of the task over the clients."""
        return float(LocalStep(None, view).task_loss(self.clients.model(trained, view)).mean())

    @cached_property
    def _losses(self) -> dict[str, View]:
        """Views of the test probes that are about graphs."""
        return {
            probe.name: view
            for probes, _, view in self._groups
            for probe in probes
            if isinstance(probe.graph.base, GraphSet) and probe is not self.probes[0]
        }

    @cached_property
    def _groups(self) -> list[tuple[list[Probe], np.ndarray, View]]:
        """Probes on the same graph share one forward pass; on whole graphs only those of the same rows do.

        There a batch norm takes the graphs of a pass together, so that what one probe finds would depend on another's.
        """
        by_graph: dict[tuple[int, bytes], list[Probe]] = {}
        for probe in self.probes:
            apart = probe.rows.tobytes() if isinstance(probe.graph.base, GraphSet) else b""
            by_graph.setdefault((id(probe.graph), apart), []).append(probe)
        groups = [(probes, np.unique(np.concatenate([p.rows for p in probes]))) for probes in by_graph.values()]
        return [(probes, rows, self._view(probes[0].graph, rows)) for probes, rows in groups]

    def _view(self, graph: UnionGraph, rows: np.ndarray) -> View:
        """Cut out what ``rows`` of a graph are predicted from; one graph that all clients have is prepared once.

        Where one model answers for all of them, or they are asked about different nodes of it, every copy is.
        """
        inputs = self.clients.inputs
        if graph is inputs.world.graph:
            return inputs.evaluation_view(rows)
        if self.clients.count == graph.num_clients:
            graph, rows = graph.once(rows)
        return inputs.elsewhere(graph, rows)


def _answers(outputs: Tensor, view: View) -> Tensor:
    """Read the class, or number, of each row ``[R]`` from outputs ``[K, r, C]``."""
    answers = outputs.argmax(-1) if view.numbers is None else outputs.squeeze(-1)
    return answers.flatten()[view.slots]
