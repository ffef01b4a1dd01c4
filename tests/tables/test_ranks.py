"""Average ranks over columns and splits, on made-up accuracies."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import friedmanchisquare, studentized_range

from fgl_repro.runs.store import Archive, RecordStore
from fgl_repro.tables import artifact
from fgl_repro.tables.kinds import ranks
from fgl_repro.tables.load import load
from fgl_repro.tables.verdict import LEVEL

COLUMNS, SPLITS = ("Cora 3", "Cora 5", "PubMed 3"), (1, 2, 3)


def made_up(**level: float) -> pd.DataFrame:
    """Accuracies at these levels; on split 3 the first two methods change places."""
    first, second, *_ = level
    swapped = level | {first: level[second], second: level[first]}
    cells = product(level, COLUMNS, SPLITS)
    lines = [(row, column, seed, (swapped if seed == 3 else level)[row]) for row, column, seed in cells]
    return pd.DataFrame(lines, columns=["row", "column", "seed", "value"])


def test_ranks_spread_over_splits() -> None:
    found = ranks.ranked(made_up(good=0.8, fair=0.7, poor=0.2), 3)
    assert found is not None
    assert found.mean.to_dict() == {"good": 1, "fair": 2, "poor": 3}, "of means over splits, which are tested"
    assert found.std["good"] == pytest.approx(np.std([1, 1, 2], ddof=1))
    assert found.std["poor"] == 0
    assert (found.columns, found.splits) == (COLUMNS, 3)
    assert found.friedman == pytest.approx(1 / 36, abs=0.004), (
        "two more columns ordered as the first, of six orders each"
    )
    assert found.nemenyi["good"]["poor"] < found.nemenyi["good"]["fair"] < 1


def test_permuted_columns_are_friedmans_test_where_that_is_exact() -> None:
    """With many columns the statistic has the chi-square distribution; where all are tied nothing is told."""
    rng = np.random.default_rng(3)
    for shift in (0.0, 0.25, 0.5):
        values = rng.normal(size=(40, 4)) + shift * np.arange(4)
        p = float(friedmanchisquare(*values.T).pvalue)
        assert ranks.friedman(pd.DataFrame(values).rank(axis=1).to_numpy()) == pytest.approx(p, rel=0.1, abs=0.01)
    assert ranks.friedman(np.full((3, 4), 2.5)) == 1


@pytest.mark.parametrize(("columns", "methods", "nobody"), [(2, 12, True), (3, 12, False), (2, 3, True), (9, 3, False)])
def test_few_columns_can_tell_nobody_apart(columns: int, methods: int, nobody: bool) -> None:
    """Not where the critical difference (Demšar, section 3.2.2) is wider than from the first rank to the last."""
    critical = studentized_range.ppf(1 - LEVEL, methods, np.inf) * (methods * (methods + 1) / (12 * columns)) ** 0.5
    assert ranks.tells_nobody_apart(columns, methods) == (critical >= methods - 1) == nobody


def test_splits_do_not_make_columns_of_which_there_are_more() -> None:
    """Whether methods differ is asked over columns: three copies of one split know no more than that one."""
    one = made_up(good=0.8, fair=0.7, poor=0.2).query("seed == 1")
    copies = pd.concat([one.assign(seed=seed) for seed in SPLITS])
    single, thrice = ranks.ranked(one, 1), ranks.ranked(copies, 3)
    assert single is not None
    assert thrice is not None
    assert thrice.friedman == pytest.approx(single.friedman)
    assert thrice.nemenyi.to_numpy() == pytest.approx(single.nemenyi.to_numpy())


def test_only_columns_count_in_which_every_method_has_every_split() -> None:
    values = made_up(good=0.8, fair=0.7, poor=0.2)
    lost = values[(values.row == "poor") & (values.column == "Cora 5") & (values.seed == 2)].index
    found = ranks.ranked(values.drop(lost), 3)
    assert found is not None
    assert found.columns == ("Cora 3", "PubMed 3")
    assert ranks.ranked(values[values.column == "Cora 3"], 3) is None
    assert ranks.ranked(values[values.row != "poor"], 3) is None


def test_ranks_in_print() -> None:
    """By hand from Table 1: FED-PUB is above FedAvg in both columns, FedLoG above both."""
    spec = load("fedlog/figranks").narrow(methods=["fedavg", "fedpub", "fedlog"])
    values = made_up(**{"FedLoG (release)": 0.9, "FED-PUB (release)": 0.8, "FedAvg": 0.7}).replace("Cora 3", "PubMed 5")
    found = ranks.ranked(values.replace({"Cora 5": "Cora, 5 clients", "PubMed 3": "PubMed, 3 clients"}), 3)
    assert found is not None
    paper = ranks.printed_ranks(spec, spec.panels[0], found)
    assert paper == {"FedAvg": 3.0, "FED-PUB (release)": 2.0, "FedLoG (release)": 1.0}


def test_a_rows_p_value_is_that_of_being_as_good_as_the_papers_own_method() -> None:
    spec = load("fedlog/figranks").narrow(methods=["fedavg", "fedpub", "fedlog"])
    found = ranks.ranked(made_up(**{"FedAvg": 0.9, "FED-PUB (release)": 0.8, "FedLoG (release)": 0.2}), 3)
    assert found is not None
    lines = [ranks._line(spec, spec.protocols[0], spec.panels[0], row, found) for row in spec.rows]
    said = {line["label"]: line["p_as_proposed"] for line in lines}
    assert said["FedLoG (release)"] == ""
    for label in ("FedAvg", "FED-PUB (release)"):
        assert float(said[label]) == pytest.approx(found.nemenyi[label]["FedLoG (release)"], abs=1e-4)


@pytest.mark.parametrize("name", ["fedlog/figranks", "fedlog/figranks9", "fedpub/figranks", "fedpub/figranks2"])
def test_nothing_is_drawn_before_anything_ran_and_a_line_says_why(name: str) -> None:
    spec = load(name)
    made = artifact.make(spec.under(spec.protocols[0]), spec.protocols[0], Archive(RecordStore("no"), {}))
    assert not made.has_numbers
    assert made.content.draw is None
    assert made.page.count(ranks.NOT_YET) == len(spec.panels)


DRAW = """
import sys
from pathlib import Path
import pandas as pd
from fgl_repro.tables.figures import charts
from fgl_repro.tables.kinds import ranks
from fgl_repro.tables.load import load

found = ranks.ranked(pd.read_csv(sys.argv[1]), 3)
panels = [(panel, found) for panel in load("fedlog/figranks").panels[:2]]
charts.save(lambda figure: ranks.draw(figure, panels), "Ranks", Path(sys.argv[2]), "figure", ("png", "svg"))
"""


def test_diagrams_repeat_to_the_byte_whatever_order_sets_have(tmp_path: Path) -> None:
    """Bars join methods of middling accuracy, which a set of their names hands out in an order of the process."""
    level = {name: 0.8 - 0.01 * number for number, name in enumerate(("good", "fair", "poor", "worse", "worst"))}
    made_up(**level).to_csv(tmp_path / "made_up.csv", index=False)
    for seed in ("1", "2"):
        command = [sys.executable, "-c", DRAW, str(tmp_path / "made_up.csv"), str(tmp_path / seed)]
        subprocess.run(command, check=True, env=os.environ | {"PYTHONHASHSEED": seed})
    for kind in ("png", "svg"):
        assert (tmp_path / "1" / f"figure.{kind}").read_bytes() == (tmp_path / "2" / f"figure.{kind}").read_bytes()
    assert "good" in (tmp_path / "1" / "figure.svg").read_text()
