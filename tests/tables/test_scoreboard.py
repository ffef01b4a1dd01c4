"""The page of causes, the list of findings, and on what the scoreboard says that runs were made."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fgl_repro.tables import causes, scoreboard
from fgl_repro.tables.contents import with_contents
from fgl_repro.tables.published import PublishedPaper


def test_causes_are_listed_by_verdict_with_what_they_are_worth() -> None:
    text = """# Made

## Part

### A claim: `x`, K = 3

**Verdict: found.** **Gap to print: 9.0 to 1.5 points.** And so on.

### Another claim

**Verdict: found.** It has no gap.

## Next part

### A third

**Verdict: ruled out.** **Gap to print: 2.0 to 2.5 points.**
"""
    first, second = [line.split(" | ") for line in causes.page({"fedpub": text}).splitlines()[-2:]]
    assert [" ".join(word.split()).strip("| ") for word in first] == [
        "found",
        "FED-PUB",
        "[A claim: `x`, K = 3](fedpub/FINDINGS.md#a-claim-x-k--3)",
        "9.0 to 1.5 points",
    ]
    assert "[A third](fedpub/FINDINGS.md#a-third)" in second[2]
    assert "2.0 to 2.5 points" in second[3]
    assert causes.counted({"fedpub": text, "fedlog": text}) == "2 found, 2 ruled out"
    page = with_contents(text)
    assert (
        page.replace(
            """**Verdicts.**

Part:

- found: [A claim: `x`, K = 3](#a-claim-x-k--3)
- found: [Another claim](#another-claim)

Next part:

- ruled out: [A third](#a-third)

## Part""",
            "## Part",
        )
        == text
    )
    assert with_contents("# Made\n\nNo finding.\n") == "# Made\n\nNo finding.\n"


def test_runs_are_counted_by_what_they_were_made_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(torch: str, threads: int, on_gpu: bool) -> SimpleNamespace:
        return SimpleNamespace(versions={"torch": torch}, threads=threads, on_gpu=on_gpu)

    usual, threads, gpu = run("2.13.0+cpu", 1, False), run("2.11.0", 2, False), run("2.11.0", 1, True)
    made = PublishedPaper(tmp_path)
    monkeypatch.setattr(made, "records", dict(enumerate([usual, gpu, usual, threads, gpu, usual])), raising=False)
    told = "3 on a CPU (torch 2.13.0, 1 thread), 2 on a GPU (torch 2.11.0), 1 on a CPU (torch 2.11.0, 2 threads)"
    assert scoreboard.machines({"a": made}) == f"6 runs: {told}"
    monkeypatch.setattr(scoreboard, "board", lambda every: "the board")
    text = scoreboard.fill("{scoreboard}: {machines}; {causes}", {"a": made}, {})
    assert text == f"the board: 6 runs: {told}; "


@pytest.mark.parametrize(("seeds", "listed"), [("1100", False), ("1110", True), ("0000", False)])
def test_a_table_is_on_the_board_once_more_than_half_of_its_printed_cells_have_run(seeds: str, listed: bool) -> None:
    """Cells beside which nothing is printed count on neither side."""
    cells = [{"protocol": "fedlog", "table": "1", "paper_mean": "0.8", "n_seeds": n} for n in seeds]
    cells += [{**cells[0], "paper_mean": "", "n_seeds": n} for n in ("0", "0", "3")]
    every: dict[str, Any] = {"fedlog": SimpleNamespace(cells=cells)}
    found = [(paper, protocol, list(tables)) for paper, protocol, tables in scoreboard.scores(every)]
    assert found == ([("fedlog", "fedlog", ["1"])] if listed else [])
