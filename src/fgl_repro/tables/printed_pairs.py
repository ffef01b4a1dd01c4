"""Verdicts on printed numbers outside a grid of accuracies: those of one client, of single rounds, facts of runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from fgl_repro.tables.artifact import Content
from fgl_repro.tables.printing import decimal
from fgl_repro.tables.reference import SUSPECT, Reference
from fgl_repro.tables.results import Stat
from fgl_repro.tables.verdict import DIFFERS, LEAST, NOTHING, REPRODUCED, WITHIN, Evidence, evidence, verdicts

ROUNDING = 12**-0.5
"""Std of a number that is known to the next whole one only, in steps: that of a uniform distribution one step wide."""


@dataclass(frozen=True)
class PrintedPair:
    """A printed number and ours, both in the unit in which a page shows them.

    Attributes:
        name: What it is a number of, for the sentence on the page.
        ours: Mean and population std over seeds; None where nothing ran.
        printed: None where nothing is printed.
        whole: What the unit calls all of it: 100 for percent, 1 for fractions; 0 for what has no whole (rounds), whose
            gaps are told in percent of the printed number.
        step: The least by which ours can move, in its unit: of a recall over 7 nodes, a seventh. Seeds that agree in
            such a number still do not know it to less than a step.
        suspect: Whether the printed number is taken for a misprint.
    """

    name: str
    ours: Stat | None
    printed: float | None
    whole: float = 100.0
    step: float = 0.0
    suspect: bool = False


def evidence_of(pair: PrintedPair) -> Evidence:
    """Find what our runs say about the printed number; gap and interval in hundredths of the whole."""
    scale = pair.whole or 1.0
    theirs = None
    if pair.printed is not None:
        theirs = Reference(pair.printed / scale, None, SUSPECT * pair.suspect, error=not pair.whole)
    ours = pair.ours
    if ours is not None:
        ours = replace(ours, mean=ours.mean / scale, std=None if ours.std is None else ours.std / scale)
    step = pair.step / scale / (theirs.whole if theirs else 1.0)
    found = evidence(theirs, ours, 0, chance=-math.inf, least=max(LEAST, 100 * ROUNDING * step))
    if pair.whole and pair.step >= pair.whole:
        return replace(found, silent=found.silent or "one node decides")
    return found


def with_verdicts(content: Content, pairs: Sequence[PrintedPair], beside: str = "print") -> Content:
    """Add verdicts to the content's rows, and a sentence on them below its body; all are decided together.

    Args:
        pairs: One for each row, in the order of rows.
        beside: What the numbers beside ours are called, where they are not a paper's.
    """
    found = [evidence_of(pair) for pair in pairs]
    decided = verdicts(found)
    verdict_columns = [
        {"gap": decimal(each.gap, 2), "half": decimal(each.half, 2), "p": decimal(each.p, 4)}
        | {"verdict": verdict, "silent": each.silent}
        for each, verdict in zip(found, decided, strict=True)
    ]
    rows: list[dict[str, Any]] = [row | columns for row, columns in zip(content.rows, verdict_columns, strict=True)]
    words = sentence(
        [(pair, verdict) for pair, verdict in zip(pairs, decided, strict=True) if pair.printed is not None], beside
    )
    return replace(content, rows=rows, body="\n\n".join(filter(None, (content.body, words))))


def sentence(decided: Sequence[tuple[PrintedPair, str]], beside: str) -> str:
    """Say how many comparisons come out how, and which differ; empty where nothing is printed or nothing ran."""
    by = {verdict: [pair.name for pair, own in decided if own == verdict] for verdict in (REPRODUCED, WITHIN, DIFFERS)}
    if not any(by.values()):
        return ""
    many = [f"{len(names)} {verdict}" for verdict, names in by.items()]
    many.append(f"{sum(verdict == NOTHING for _, verdict in decided)} {NOTHING}")
    every = len(by[DIFFERS]) == sum(map(len, by.values())) > 1
    names = "all that can be told" if every else "; ".join(by[DIFFERS])
    which = f" {DIFFERS.capitalize()}: {names}." if by[DIFFERS] else ""
    return f"Verdicts on {len(decided)} comparisons with {beside}: {', '.join(many)}.{which}"
