#!/usr/bin/env python3
"""How much does a run make of the last digit of its initial weights?

Repeats a recorded or published run as it was, and a few times from weights each of which is moved to the next number
that its format holds, up or down by chance. Prints losses by round and, of each probe, the accuracies (percent) or
errors at the chosen and at the last round: of the run, and how far the moved ones come from it. No processor that
rounds its sums in another way can be expected to come nearer to the record than these do; a gap as wide as that between
two seeds says that such a run is as good as one of another seed.

    scripts/last_digit.py 0d2a41c5                a record, by the beginning of its key
    scripts/last_digit.py 0d2a41c5 --rounds 5     its first rounds alone
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from tqdm import tqdm

import grid
from fgl_repro.config import Config
from fgl_repro.fl.start import Start
from fgl_repro.nn.models.model import Model, Params
from fgl_repro.runs.execute import Outcome, execute
from fgl_repro.runs.folders import RunFolders
from fgl_repro.runs.names import label
from fgl_repro.runs.record import SELECTIONS
from fgl_repro.runs.rerun import config_of

SHOWN = 10
"""Rounds whose losses are printed, the first and the last among them."""


def moved(weights: Params, number: int) -> Params:
    """Every weight's neighbour among the numbers of its format, above or below by chance; zero stays."""
    rng, out = torch.Generator().manual_seed(number), {}
    for name, value in weights.items():
        towards = torch.where(torch.rand(value.shape, generator=rng) < 0.5, torch.inf, -torch.inf)
        out[name] = torch.where(value == 0, value, torch.nextafter(value, towards))
    return out


def disturbed(config: Config, number: int) -> Config:
    """The run from weights of other last digits: its method starts from them."""
    start = config.method.start

    def start_beside(model: Model, seed: int) -> Start:
        begun = start(model, seed)
        return replace(begun, weights=moved(begun.weights, number))

    config.method.start = start_beside  # type: ignore[method-assign]
    return config


def apart(name: str, first: float, others: list[float], digits: int) -> str:
    """A line: the run's number, and by how much the moved ones differ."""
    return f"{name:<28}{first:>10.{digits}f}" + "".join(f"{other - first:>+12.{digits}f}" for other in others)


def report(outcomes: list[Outcome]) -> list[str]:
    """Lines on the run, which comes first, and on those beside it."""
    curves = [[float(value) for value in outcome.curves["loss"]] for outcome in outcomes]
    last = len(curves[0]) - 1
    shown = sorted({round(i * last / (SHOWN - 1)) for i in range(SHOWN)})
    lines = [f"{'':<28}{'the run':>10}" + "".join(f"{f'moved {i + 1}':>12}" for i in range(len(outcomes) - 1))]
    lines += [apart(f"loss, round {r + 1}", curves[0][r], [curve[r] for curve in curves[1:]], 6) for r in shown]
    for probe, at in outcomes[0].record.metrics.items():
        for when in SELECTIONS:
            scale, digits = (1, 4) if at[when].metric == "mae" else (100, 2)
            found = [scale * (out.record.metrics[probe][when].accuracy or 0.0) for out in outcomes]
            if at[when].accuracy is not None:
                lines.append(apart(f"{probe}, {when}", found[0], found[1:], digits))
    return lines


def main() -> int:
    """Repeat the run, and print what its last digits make of it."""
    words = grid.parser(__doc__)
    words.add_argument("key", metavar="KEY", help="beginning of a record's key")
    words.add_argument("--rounds", type=int, help="how many rounds; default: the record's")
    words.add_argument("--times", type=int, default=3, help="runs from moved weights; default 3")
    words.add_argument("--results", type=Path, default=Path("results"), help="what is published; default results")
    args = words.parse_args()
    record = RunFolders(args.records, args.results).find(args.key)
    outcomes = []
    for number in tqdm(range(args.times + 1), unit="run", leave=False):
        config = config_of(record)
        config.protocol.rounds = args.rounds or config.protocol.rounds
        outcomes.append(execute(disturbed(config, number) if number else config))
    print("\n".join([f"{record.key[:8]} {label(record.config)}", *report(outcomes)]))
    return 0


if __name__ == "__main__":
    grid.run(main)
