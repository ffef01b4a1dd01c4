"""Tables in LaTeX: their shape, what is marked, and which test the stars are from."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fgl_repro.cli import table as cli
from fgl_repro.runs.store import Archive, RecordStore
from fgl_repro.tables import latex
from fgl_repro.tables.added import with_rows
from fgl_repro.tables.load import load
from fgl_repro.tables.spec import TableSpec
from support import helpers

METHODS = ["local", "fedavg", "fedpub"]
SPREAD = (-0.02, -0.01, 0.0, 0.01, 0.02)


def made_up(folder: Path, spec: TableSpec, protocol: str, means: dict[str, float], metric: str = "") -> Archive:
    """Runs of all seeds; FED-PUB's differ from the others' by noise of its own."""
    store, drawn = RecordStore(folder), np.random.default_rng(0).normal(0, 0.002, len(spec.seeds))
    noise = dict(zip(spec.seeds, drawn, strict=True))
    for cell in spec.cells():
        for seed, aside in zip(spec.seeds, SPREAD, strict=False):
            if (mean := means.get(cell.row.method)) is not None:
                own = mean + aside + (noise[seed] if cell.row.method == "fedpub" else 0)
                store.save(helpers.record(spec.config(cell, protocol, seed), best=own, last=own, metric=metric or None))
    return Archive(store, {})


def check_shape(text: str) -> None:
    """Braces and environments close, and all lines of a tabular have its columns."""
    bare = re.sub(r"\\[{}%&_$#]", "", text)
    assert bare.count("{") == bare.count("}")
    for part in ("table*", "tabular"):
        assert text.count(f"\\begin{{{part}}}") == text.count(f"\\end{{{part}}}") > 0
    assert bare.count("$") % 2 == 0
    for columns, body in re.findall(r"\\begin\{tabular\}\{(l(?:c+))\}\n(.*?)\\end\{tabular\}", bare, flags=re.S):
        lines = [line for line in body.splitlines() if line.endswith(r"\\")]
        assert len(lines) > 1
        for line in lines:
            spans = [int(n) for n in re.findall(r"\\multicolumn\{(\d+)\}", line)]
            assert line.count("&") + 1 + sum(n - 1 for n in spans) == len(columns), line


def test_best_second_best_and_star(tmp_path: Path) -> None:
    spec = load("fedlog/1").under("fedlog_splits").narrow(["cora"], [3, 5], METHODS)
    archive = made_up(tmp_path, spec, "fedlog_splits", {"local": 0.5, "fedavg": 0.7, "fedpub": 0.72})
    text = latex.text(spec, "fedlog_splits", archive, printed=True)
    check_shape(text)
    assert text.startswith("% needs \\usepackage{booktabs,graphicx}\n")
    lines = {line.partition(" & ")[0]: line for line in text.splitlines() if " & " in line}
    first = r"& \\textbf\{72\.\d\d\}\$\^\{\*\}\$ \{\\scriptsize \$\\pm\$ 1\.\d\d\} &"
    assert re.search(first, lines["FED-PUB (release)"])
    assert r"\underline{70.00} {\scriptsize $\pm$ 1.58}" in lines["FedAvg"]
    assert "& 50.00 {" in lines["Local"]
    assert r"{\scriptsize 84.16 $\pm$ 0.44}" in text
    assert (
        "paired t-test over splits (two-sided, false discovery rate 5\\% over the 2 columns tested of the whole" in text
    )
    assert "over 5 splits and seeds, best validation round, protocol fedlog\\_splits." in text


def test_which_columns_are_asked_for_moves_no_star(tmp_path: Path) -> None:
    spec = load("fedlog/1").under("fedlog_splits").narrow(methods=METHODS)
    part = spec.narrow(["cora"], [3])
    made_up(tmp_path, spec, "fedlog_splits", {"fedavg": 0.7, "fedpub": 0.7})
    archive = made_up(tmp_path, part, "fedlog_splits", {"fedavg": 0.7, "fedpub": 0.7011})
    alone = latex.text(replace(part, whole=None), "fedlog_splits", archive)
    assert r"\textbf{70.12}$^{*}$" in alone, "by itself it has a star"
    assert "the one column tested)" in alone
    text = latex.text(part, "fedlog_splits", archive)
    assert r"\textbf{70.12} {" in text
    assert r"\textbf{70.12} {" in latex.text(spec, "fedlog_splits", archive)
    assert f"over the {len(spec.places)} columns tested of the whole table)" in text


def test_caption_and_label_say_which_part_it_is(tmp_path: Path) -> None:
    spec = load("fedlog/1").under("fedlog").narrow(["cora"], [5], METHODS)
    text = latex.text(spec, "fedlog", Archive(RecordStore(tmp_path), {}))
    assert r"\caption{FedLoG, Table 1: Seen graph accuracy. 5 clients. Accuracy in percent, mean" in text
    assert r"\label{tab:fedlog-1-seen-graph-fedlog-cora-5}" in text
    both = latex.text(load("opfgl/1").under("opfgl"), "opfgl", Archive(RecordStore(tmp_path), {}))
    assert "Accuracy in percent" in both.partition("Macro-F1 in percent")[0]
    assert "Macro-F1 in percent" in both


def test_few_runs_give_no_star_and_say_how_many(tmp_path: Path) -> None:
    spec = with_rows(load("fedlog/2"), ["fedgta"]).narrow(["cora"], [3], [*METHODS, "fedgta"])
    archive = made_up(tmp_path, spec, "fedlog", {"local": 0.5, "fedavg": 0.7})
    text = latex.text(spec.narrow(seeds=[0, 1, 2]), "fedlog", archive)
    check_shape(text)
    assert text.count(r"\begin{table*}") == 3
    assert "No stars: a paired test wants 5 seeds" in text
    assert "in print" not in text
    assert r"FedGTA & -- \\" in text
    assert text.count("\\midrule\nFedGTA") == 3
    assert "--: no number." in text
    store = RecordStore(tmp_path)
    cell = next(cell for cell in spec.cells() if cell.row.method == "fedgta")
    store.save(helpers.record(spec.config(cell, "fedlog", 0), best=0.9))
    text = latex.text(spec, "fedlog", Archive(store, {}))
    assert r"FedGTA & \textbf{90.00}$^{(1)}$ \\" in text
    assert "of fewer seeds, so many" in text


def test_of_errors_the_least_is_best_and_panels_may_run_across(tmp_path: Path) -> None:
    spec = load("fedvn/1_zinc")
    rows = [spec.rows[0].id, spec.rows[1].id]
    spec = spec.under("fedvn").narrow(methods=rows)
    archive = made_up(tmp_path, spec, "fedvn", {spec.rows[0].method: 0.5, spec.rows[1].method: 0.4}, metric="mae")
    text = latex.text(spec, "fedvn", archive, printed=True)
    check_shape(text)
    assert r"\textbf{0.4" in text
    assert r"\underline{0.5" in text
    assert "$\\dagger$" in text, "test rows chose the round"


def test_ties_share_the_mark_and_are_not_tested(tmp_path: Path) -> None:
    spec = load("fedlog/1").under("fedlog_splits").narrow(["cora"], [3], ["local", "fedavg"])
    archive = made_up(tmp_path, spec, "fedlog_splits", {"local": 0.7, "fedavg": 0.7})
    text = latex.text(spec, "fedlog_splits", archive)
    assert text.count(r"\textbf{70.00}") == 2
    assert r"\underline{70" not in text
    assert "No stars" in text


def test_a_gap_that_never_varies_is_not_tested(tmp_path: Path) -> None:
    spec = load("fedlog/1").under("fedlog_splits").narrow(["cora"], [3], ["local", "fedavg"])
    archive = made_up(tmp_path, spec, "fedlog_splits", {"local": 0.5, "fedavg": 0.7})
    text = latex.text(spec, "fedlog_splits", archive)
    assert r"\textbf{70.00} {" in text
    assert "No stars: a paired test wants 5 splits" in text
    assert "tested" not in text


def test_words_are_no_commands() -> None:
    assert latex.escaped("50 % of $x_1 & {y}~\\z †") == (
        r"50 \% of \$x\_1 \& \{y\}\textasciitilde{}\textbackslash{}z $\dagger$"
    )


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    corner = ("--datasets", "cora", "--clients", "3", "--methods", "local", "--add", "fedgta", "--print")
    assert cli.main(["latex", "fedlog/1", *corner]) == 0
    out = capsys.readouterr().out
    check_shape(out)
    assert "FedGTA & --" in out
    assert cli.main(["latex", "fedlog/3", "--datasets", "cora"]) == 0
    check_shape(across := capsys.readouterr().out)
    assert "multicolumn" not in across, "panels run across"
    assert cli.main(["latex", "fedlog/5"]) == 2
    assert "fedlog/5 is no grid of accuracies" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
