"""What methods have in common whose phases do all the work, so that nobody trains in a round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fgl_repro.core.lazy import lazy
from fgl_repro.fl.method import Method, S

if TYPE_CHECKING:
    from torch import Tensor

    from fgl_repro.fl import stage
    from fgl_repro.fl.clients import Clients
else:
    stage = lazy("fgl_repro.fl.stage")


@dataclass
class Phased(Method[S]):
    """A method without local training in its rounds, and so without mini-batches."""

    batched: ClassVar[bool] = False

    def fit(self, clients: Clients, state: S, round: int, epochs: int) -> Tensor:
        """Train nobody; return the loss of the models as they are on the clients' own training nodes."""
        return stage.untrained(clients)
