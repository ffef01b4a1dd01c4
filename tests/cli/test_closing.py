"""What a sweep of ``fgl-train -m`` says at its end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fgl_repro.cli import screen
from fgl_repro.cli.closing import closing
from fgl_repro.cli.jobs import TrainJob
from support import fake_train, helpers


def done(number: int, words: str = "", fresh: bool = True, **choices: Any) -> TrainJob:
    """A job that came to a record."""
    config = helpers.config(**choices)
    record = helpers.record(config, best=0.8 + number / 100)
    return TrainJob(words.split(), number, True, config, record, fresh)


def cells(line: str) -> list[str]:
    """What stands between the lines of a table's row."""
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_sweep_ends_with_a_table_of_its_jobs(tmp_path: Path) -> None:
    words = ("-m", "method=local", "seed=0,1", "logger=disabled")
    assert fake_train.call(tmp_path, *words).returncode == 0
    words = ("-m", "method=local", "seed=0,1,2", "protocol.lr=0.01,0.3", "logger=disabled")
    told = fake_train.call(tmp_path, *words, FAKE_DIVERGES="0.3")
    assert told.returncode == 2
    lines = told.stdout.splitlines()
    at = lines.index("all jobs: local-paper cora K=3 published seen_graph fedlog")
    assert lines[at + 1 : at + 3] == ["numbers: seen_graph, accuracy, %", ""]
    assert cells(lines[at + 3]) == ["job", "run", "status", "best round", "last round"]
    rows = [cells(line) for line in lines[at + 5 : -1]]
    assert [row[0] for row in rows] == ["0", "1", "2", "3", "4", "5"]
    assert rows[:2] == [
        ["0", "protocol.lr=0.01 seed=0", "found", "50.00", "70.00"],
        ["1", "protocol.lr=0.3 seed=0", "failed", "", ""],
    ]
    assert lines[-1] == "6 jobs: 1 done, 2 found, 3 failed."


def test_of_one_job_its_own_lines_say_all(tmp_path: Path) -> None:
    told = fake_train.call(tmp_path, "-m", "method=local", "logger=disabled", "seed=0")
    assert told.returncode == 0
    assert "jobs:" not in told.stdout


def test_jobs_stand_in_the_order_of_their_numbers() -> None:
    """One that was waited for has ended last."""
    text = closing([done(1, seed=1), done(0, fresh=False, seed=0)])
    assert [cells(line)[:3] for line in text.splitlines()[-3:-1]] == [["0", "seed=0", "found"], ["1", "seed=1", "done"]]


def test_jobs_that_ask_for_several_probes_name_each() -> None:
    text = closing([done(0), done(1, setting="unseen_node"), TrainJob(["seed=-1"], 2, True)])
    assert "numbers:" not in text
    assert [cells(line) for line in text.splitlines()[-4:-1]] == [
        ["0", "seen_graph", "done", "seen_graph, accuracy, %", "80.00", "70.00"],
        ["1", "unseen_node", "done", "unseen_node, accuracy, %", "81.00", "70.00"],
        ["2", "seed=-1", "failed", "", "", ""],
    ]


def test_a_round_that_test_rows_chose_is_marked() -> None:
    graphs = {"dataset": "motif_basis", "partitioner": "environment", "setting": "plain", "protocol": "fedvn"}
    text = closing([done(seed, seed=seed, **graphs) for seed in (0, 1)])
    assert "| 80.00 † |" in " ".join(text.split())
    assert "\n† chosen by looking at test data, as the protocol asks\n2 jobs: 2 done." in text


def test_jobs_of_one_name_and_those_beside_refused_ones_keep_it() -> None:
    name = "fedavg-release cora K=3 published seen_graph fedlog seed=0"
    assert closing([done(0), done(1)]).count(f"| {name} |") == 2
    text = closing([done(0, "logger=disabled seed=0"), TrainJob(["logger=disabled", "seed=-1"], 1, True)])
    assert f"| {name} |" in text
    assert "| seed=-1 " in text
    assert "all jobs" not in text


def test_a_terminal_shows_what_tells_rows_apart() -> None:
    words = "protocol.rounds=30 method.variant=paper"
    table = screen.cut_to_width(closing([done(seed, words, method="fedpub", seed=seed) for seed in (0, 1)]), 80)
    assert [line.count("seed=0") for line in table.splitlines()].count(1) == 1
    assert max(map(len, [line for line in table.splitlines() if line.startswith("|")])) <= 80
