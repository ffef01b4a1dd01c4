"""``fgl-table`` in a folder of its own."""

from __future__ import annotations

from pathlib import Path

from fgl_repro.cli import table


def call(folder: Path, *words: str) -> int:
    """Status of a command whose records, results and tables lie in ``folder``."""
    for name in ("records", "results") if words[0] != "run" else ("results",):  # what is read must be there
        (folder / name).mkdir(exist_ok=True)
    places = ["--records", str(folder / "records"), "--results", str(folder / "results")]
    writes = words[0] in ("run", "compare", "report")
    return table.main([*words, *places, *(["--out", str(folder / "tables")] if writes else [])])
