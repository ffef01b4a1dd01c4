"""What a method is: a dataclass of hyper-parameters with the few decisions that distinguish it.

The run itself (phases, rounds, selection) is written once, in ``fl/rounds.py``. This file imports no torch, so that
configuration and shell completion stay fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from fgl_repro.core.lazy import lazy
from fgl_repro.core.registry import options
from fgl_repro.core.schema import Option
from fgl_repro.core.streams import torch_rng
from fgl_repro.fl.messages import Message
from fgl_repro.fl.start import Start

if TYPE_CHECKING:
    from typing import Generic

    from torch import Tensor
    from typing_extensions import TypeVar

    from fgl_repro.fl import stage
    from fgl_repro.fl.clients import Clients
    from fgl_repro.fl.inputs import Inputs
    from fgl_repro.fl.phase import Phase
    from fgl_repro.fl.steps import Loss
    from fgl_repro.nn.models.model import Model, Params

    S = TypeVar("S", default=Any)
    """What a method keeps between rounds, in a type of its own; None for most. ``Method`` alone is one of any state."""

    class _Keeping(Generic[S]): ...
else:
    stage = lazy("fgl_repro.fl.stage")
    S = None

    class _Keeping:
        """Generic to the type checker alone: OmegaConf takes every generic dataclass for a dictionary."""

        def __class_getitem__(cls, state: object) -> type:
            return cls


def that_can_hide_uploads() -> str:
    """List, as in ``fedavg, ...``, every method that ``method.secure=true`` is for."""
    return _named(lambda kind: kind.can_hide_uploads())


def that_need_not_all() -> str:
    """List every method that ``protocol.participation`` below 1 is for."""
    return _named(lambda kind: kind.can_sit_out())


def _named(able: Callable[[type[Method]], bool]) -> str:
    return ", ".join(sorted(name for name, kind in options("method").items() if able(kind)))


@dataclass
class Method(Option, _Keeping[S]):
    """This is the base of all methods; subclasses set ``name`` and override what differs from plain local training.

    The hooks, ``start`` to ``details``, stand in the order in which a run calls them; ``receive`` is first
    called before the phases, with what ``publish`` sends.

    Attributes:
        units: What it can predict something about: ``node``, or whole ``graph`` where a data set has many.
        models: Models it can train, its paper's own first: ``model=auto`` takes that one; empty: any model, the GCN
            first.
        choices: Values that a hyper-parameter may take which is one of a few words or whole numbers.
        least, greatest: Bounds of hyper-parameters given by a finite number, which may lie on them.
        above, below: Bounds of hyper-parameters given by a finite number, which may not lie on them.
        quick: Hyper-parameters under which two rounds take no time, for smoke tests.
        batched: Whether local steps may be taken on the protocol's mini-batches.
        shares_features: Whether clients see sums of each other's features before training, by the method's design.
        fleets: Whether clients may have different architectures; a method that mixes weights cannot have it so.
        own_optimisers: Whether clients step with optimisers of the method's, which know no taking turns.
        validates: Whether training itself looks at validation nodes, to end there or to keep what does best on them.
        on_whole_graph: Whether it trains on the graph that clients were cut from, and so on all of its links.
        variant: Which of the method's versions runs; the card at the head of its file says what each changes.
    """

    axis: ClassVar[str] = "method"
    display: ClassVar[str]
    units: ClassVar[tuple[str, ...]] = ("node",)
    variants: ClassVar[tuple[str, ...]] = ("paper",)
    shares_features: ClassVar[bool] = False
    batched: ClassVar[bool] = True
    models: ClassVar[tuple[str, ...]] = ()
    choices: ClassVar[Mapping[str, tuple[str | int, ...]]] = {}
    least: ClassVar[Mapping[str, float]] = {}
    greatest: ClassVar[Mapping[str, float]] = {}
    above: ClassVar[Mapping[str, float]] = {}
    below: ClassVar[Mapping[str, float]] = {}
    quick: ClassVar[Mapping[str, Any]] = {}

    fleets: ClassVar[bool] = False
    own_optimisers: ClassVar[bool] = False
    validates: ClassVar[bool] = False
    on_whole_graph: ClassVar[bool] = False

    variant: str = "paper"

    @property
    def as_paper(self) -> bool:
        """Say whether the method runs as its paper writes it."""
        return self.variant == "paper"

    @property
    def in_turn(self) -> bool:
        """Say whether clients may train in turn with one optimiser, as ``protocol.moments=shared`` asks."""
        return not self.own_optimisers

    def check(self) -> None:
        """Refuse other variants than ``variants``, other values than ``choices``, and numbers out of their bounds."""
        self.one_of(variant=self.variants, **self.choices)
        for name, least in self.least.items():
            self.at_least(least, name)
        for name, greatest in self.greatest.items():
            self.at_most(greatest, name)
        for name, bound in self.above.items():
            self.more_than(bound, name)
        for name, bound in self.below.items():
            self.less_than(bound, name)

    @classmethod
    def can_hide_uploads(cls) -> bool:
        """Say whether the server needs sums of uploads alone, so that ``method.secure`` may mask each; default: no."""
        return False

    @classmethod
    def can_sit_out(cls) -> bool:
        """Say whether clients may sit rounds out, as ``protocol.participation`` below 1 asks; default: no.

        Local steps must then be those of ``clients.steps`` or ``clients.train``, which leave such clients where they
        are, and means weigh clients as ``clients.weighed`` does.
        """
        return False

    # --- before the rounds --------------------------------------------------------------------------------------------

    def start(self, model: Model, seed: int) -> Start:
        """Build what all clients start from, on the architecture of the config; default: that architecture itself."""
        return Start(model, model.init(torch_rng("init", seed)))

    def inputs(self, own: Inputs) -> Inputs:
        """Return what clients see of the graphs; default: their own subgraphs, with which the hook is called."""
        return own

    def state(self, clients: Clients) -> S:
        """Return what the method keeps between rounds beside the clients' tensors; default: nothing."""
        return None  # type: ignore[return-value]

    def publish(self, clients: Clients, state: S) -> Message | None:
        """Return the server's first message, which comes before anything is trained; None: there is no server."""
        return None

    def phases(self, clients: Clients, state: S) -> Iterable[Phase]:
        """Yield what happens between the first message and the rounds, one after the other; default: nothing."""
        return ()

    # --- a round ------------------------------------------------------------------------------------------------------

    def receive(self, clients: Clients, state: S, message: Message) -> None:
        """Put what came down into the clients' tensors, in place; default: replace the weights it carries.

        It comes before local training, or right after the server has mixed where its model is judged.
        """
        clients.load(message.tensors())

    def fit(self, clients: Clients, state: S, round: int, epochs: int) -> Tensor:
        """Train the clients locally, and return the last loss of each ``[K]``."""
        return clients.train(self.objective(clients, state, round), epochs)

    def objective(self, clients: Clients, state: S, round: int) -> Loss:
        """Return the loss of each client ``[K]`` at a step, for the steps of this round; default: mean cross-entropy.

        What clients keep of the received models through the round (a teacher, an anchor) is computed here.
        """
        return lambda step: step.task_loss(clients.logits(step))

    def upload(self, clients: Clients, state: S) -> Message | None:
        """Return what clients send after local training; None: nothing is shared."""
        return None

    def aggregate(self, clients: Clients, state: S, upload: Message) -> Message:
        """Return what the server makes of the uploads and sends down, already one row per client."""
        raise NotImplementedError(f"{self.name} uploads but does not aggregate")

    # --- after the rounds ---------------------------------------------------------------------------------------------

    def closing(self, clients: Clients, state: S) -> Iterable[Phase]:
        """Return what follows the rounds where the protocol fine-tunes; default: every client trains on its own nodes.

        Clients have received what the server made of the last round.
        """

        def objective(some: Clients) -> Loss:
            return lambda step: step.task_loss(some.logits(step))

        yield from stage.fine_tuning(clients, objective, clients.protocol.fine_tuning_lr)

    # --- what is told of it -------------------------------------------------------------------------------------------

    def trace(self, clients: Clients, state: S) -> dict[str, Tensor]:
        """Return further curves of a round, about the method itself: tensors of one number, fetched with the loss."""
        return {}

    def facts(self, clients: Clients, state: S) -> dict[str, Any]:
        """Return what the record keeps of the method's state after the last round, in plain JSON types."""
        return {}

    def details(self, trained: Params) -> dict[str, Any]:
        """Return facts about the models of the last round, ``[K, ...]``, which are kept where all curves are."""
        return {}
