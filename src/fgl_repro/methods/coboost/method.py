"""Co-Boosting: DENSE whose generated nodes are hard, are moved before each use, and whose teachers are weighed.

Paper: Dai et al., "Enhancing One-Shot Federated Learning through Data and Ensemble Co-Boosting", ICLR 2024; released
code for images. DENSE's epochs with three changes; w are the teachers' weights:

    generator  min mean((1 - p_y)^h CE(T(x), y)) - KL(T || S) at temperature 3, T = sum_k w_k f_k / sum_k w_k
    weights    from the second epoch on, for each x of the pool before the new one joins:
               w <- clip(w - 0.01 0.99^epoch sign(d CE(T(x), y) / d w), 0, 1)
    server     a step on each x + eta sign(d sum_c u_c softmax(T(x) / 4)_c / d x) of the pool, u uniform in (-1, 1), new
               each time:  min tau^2 KL(softmax(T / tau) || softmax(S / tau))

Graphs as DENSE has them here, with its bounds, optimiser and number of epochs; edges stay when features are moved.
Images move by 8 / 255 of the brightness, features by ``move`` standard deviations of their column.

Variants: how large w are at first, of which T does not depend, but what a step is worth and whether w can grow.
    paper    1 each: our reading, for the text was not at hand.
    release  1 / K each, as the released code has it: a step is K times as much of a weight.
tau = 4, weight decay 1e-4 and steps that fade like a cosine are the released code's, for its own DENSE, too.

Further known differences from the released code: the student starts as the clients' mean, there at random, as with
``student=random`` (fgl-table show opfgl/students), in both variants; gradients are not clipped; weights are never held
near those before, for there that bound is never reached.
The server must see single models, so that secure aggregation is none for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fgl_repro.core.lazy import lazy
from fgl_repro.methods.dense import Dense

if TYPE_CHECKING:
    from fgl_repro.fl.clients import Clients
    from fgl_repro.methods.generated.method import Distiller

server = lazy("fgl_repro.methods.coboost.server")


@dataclass
class CoBoost(Dense):
    """Attributes:
    hardness: h, the power of a node's weight in the generator's loss.
    temperature_adversarial: Temperature of the KL in the generator's loss.
    move: eta, in standard deviations of a feature.
    weight_step: First step of the teachers' weights.
    """

    name: ClassVar[str] = "coboost"
    display: ClassVar[str] = "Co-Boost"
    variants: ClassVar[tuple[str, ...]] = ("paper", "release")
    least: ClassVar[dict[str, float]] = {**Dense.least, **dict.fromkeys(("hardness", "move", "weight_step"), 0)}
    above: ClassVar[dict[str, float]] = {**Dense.above, "temperature_adversarial": 0}

    temperature: float = 4.0
    weight_decay: float = 1e-4
    hardness: float = 1.0
    temperature_adversarial: float = 3.0
    move: float = 0.03
    weight_step: float = 0.01

    def state(self, clients: Clients) -> Distiller:
        self.check_nodes(clients)
        made: Distiller = server.CoBoostServer(self, clients)
        return made
