"""FedAvg: one global model, the mean of the clients' models after local training.

Paper: McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data", AISTATS 2017,
Algorithm 1: theta <- sum_k (n_k / n) theta_k.

Variants:
    release  uniform mean. The FED-PUB code, from which FedLoG took this baseline, weighs by the length of a list
             that always has one element. FedLoG's text (A.13) weighs by training nodes; its tables here are these.
    paper    mean weighted by the number of training nodes.

The optimiser's moments stay with each client across rounds while weights are overwritten, as in the FED-PUB code, where
the protocol does not begin them anew.
With ``secure`` clients send n_k theta_k and n_k masked, so that the server learns their sums alone (``fl/secure.py``):
eight bytes a parameter instead of four. Methods built on this one have it where they leave the mean as it is.
Evaluated model: each client's own after its local epochs, before averaging (FED-PUB's and FedLoG's code), or, where the
protocol says so, the mean itself. With ``release``, FedSage's GraphSAGE and its protocol this is FedSage, whose code
starts from the mean of a model of each client (``starts``; here: one model), whose weights are smaller by about the
root of their number, and has one Adam for all clients, each in turn (``protocol.moments=shared``): fgl-table show
fedsage/starts. How that mean would be sent is not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from fgl_repro.core.errors import UserError
from fgl_repro.core.lazy import lazy, torch
from fgl_repro.core.schema import added
from fgl_repro.core.streams import torch_rng
from fgl_repro.fl.messages import Message, Weights
from fgl_repro.fl.method import Method, S, that_can_hide_uploads
from fgl_repro.fl.mixing import average, flat, unflat

if TYPE_CHECKING:
    from torch import Tensor

    from fgl_repro.fl import secure
    from fgl_repro.fl.clients import Clients
    from fgl_repro.fl.phase import Phase
    from fgl_repro.fl.start import Start
    from fgl_repro.nn.models.model import Model
else:
    secure = lazy("fgl_repro.fl.secure")

HOOKS = ("state", "publish", "phases", "upload", "aggregate")
"""What a method may do otherwise than FedAvg does, so that its server needs more than one sum."""


ROUND = ("state", "receive", "fit", "upload", "aggregate")
"""What a method may do otherwise in a round, so that not all may be well where clients sit it out."""


@dataclass
class FedAvg(Method[S]):
    """Attributes:
    secure: Whether the server sees masked uploads, and of them the sum alone.
    starts: Of how many networks, drawn independently, all clients start from the mean.
    """

    name: ClassVar[str] = "fedavg"
    display: ClassVar[str] = "FedAvg"
    units: ClassVar[tuple[str, ...]] = ("node", "graph")
    variants: ClassVar[tuple[str, ...]] = ("release", "paper")
    uniform: ClassVar[tuple[str, ...]] = ("release",)
    """Variants whose mean weighs all clients alike."""

    variant: str = "release"
    secure: bool = added(False)
    starts: int = added(1)

    @classmethod
    def can_hide_uploads(cls) -> bool:
        """Tell whether the server takes one mean of whole models and nothing else, as here."""
        return cls._as_fedavg(HOOKS)

    @classmethod
    def can_sit_out(cls) -> bool:
        """Tell whether clients keep nothing beside what they train, and train and are averaged as here."""
        return cls._as_fedavg(ROUND)

    @classmethod
    def _as_fedavg(cls, hooks: Sequence[str]) -> bool:
        """Tell whether a class does all of ``hooks`` as this one does."""
        return all(getattr(cls, hook) is getattr(FedAvg, hook) for hook in hooks)

    def check(self) -> None:
        super().check()
        if self.secure and not self.can_hide_uploads():
            raise UserError(
                "method.secure=true is for a server that takes one mean of whole models and clients that keep no state "
                f"beside them, which {self.name} has not: drop it, or choose method from {that_can_hide_uploads()}."
            )

        self.at_least(1, "starts")
        if self.starts > 1 and type(self).start is not FedAvg.start:
            raise UserError(f"method.starts={self.starts}: {self.name} has a start of its own, drop it.")

    def start(self, model: Model, seed: int) -> Start:
        one = super().start(model, seed)
        more = [model.init(torch_rng(f"init/{number}", seed)) for number in range(1, self.starts)]
        if not more:
            return one
        drawn = [one.weights, *more]
        return replace(one, weights={name: torch.stack([each[name] for each in drawn]).mean(0) for name in one.weights})

    @property
    def in_turn(self) -> bool:
        return super().in_turn and not self.secure  # moments that go from client to client show what masks hide

    def state(self, clients: Clients) -> S:
        if self.secure:
            return secure.Session(clients.count)  # type: ignore[return-value]
        return super().state(clients)

    def phases(self, clients: Clients, state: S) -> Iterable[Phase]:
        return (state.phase(),) if self.secure else ()  # type: ignore[attr-defined]

    def publish(self, clients: Clients, state: S) -> Message | None:
        return Weights(clients.params)

    def upload(self, clients: Clients, state: S) -> Message | None:
        if not self.secure:
            return self.publish(clients, state)  # what of a client's weights comes down also goes up
        share = self.share(clients).double().unsqueeze(1)
        masked: Message = state.upload(torch.cat([share * flat(clients.params), share], dim=1))  # type: ignore[attr-defined]
        return masked

    def aggregate(self, clients: Clients, state: S, upload: Message) -> Message:
        if self.secure:
            total = state.total(upload)  # type: ignore[attr-defined]
            return Weights(unflat(torch.from_numpy(total[:-1] / total[-1]), clients.params))
        return Weights(average(upload.tensors(), clients.weighed(self.share(clients))))

    def share(self, clients: Clients) -> Tensor:
        """Return the weight of each client in the mean, ``[K]``, up to a factor."""
        return torch.ones_like(clients.samples) if self.variant in self.uniform else clients.samples
