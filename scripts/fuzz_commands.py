#!/usr/bin/env python3
"""Random command lines of the three tools: none may show a traceback, and none that holds nonsense may succeed.

Each line is a real process in a folder of its own. One in three is made of sensible words only and must succeed (runs
are two rounds on Cora); in the others at least one word is nonsense, and the tool must answer with one line on stderr
and status 2. Prints each line that does not behave, and ends with status 1 if there is one.

    scripts/fuzz_commands.py --lines 300 --seed 0
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

WEIRD = ("nope", "-1", "nan", "inf", "-inf", "", "{}", "[]", "1e999", "null", "'", "${x}", "☃")
"""Values that hardly any key takes."""

SENSIBLE = {
    "method": ("local", "fedavg", "fedprox", "fedper", "fedntd", "feded", "fedgcn", "gcfl"),
    "partitioner": ("published", "metis", "random"),
    "setting": ("seen_graph", "unseen_node", "missing_class", "new_client", "plain", "open_set"),
    "protocol": ("fedlog", "fedlog_matched", "fedpub"),
    "partitioner.clients": ("2", "3"),
    "seed": ("0", "7"),
    "protocol.local_epochs": ("1", "2"),
    "protocol.lr": ("0.01", "1e-3"),
    "model.hidden": ("8", "16"),
    "runtime.threads": ("1", "2"),
    "runtime.curves": ("all", "validation"),
}
NONSENSE = {
    "method": ("nope", "_fedavg", "null", "fedavg/x", "[fedavg]"),
    "dataset": ("nope", "../cora", "null", "_schema"),
    "partitioner": ("nope", "null", "common"),
    "setting": ("nope", "common", "null"),
    "protocol": ("nope", "null", "2"),
    "model": ("nope", "null", "view"),
    "partitioner.clients": ("0", "-3", "2.5", "99999", "three", *WEIRD[1:]),
    "seed": ("x", "1.5", "[0,1]", "null"),
    "setting.focus": ("nope", "1"),
    "setting.hops": ("-1", "x"),
    "setting.crop": ("0.5", "-1"),
    "protocol.rounds": ("0", "-2", "two", "2.5"),
    "protocol.lr": ("-1", "nan", "inf", "fast"),
    "protocol.weight_decay": ("-1e-3", "nan"),
    "protocol.split": ("[nan,.5,.5]", "[1,0,0]", "[.5,0,.5]", "[.5,.5]", "[-1,1,1]", "0.5", "[a,b,c]"),
    "protocol.selection": ("nope", "best_test"),
    "protocol.average": ("nope", "1"),
    "protocol.judged": ("nope",),
    "protocol.ddof": ("-1", "x"),
    "protocol.batch": ("-4", "x"),
    "protocol.tuning": ("{seed:0}", "{seed:0,candidates:{}}", "3"),
    "protocol.nope": ("1",),
    "model.dropout": ("1", "-0.1", "nan"),
    "model.hidden": ("0", "-8", "x"),
    "model.fanout": ("3", "-1"),
    "method.variant": ("nope", "1"),
    "method.nope": ("1",),
    "runtime.device": ("cuda:99", "tpu", "mps", "cpu:x"),
    "runtime.threads": ("0", "-1", "1000000", "99999999999", "x"),
    "runtime.curves": ("nope",),
    "logger.mode": ("bogus",),
    "paths.records": ("/proc/x", "/dev/null", "a" * 300),
    "hydra.job.env_set.FOO": ("1",),
    "~seed": (None,),
    "++x.y": ("1",),
    "+seed": ("1",),
    "=": ("=",),
    "--frobnicate": (None,),
}
TABLE_COMMANDS = ("list", "show", "missing", "compare", "check", "rerun", "push", "publish", "unpack", "run", "report")
TABLE_SENSIBLE = {
    "--datasets": ("cora", "cora,citeseer"),
    "--clients": ("3",),
    "--methods": ("fedavg", "local"),
    "--seeds": ("0",),
}
TABLE_NONSENSE = {
    "--datasets": ("nope", "cora,,x"),
    "--clients": ("0", "x", "4"),
    "--methods": ("nope",),
    "--seeds": ("0.5", "99", "x"),
    "--protocol": ("nope", "../fedlog"),
    "--records": ("/dev/null/x", "\u2603" * 200),
    "--frobnicate": ("1",),
}


@dataclass(frozen=True)
class Line:
    """Words of a command line, and whether they hold nonsense."""

    words: tuple[str, ...]
    nonsense: bool


def word(key: str, value: str | None) -> str:
    """``key=value``, or the key alone."""
    return key if value is None else f"{key}={value}"


def train_line(rng: random.Random, nonsense: bool) -> Line:
    keys = rng.sample(sorted(SENSIBLE), rng.randint(0, 4))
    words = [word(key, rng.choice(SENSIBLE[key])) for key in keys]
    if nonsense:
        for key in rng.sample(sorted(NONSENSE), rng.choice((1, 1, 1, 2))):
            words = [w for w in words if not w.startswith(f"{key}=")]
            words.append(word(key, rng.choice(NONSENSE[key])))
        rng.shuffle(words)
    if not any(w.startswith("protocol.rounds") for w in words):
        words.append("protocol.rounds=2")
    return Line(("fgl_repro.train", *words, "logger=disabled"), nonsense)


def table_line(rng: random.Random, nonsense: bool) -> Line:
    if not nonsense:
        options = [w for key in rng.sample(sorted(TABLE_SENSIBLE), 2) for w in (key, rng.choice(TABLE_SENSIBLE[key]))]
        return Line(("fgl_repro.cli.table", rng.choice(("show", "missing")), "table1", *options), False)
    command = rng.choice(TABLE_COMMANDS)
    table = [rng.choice(("nope", "../table1", "", "table1" * 80))] if rng.random() < 0.4 else ["table1"]
    table = [] if command in ("list", "check", "report") else table
    key = rng.choice(sorted(TABLE_NONSENSE))
    options = [key, rng.choice(TABLE_NONSENSE[key])]
    if command in ("list", "check", "report", "rerun", "publish", "unpack"):
        options = ["--frobnicate"] if command != "rerun" else []
        table = ["zzzz"] if command == "rerun" else table
    return Line(("fgl_repro.cli.table", command, *table, *options), True)


def data_line(rng: random.Random, nonsense: bool) -> Line:
    if not nonsense:
        return Line(("fgl_repro.cli.data", *rng.choice((("list",), ("check", "cora"), ("fetch", "citeseer")))), False)
    bad = (("fetch", "nope"), ("check", "../cora"), ("nope",), ("fetch",), ("fetch", "cora", "--features", "x"), ())
    return Line(("fgl_repro.cli.data", *rng.choice(bad)), True)


def fault(line: Line, folder: Path) -> str:
    """What is wrong with how a line was answered; empty if nothing is."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("WANDB_", "COMP_", "HYDRA_"))}
    environment["FGL_CACHE"] = os.environ.get("FGL_CACHE") or str(Path(__file__).resolve().parents[1] / "cache")
    command = [sys.executable, "-m", *line.words]
    try:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    except subprocess.TimeoutExpired:
        return "did not end in five minutes"
    except ValueError as error:  # a word that no system takes
        return "" if "null byte" in str(error) else str(error)
    both = done.stdout + done.stderr
    if "Traceback" in both:
        return f"traceback: {both.strip().splitlines()[-1]}"
    if line.nonsense and done.returncode == 0:
        return f"accepted: {done.stdout.strip()[:200]}"
    if line.nonsense and done.returncode != 2:
        return f"status {done.returncode}: {done.stderr.strip()[-200:]}"
    if not line.nonsense and done.returncode:
        return f"refused: {done.stderr.strip()[-200:]}"
    return ""


def main() -> int:
    """Try the lines one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rng, wrong = random.Random(args.seed), 0
    for number in range(args.lines):
        make = rng.choices((train_line, table_line, data_line), (6, 3, 1))[0]
        line = make(rng, rng.random() < 2 / 3)
        with tempfile.TemporaryDirectory(prefix="fgl-fuzz-") as folder:
            found = fault(line, Path(folder))
        if found:
            wrong += 1
            print(f"{number}: {' '.join(map(repr, line.words))}\n    {found}", flush=True)
    print(f"{args.lines} command lines, {wrong} not answered as they should be.")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
