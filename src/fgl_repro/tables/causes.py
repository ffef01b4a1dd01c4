"""The page ``results/CAUSES.md``: findings that say by how much a cause moves the gap to print."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from fgl_repro.tables.contents import Finding, findings_of
from fgl_repro.tables.load import papers
from fgl_repro.tables.printing import grid_text

HEAD = """# What supposed causes are worth

Each line is a possible cause of a gap between our numbers and the printed ones. The gap is the mean absolute difference
to print over the cells that the cause concerns, in percentage points, first without it and then with it. A cause leads
to its finding, which says what was run and how to see it; what the verdicts mean: `docs/verdicts.md`.
"""


def page(texts: Mapping[str, str]) -> str:
    """Write the page.

    Args:
        texts: The text of each paper's findings.
    """
    rows = [
        [finding.verdict, papers()[paper], f"[{finding.title}]({paper}/FINDINGS.md#{finding.anchor})", finding.worth]
        for paper, finding in sorted(_causes(texts), key=lambda pair: pair[1].verdict)
    ]
    return HEAD + "\n" + grid_text(["verdict", "paper", "cause", "gap to print"], rows, numbers_from=4) + "\n"


def counted(texts: Mapping[str, str]) -> str:
    """Count them by verdict: ``10 found, 5 ruled out, 7 undecided``."""
    verdicts = Counter(finding.verdict for _, finding in _causes(texts))
    return ", ".join(f"{number} {verdict}" for verdict, number in sorted(verdicts.items()))


def _causes(texts: Mapping[str, str]) -> Iterator[tuple[str, Finding]]:
    """Yield each paper's findings that tell a gap."""
    for paper, text in texts.items():
        for finding in findings_of(text):
            if finding.worth:
                yield paper, finding
