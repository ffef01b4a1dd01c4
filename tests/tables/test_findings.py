"""The little language of the findings' templates, on a made-up paper of five cells and three runs."""

from __future__ import annotations

import csv
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fgl_repro.core.errors import UserError
from fgl_repro.tables import findings
from fgl_repro.tables.published import PublishedPaper

CELLS = [  # dataset, clients, method, printed, suspect, ours, std, old rule
    ("cora", "3", "fedavg", "0.80", "0", "0.81", "0.010", "agrees"),
    ("cora", "3", "fedpub", "0.90", "0", "0.85", "", "differs"),
    ("cora", "5", "fedavg", "0.70", "0", "0.72", "0.020", "agrees"),
    ("cora", "5", "fedpub", "0.10", "1", "0.71", "0.004", "suspect"),
    ("pubmed", "3", "fedpub", "", "0", "0.60", "0.000", "not printed"),
]

NOTE = """# A note

## Steps

| | printed | one | gap | three | gap |
|:---|:---|:---|---:|:---|---:|
| Cora, K = 3 | 80.0 | 79.0 | 1.0 | 80.5 | 0.5 |
| Cora, K = 10 | 80.0 | 76.0 | 4.0 | 80.5 | 0.5 |

## Words

None.
"""


class Made(PublishedPaper):
    """Published files whose packed runs are made up: three seeds at one learning rate, one at another."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        runs: Any = {f"key{seed}": _run(seed, 0.01, 0.5 + seed / 10) for seed in range(3)}
        self.records = runs | {"other": _run(0, 0.1, 0.2)}
        self.curves = {"key1": {"seen_graph": [0.1, 0.25]}}


def _run(seed: int, lr: float, accuracy: float) -> SimpleNamespace:
    config = {"method": {"name": "fedavg"}, "dataset": {"name": "cora"}, "protocol": {"lr": lr}, "seed": seed}
    best = {"metrics": {"seen_graph": {"best": {"accuracy": accuracy}}}, "facts": {"sent": [7, 9]}}
    return SimpleNamespace(config=config, protocol="p", as_json=lambda: best)


@pytest.fixture
def paper(tmp_path: Path) -> Made:
    (tmp_path / "p").mkdir()
    with open(tmp_path / "p" / "compare_1.csv", "w", newline="") as file:
        writer = csv.writer(file)
        head = "protocol table panel dataset clients method name paper_mean paper_std suspect best_mean best_std "
        head += "best_points best_old_rule counted best_verdict fitted printed_selection best_half"
        writer.writerow(head.split())
        for dataset, clients, method, printed, suspect, ours, std, old_rule in CELLS:
            points = f"{100 * (float(ours) - float(printed)):.2f}" if printed else ""
            verdict = {"agrees": "reproduced", "differs": "differs"}.get(old_rule, "no evidence")
            told = [
                "p",
                "1",
                "1",
                dataset,
                clients,
                method,
                method,
                printed,
                "",
                suspect,
                ours,
                std,
                points,
                old_rule,
                "1",
                verdict,
                "0",
                "best",
                "1",
            ]
            writer.writerow(told)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "made.md").write_text(NOTE)
    (tmp_path / "p" / "table_8.csv").write_text("class,gamma,std\n1,0.25,\n2,0.30,0.01\n")
    return Made(tmp_path)


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("{cell method=fedavg clients=3}", "81.0"),
        ("{cell method=fedavg clients=3,5 digits=2}", "81.00, 72.00"),
        ("{cell method=fedavg clients=3,5 list=range}", "72.0 to 81.0"),
        ("{cell method=fedavg clients=3,5 list=mean}", "76.5"),
        ("{cell method=fedavg clients=3 list=range}", "81.0"),
        ("{cell method=fedavg clients=3 spread=1}", "81.0 ± 1.0"),
        ("{cell method=fedpub dataset=cora clients=3 spread=1}", "85.0"),  # one seed has no spread
        ("{cell method=fedavg clients=3 panel=1,1}", "81.0 / 81.0"),
        ("{paper method=fedavg clients=3}", "80.0"),
        ("{paper method=fedpub dataset=cora clients=3,5}", "90.0, misprint"),
        ("{points method=fedavg clients=3}", "+1.0"),
        ("{agree method=fedavg,fedpub}", "2 of 3"),
        ("{reproduced panel=1}", "2 of 3"),
        ("{reproduced method=fedpub}", "0 of 1"),
        ("{gap dataset=cora}", "2.7"),
        ("{ahead method=fedpub}", "1 of 2"),
        ("{tau panel=1}", "+1.00"),
        ("{value file=table_8.csv class=1,2 show=gamma spread=1 digits=2}", "0.25, 0.30 ± 0.01"),
        ("{value file=table_8.csv class=2 show=gamma scale=100 digits=0}", "30"),
        ("{runs method=fedavg protocol.lr=0.01 spread=1}", "60.0 ± 8.2"),
        ("{runs method=fedavg protocol.lr=0.01,0.1 seed=0}", "50.0, 20.0"),
        ("{runs method=fedavg protocol.lr=0.01 seed=0+2}", "60.0"),
        ("{runs protocol.lr=0.1 protocol.batch= digits=0}", "20"),
        ("{runs protocol.lr=0.01 seed=1 curve=0,1}", "10.0, 25.0"),
        ("{runs protocol.lr=0.01 show=facts.sent.1 digits=0}", "9"),
        ("{noted note=made under=Steps show=one} to {noted note=made under=Steps show=three}", "2.5 to 0.5"),
        ('{noted note=made under=Steps show=one rows="Cora, K = 10"}', "4.0"),
        ("{set clients=5}\n{cell method=fedavg} {cell method=fedavg clients=3}", "72.0 81.0"),
        ("{each method=fedpub clients=3}\n{method} {cell dataset=pubmed}\n{end}\n", "FED-PUB 60.0\n"),
        ("{each clients=3,5}\n{clients}: {paper method=fedavg}\n{end}\nend", "3: 80.0\n5: 70.0\nend"),
        ("{each dataset=pubmed clients=3}\n{dataset} {cell method=fedpub}\n{end}\n", "PubMed 60.0\n"),
    ],
)
def test_placeholders_become_numbers(paper: Made, text: str, becomes: str) -> None:
    assert findings.fill(text, paper, "", {"protocol": "p"}) == becomes


@pytest.mark.parametrize(
    ("placeholder", "says"),
    [
        ("{cell method=fedavg clients=3 colour=red}", "there is no column colour"),
        ("{cell method=fedavg}", "2 lines match"),
        ("{cell method=fedpup clients=3}", "0 lines match"),
        ("{paper method=fedpub dataset=pubmed}", "could not convert"),
        ("{agree method=fedpup}", "no cell that counts"),
        ("{reproduced dataset=pubmed}", "no cell with evidence"),
        ("{runs method=fedavg}", "the 4 packed runs that match differ in protocol.lr"),
        ("{runs method=fedprox}", "no packed run"),
        ("{runs protocol.lr=0.1 probe=new_client}", "new_client"),
        ("{value file=table_99.csv show=x}", "there is no file p/table_99.csv"),
        ("{value file=table_8.csv class=1}", "show"),
        ("{noted note=made under=Words show=one}", "no table stands there"),
        ("{noted note=none under=Steps show=one}", "no table stands there"),
        ("{noted note=made under=Steps show=printed}", "no gap stands there"),
        ("{noted note=made under=Steps show=one rows=PubMed}", "no gap stands there"),
        ("{noted note=made under=Steps show=two}", "not in list"),
        ("{noted note=made under=Steps show=one colour=red}", "noted takes no colour"),
        ("{best method=fedpub}", "best is none of"),
        ("{cell fedpub}", "cannot be filled"),
        ("{each clients=3}", "no line {end} follows"),
    ],
)
def test_errors_name_file_and_placeholder(paper: Made, placeholder: str, says: str) -> None:
    with pytest.raises(UserError) as error:
        findings.fill(f"A claim: {placeholder}.", paper, "made/findings.md.in", {"protocol": "p"})
    assert str(error.value).startswith(f"made/findings.md.in: {placeholder} cannot be filled: ")
    assert says in str(error.value)


@pytest.mark.parametrize(("other", "said"), [("0.79", "1 of 1"), ("0.80", "0 of 1"), ("0.81", "0 of 1")])
def test_a_row_is_not_ahead_of_its_equal(other: str, said: str) -> None:
    place = {"protocol": "p", "panel": "1", "dataset": "cora", "clients": "3"}
    cells = [place | {"method": name, "best_mean": mean} for name, mean in (("mine", "0.80"), ("theirs", other))]
    published: Any = SimpleNamespace(cells=cells)
    assert findings.fill("{ahead method=mine}", published, "a page", {}) == said


def test_only_pages_that_say_something_else_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    same, other, new = (tmp_path / name for name in ("same.md", "other.md", "new.md"))
    same.write_text("as before")
    other.write_text("as before")
    before = same.stat().st_ino
    monkeypatch.setattr(findings, "pages", lambda _: {same: "as before", other: "changed", new: "new"})
    assert findings.write_all(tmp_path) == [other, new]
    assert (same.read_text(), other.read_text(), new.read_text()) == ("as before", "changed", "new")
    assert same.stat().st_ino == before, "another file would have taken its place"
