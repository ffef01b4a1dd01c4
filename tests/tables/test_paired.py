"""One row against every other: the test, what it is made on, and how it is told."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fgl_repro.cli import table as cli
from fgl_repro.core.errors import UserError
from fgl_repro.runs import packed
from fgl_repro.runs.store import Archive, RecordStore
from fgl_repro.tables import findings, paired
from fgl_repro.tables.added import with_rows
from fgl_repro.tables.load import load
from fgl_repro.tables.published import PublishedPaper
from fgl_repro.tables.request import Request
from fgl_repro.tables.spec import TableSpec
from support import helpers

NOISE = (0.1, -0.1, 0.05, 0.0, -0.05, 0.02)
AHEAD = (0.03, 0.02, 0.04, 0.01, 0.03, 0.02)


def recorded(folder: Path, spec: TableSpec, protocol: str, means: dict[str, float], metric: str = "") -> Archive:
    """Runs of all seeds, of every method named: noise that a seed's runs share, and a little of FED-PUB's own."""
    store = RecordStore(folder)
    for cell in spec.cells():
        for number, seed in enumerate(spec.seeds):
            if (mean := means.get(cell.row.id)) is not None:
                own = mean + NOISE[number] + AHEAD[number] * cell.row.id.startswith("fedpub")
                store.save(helpers.record(spec.config(cell, protocol, seed), best=own, last=own, metric=metric or None))
    return Archive(store, {})


def test_the_paired_test() -> None:
    seeds = range(6)
    lines = [("a", s, 0.7 + NOISE[s] + AHEAD[s]) for s in seeds] + [("b", s, 0.7 + NOISE[s]) for s in seeds]
    runs = pd.DataFrame(lines, columns=["row", "seed", "value"])
    std = np.std(AHEAD, ddof=1)
    from scipy.stats import t as student

    found = paired.gap(runs, "a", "b")
    assert found is not None
    assert [found.mean, found.std, found.seeds] == pytest.approx([np.mean(AHEAD), std, 6])
    assert found.p == pytest.approx(2 * student.sf(np.mean(AHEAD) / (std / 6**0.5), 5))
    other = paired.gap(runs, "b", "a")
    assert other is not None
    assert [other.mean, other.p] == pytest.approx([-found.mean, found.p])


def test_too_few_seeds_and_gaps_that_never_vary_have_no_p_value() -> None:
    seeds = range(6)
    runs = pd.DataFrame(
        [(row, s, 0.7 + NOISE[s] + AHEAD[s] * (row == "a")) for row in "ab" for s in seeds],
        columns=["row", "seed", "value"],
    )

    def p(of: pd.DataFrame) -> float | None:
        found = paired.gap(of, "a", "b")
        assert found is not None
        return found.p

    assert p(runs[runs.seed < 4]) is None
    assert p(runs[(runs.row == "a") | (runs.seed > 1)]) is None, "four seeds are shared"
    assert paired.gap(runs, "a", "c") is None
    assert paired.gap(runs[(runs.row == "a") == (runs.seed < 3)], "a", "b") is None, "no seed is shared"
    assert p(runs.assign(value=0.5)) == 1.0
    assert p(runs.assign(value=runs.seed / 10 + 0.02 * (runs.row == "a"))) is None
    one = paired.gap(runs[runs.seed == 0], "a", "b")
    assert one is not None
    assert (one.std, one.seeds) == (None, 1)


def test_a_row_against_the_others(tmp_path: Path) -> None:
    spec = (
        load("fedlog/1")
        .under("fedlog_splits")
        .narrow(["cora"], [3], ["local", "fedavg", "fedpub-release", "fedlog-release"])
    )
    archive = recorded(tmp_path, spec, "fedlog_splits", {"local": 0.5, "fedavg": 0.7, "fedpub-release": 0.7})
    found = paired.compared(Request(spec, spec, "fedlog_splits"), "fedpub", archive)
    assert found.row.id == "fedpub-release"
    assert found.tested == 2
    lines = list(csv.DictReader(io.StringIO(paired.csv_of(found))))
    told = {line["against"]: line for line in lines}
    assert float(told["local"]["gap"]) == pytest.approx(0.2 + np.mean(AHEAD[:5]), abs=1e-6)
    assert told["local"]["told"] == told["fedavg"]["told"] == "1"
    assert told["local"]["n_seeds"] == "5"
    assert told["local"]["unit"] == "fraction"
    text = paired.page(found)
    assert "FED-PUB (release) minus each other row: above zero it is better" in text
    assert "| FedAvg" in text
    assert "+2.60 ± 1.14, p = 0.007 *" in text
    assert "the 2 gaps tested" in text
    assert "told ahead" not in text, "of a single column nothing is counted"
    wide = load("fedlog/1").under("fedlog_splits").narrow(["cora"], [3, 5], ["local", "fedpub"])
    text = paired.page(paired.compared(Request(wide, wide, "fedlog_splits"), "local", archive))
    assert re.search(r"FED-PUB \(release\) \| +1 of 2 \| +0 \| +1 \|", text)


def test_findings_say_what_is_told_of_packed_runs(tmp_path: Path) -> None:
    """Of the whole table, so that a finding and the command cannot differ."""
    store, spec = RecordStore(tmp_path / "records"), load("fedlog/1").under("fedlog_splits").narrow(["cora"], [3])
    means = {"local": 0.5, "fedavg": 0.7, "fedpub-release": 0.7, "fedlog-release": 0.6, "fedlog-paper": 0.6}
    recorded(store.folder, spec, "fedlog_splits", means)
    packed.pack(store.all(), tmp_path / "fedlog" / "runs.csv")
    paper = PublishedPaper(tmp_path / "fedlog")

    def filled(said: str) -> str:
        text = f"{{told table=1 row=fedpub-release {said}}}"
        return findings.fill(text, paper, "it", {"protocol": "fedlog_splits"})

    assert filled("way=ahead") == "4 of 4"
    assert filled("way=ahead list=rows") == "Local, FedAvg, FedLoG (release) and FedLoG (paper)"
    assert filled("way=ahead against=fedavg,local list=rows") == "Local and FedAvg"
    assert (filled("way=behind"), filled("way=behind list=rows")) == ("0 of 4", "none")
    swapped = "{told table=1 row=local protocol=fedlog_splits way=behind list=rows}"
    assert findings.fill(swapped, paper, "it", {}) == "FED-PUB", "other gaps never vary"
    lead = "{lead table=1 row=fedpub-release protocol=fedlog_splits clients=3 dataset=cora"
    assert findings.fill(f"{lead} against=fedavg,local spread=1}}", paper, "it", {}) == "+2.6 ± 1.1, +22.6 ± 1.1"
    with pytest.raises(UserError, match="cannot be filled: 0 lines match, not one"):
        findings.fill(f"{lead} against=fedntd}}", paper, "it", {})
    with pytest.raises(UserError, match="cannot be filled: it does not say protocol"):
        findings.fill("{lead table=1 against=fedntd}", paper, "it", {})
    for said, why in {
        "way=above": "way=above is none of ahead, behind, not",
        "way=not against=fedavg,nobody": "against=nobody is none of local, fedavg, ",
        "way=not dataset=pubmed": "no gap that matches is tested",
        "way=not colour=red": "there is no column colour",
        "row=nobody": "way= is none of ahead, behind, not",
        "way=not list=all": "told takes no form but list=rows",
        "way=not digits=1": "told takes no form but list=rows",
        "way=not rows": "rows is no name=value",
        "row=nobody way=not": "fedlog/1 has no rows nobody: choose by --row from ",
    }.items():
        with pytest.raises(UserError, match=f"^it: .* cannot be filled: {why}"):
            filled(said)


def test_a_gap_that_alone_would_be_told_is_not_among_many(tmp_path: Path) -> None:
    spec, store = load("fedvn/1_sst2"), RecordStore(tmp_path)
    for cell in spec.cells():
        ahead = 0.0205 if cell.row.id == "fedavg-release" else 0.0
        for seed, step in zip(spec.seeds, (-0.02, 0.01, 0.0, -0.01, 0.02), strict=True):
            value = 0.8 if cell.row.id == "fedvn-release" else 0.8 - ahead - step
            store.save(helpers.record(spec.config(cell, "fedvn", seed), best=value, last=value))
    whole, alone = spec, spec.narrow(methods=["fedavg"])
    for part in (whole, alone):
        found = paired.compared(Request(spec, part, "fedvn"), "fedvn-release", Archive(store, {}))
        line = next(line for line in found.lines if line.cell.row.id == "fedavg-release")
        assert line.gap is not None
        assert line.gap.p == pytest.approx(0.044, abs=1e-3)
        assert not line.differs, "also where it is asked for alone: narrowing chooses no test"
        assert (len(found.lines), found.tested) == (len(part.rows) - (part is whole), len(whole.rows) - 1)


def test_of_errors_the_smaller_is_ahead(tmp_path: Path) -> None:
    spec = load("fedvn/1_zinc").under("fedvn")
    first, second = spec.rows[:2]
    spec = spec.narrow(methods=[first.id, second.id])
    archive = recorded(tmp_path, spec, "fedvn", {first.id: 0.4, second.id: 0.5}, metric="mae")
    found = paired.compared(Request(spec, spec, "fedvn"), first.id, archive)
    assert found.lines[0].gap is not None
    assert found.lines[0].gap.mean == pytest.approx(0.1)
    assert "of errors the other way round" in paired.page(found)
    assert "+0.1000 ± 0.0000 [5 seeds]" in paired.page(found), "one gap throughout"
    assert "best test round †" in paired.page(found)


def test_which_row_is_meant() -> None:
    spec = load("fedlog/1")
    assert paired.row_named(spec, "").name == "FedLoG"
    assert paired.row_named(with_rows(spec, ["fedgta"]), "").id == "fedgta"
    assert paired.row_named(spec, "local").id == "local"
    with pytest.raises(UserError, match="has no rows nobody: choose by --row from"):
        paired.row_named(spec, "nobody")
    with pytest.raises(UserError, match="has 2 rows fedlog: choose by --row from fedlog-release, fedlog-paper"):
        paired.row_named(spec, "fedlog")


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    corner = ("--datasets", "cora", "--clients", "3", "--methods", "local,fedavg", "--row", "fedlog-release")
    assert cli.main(["test", "fedlog/1", *corner]) == 0
    why = "No gap could be tested: a test wants 5 seeds that both rows have, with gaps that vary"
    assert f"{why}, and this protocol has 3 (fedlog_splits has 5)." in capsys.readouterr().out
    assert cli.main(["test", "fedlog/1", *corner, "--protocol", "fedlog_splits"]) == 0
    assert f"{why}.\n" in capsys.readouterr().out, "seeds are enough, and none ran"
    assert cli.main(["test", "fedlog/1", *corner, "--csv"]) == 0
    lines = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert {(line["row"], line["n_seeds"], line["told"]) for line in lines} == {("fedlog-release", "0", "0")}
    assert cli.main(["test", "fedlog/5"]) == 2
    assert "no grid of accuracies" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
