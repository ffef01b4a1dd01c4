"""Does this code compute what 948205a computed? One packed run of every kind, shortened, by both, on one machine.

    git worktree add /elsewhere 948205a
    PYTHONPATH=/elsewhere/src python scripts/same_results.py --write before.json     by the older code
    python scripts/same_results.py --against before.json                             by this one; status 1 if not equal

A kind is a method, variant, protocol, world and partitioner; variants that no packed run has are added. Metrics,
curves, selection, partition and facts must be equal bit for bit, bytes in sum over the phases before the rounds. Runs
that would take long get fewer rounds. What depends on the machine (seconds, memory) is not compared, nor a kind whose
method's revision has been raised since. Records of format 3 count one download more where the server's model is judged.
"""

from __future__ import annotations

import argparse
import copy
import csv
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

try:
    from fgl_repro.config import from_science, outdated
    from fgl_repro.runs.execute import execute
except ImportError:  # 948205a
    from fgl_repro.rerun import config_of
    from fgl_repro.run import execute

    from fgl_repro.config import digest

    def from_science(identity: dict[str, Any]) -> Any:
        return config_of({"key": digest(identity), "config": identity})

    def outdated(identity: dict[str, Any]) -> bool:
        return False


SECONDS = 8.0  # what a run may take, by what its record says
FEWEST_ROUNDS = 3
EXTRAS: dict[str, list[dict[str, Any]]] = {
    "fedavg": [{"variant": "paper"}],
    "feded": [{"variant": "fedvls"}],
    "fedgcn": [{"variant": "release"}, {"hops": 1}, {"hops": 0}],
    "fedlog": [
        {"alpha": "half", "generalize": False},
        {"share": "tail", "weighting": "inverse", "noise": 0.1, "permute": True},
        {"slots": 3, "threshold": 0.0, "batch": 16, "scale_step": 0.0},
    ],
    "fedprox": [{"variant": "paper", "mu": 0.5}],
    "fedpub": [
        {"variant": "paper"},
        *({"similarity": name} for name in ("parameter", "gradient", "updates", "label")),
        *({"random_graph": name} for name in ("er", "one", "feature")),
        {"masks": False},
    ],
    "fedsageplus": [{"shared": True}, {"alpha": 0.0}, {"warmup": 0}, {"variant": "release", "shared": True}],
    "locsageplus": [{"variant": "release"}],
    "oracle": [{"variant": "clients"}],
}
"""Hyper-parameters of further kinds, put into the cheapest packed run of the method."""


def kinds(results: Path) -> dict[str, dict[str, Any]]:
    """Science config of every kind by its name, from the cheapest of its packed runs, shortened."""
    csv.field_size_limit(2**31 - 1)
    cheapest: dict[str, tuple[float, dict[str, Any]]] = {}
    methods: dict[str, tuple[float, dict[str, Any]]] = {}
    for path in sorted(results.glob("*/runs.csv")):
        with open(path, encoding="utf-8", newline="") as file:
            for row in csv.DictReader(line for line in file if not line.startswith("#")):
                record = json.loads(row["record"])
                config, seconds = record["config"], float(record["seconds"]["total"])
                where = (config["setting"]["world"], config["partitioner"]["name"])
                name = " ".join([config["method"]["name"], config["method"]["variant"], record["protocol"], *where])
                for found, key in ((cheapest, name), (methods, config["method"]["name"])):
                    if key not in found or (seconds, json.dumps(config)) < (found[key][0], json.dumps(found[key][1])):
                        found[key] = (seconds, config)
    out = {name: shortened(config, seconds) for name, (seconds, config) in cheapest.items()}
    for method, changes in EXTRAS.items():
        for change in changes:
            seconds, config = copy.deepcopy(methods[method])
            config["method"] |= change
            said = ",".join(f"{key}={value}" for key, value in change.items())
            out[f"{method} with {said}"] = shortened(config, 4 * seconds)
    return out


def shortened(config: dict[str, Any], seconds: float) -> dict[str, Any]:
    """The same with fewer rounds and epochs of set-up where it would take long."""
    out = copy.deepcopy(config)
    protocol, method = out["protocol"], out["method"]
    if seconds > SECONDS:
        protocol["rounds"] = max(FEWEST_ROUNDS, int(protocol["rounds"] * SECONDS / seconds / 2))
        for name in ("generator_epochs", "warmup"):
            if method.get(name):
                method[name] = min(method[name], 3)
    return out


def digest_of(value: Any) -> str:
    """Every digit of a JSON value, in few."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def outcome(identity: dict[str, Any]) -> dict[str, str]:
    """Digests of what a run found, by part."""
    config = from_science(identity)
    config.runtime.curves, config.runtime.threads, config.runtime.device = "all", 1, "cpu"
    found = execute(config)
    record = found.record if isinstance(found.record, dict) else found.record.as_json()
    sent: dict[str, int] = {}
    for phase, directions in record["bytes"].items():
        for direction, fields in directions.items():
            for name, size in fields.items():
                key = f"{'rounds' if phase == 'rounds' else 'before'} {direction} {name}"
                sent[key] = sent.get(key, 0) + size
    parts = {name: record[name] for name in ("data", "partition", "world", "selection", "facts")}
    parts |= {f"metrics {probe}": value for probe, value in record["metrics"].items()}
    curves = {
        name: values for name, values in found.curves.items() if "/" not in name or name.startswith("validation/")
    }
    parts |= {f"curve {name}": values for name, values in curves.items()}
    parts |= {f"bytes {name}": size for name, size in sent.items()}
    return {name: digest_of(value) for name, value in parts.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path(__file__).parents[1] / "results", help="packed runs")
    parser.add_argument("--only", default="", help="kinds whose name has these letters in it")
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", type=Path, help="file for what is found")
    action.add_argument("--against", type=Path, help="file to compare with")
    args = parser.parse_args()
    known = json.loads(args.against.read_text()) if args.against else {}
    found, wrong = {}, 0
    for number, (name, identity) in enumerate(sorted(kinds(args.results).items())):
        if args.only not in name or (args.against and name not in known):
            continue
        if args.against and outdated(known[name]["identity"]):
            print(f"{number + 1:>3} {name}: not compared, its revision has been raised", flush=True)
            continue
        found[name] = outcome(known[name]["identity"] if args.against else identity)
        verdict = "written"
        if args.against:
            before = known[name]["found"]
            differ = sorted(part for part in before if found[name].get(part) != before[part])
            wrong += bool(differ)
            verdict = f"differs in {', '.join(differ)}" if differ else "identical"
        else:
            known[name] = {"identity": identity, "found": found[name]}
            args.write.write_text(json.dumps(known, indent=1))
        print(f"{number + 1:>3} {name}: {verdict}", flush=True)
    print(f"{len(found)} kinds of runs, {wrong} differ.")
    return int(bool(wrong) or not found)


if __name__ == "__main__":
    sys.exit(main())
