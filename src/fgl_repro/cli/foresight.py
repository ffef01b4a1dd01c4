"""What of a Hydra sweep can never be a run, told before the first job begins and not when each one's turn comes."""

from __future__ import annotations

from itertools import islice, product
from math import prod

from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from fgl_repro.cli.explain import explain
from fgl_repro.config import typed
from fgl_repro.core.errors import UserError

LOOKED_AT = 100
"""Jobs that are composed beforehand at most, the first ones: more would take as long as some of the runs."""

SHOWN = 5
"""Reasons that are told one by one."""


def foreseen(overrides: list[Override], config: DictConfig, loader: ConfigLoader) -> str | None:
    """Tell which jobs cannot be done, a line for each reason; None if all can, as far as their words show, or none.

    Where there are too many to look at all it says so. Of jobs that differ in nothing but the seed one is looked at.
    Data are read when a job's turn comes, and not before.

    Args:
        overrides: The sweep's, each key once.
        config: What Hydra has made of the sweep as a whole.
    """
    lists = [_values(each) for each in overrides if each.get_key_element() != "seed"]
    seeds = max((len(_values(each)) for each in overrides if each.get_key_element() == "seed"), default=1)
    swept = {word for words in lists if len(words) > 1 for word in words}
    total = prod(map(len, lists))
    if total == 1 or any("${hydra:" in word for words in lists for word in words):  # known once a job is at work
        return None
    refused: dict[str, list[str]] = {}
    for words in islice(product(*lists), LOOKED_AT):
        if why := _refusal([*words], config, loader):
            refused.setdefault(why, []).append(" ".join(word for word in words if word in swept))
    count = sum(map(len, refused.values()))
    if count in (0, total):
        return None
    lines = [
        f"  {first}{f' (and {len(others)} more)' * bool(others)}: {why}" for why, (first, *others) in refused.items()
    ]
    left = [f"  ... and for {len(lines) - SHOWN} other reasons."] if len(lines) > SHOWN else []
    what = "1 job of this sweep" if count * seeds == 1 else f"{count * seeds} jobs of this sweep"
    more = f"; {LOOKED_AT * seeds} were looked at:" if total > LOOKED_AT else ", and the others are:"
    return "\n".join([f"{what} cannot be done{more}", *lines[:SHOWN], *left])


def _values(override: Override) -> list[str]:
    """List the words that jobs have of an override."""
    key = override.get_key_element()
    if override.is_discrete_sweep():
        return [f"{key}={value}" for value in override.sweep_string_iterator()]
    return [f"{key}={override.get_value_element_as_str()}"]


def _refusal(words: list[str], config: DictConfig, loader: ConfigLoader) -> str | None:
    """Tell why a job with these words cannot be done, in a sentence; None if it can, or if it is Hydra that refuses it.

    Hydra composes all jobs before the first one, and does none where one cannot be composed.
    """
    try:
        job = loader.load_sweep_config(config, words)
    except HydraException:
        return None
    try:
        typed(OmegaConf.masked_copy(job, [str(key) for key in job if key != "hydra"]))
    except (UserError, OmegaConfBaseException) as error:
        return explain(error)
    return None
