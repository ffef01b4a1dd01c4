"""What options cannot do together, refused in one sentence before anything is loaded. Each checks its own values."""

from __future__ import annotations

from fgl_repro.config.schema import Config
from fgl_repro.core.errors import UserError


def check(config: Config) -> Config:
    """``config`` unchanged, or a UserError for what can never run."""
    method, model, batch = config.method, config.model, config.protocol.batch
    if batch and not method.batched:
        raise UserError(f"protocol.batch is not for method={method.name}, which draws its own: leave it at 0.")
    if method.models and model.name not in method.models:
        raise UserError(
            f"model={model.name} cannot carry method={method.name}: choose model={' or '.join(method.models)}."
        )
    if (fanout := getattr(model, "fanout", 0)) and not batch:
        batches = "give protocol.batch a number of nodes, or " if method.batched else ""
        raise UserError(
            f"model.fanout={fanout} is for the protocol's mini-batches, and protocol.batch=0 has none: "
            f"{batches}set model.fanout=0."
        )
    return config
