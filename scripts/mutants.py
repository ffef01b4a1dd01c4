#!/usr/bin/env python3
"""Do the tests bite? Each mutant breaks one rule of the code in one place; the tests named beside it must then fail.

Mutants stand in scripts/mutants/*.toml: the rule that breaks, the file, the text and what replaces it, and the tests.
One at a time is applied to a copy of the tree, never to the tree itself. To be run by hand, after a change of the
engine, a method, a setting, the verdict or the records; it takes the time of many small test runs.

    scripts/mutants.py                 every mutant; status 1 if one survives
    scripts/mutants.py --only fedlog   those with this text in their file or rule
    scripts/mutants.py --list          what there is
"""

from __future__ import annotations

import argparse
import importlib
import multiprocessing
import os
import shlex
import shutil
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
COPIED = ("src", "tests", "conf", "scripts", "benchmarks", "results", "Makefile", "README.md", "pyproject.toml")
LINKED = ("cache",)
LIBRARIES = ("hydra", "hypothesis", "networkx", "pandas", "scipy.sparse", "torch.optim.adam", "torch_geometric.nn")
"""Loaded once, before a process is forked for every mutant: they take longer than most tests."""
TIMEOUT = 600
PASSED, FAILED = 0, 1  # what pytest leaves with


@dataclass(frozen=True)
class Mutant:
    """One broken rule.

    Attributes:
        rule: What no longer holds.
        file: Below the root.
        old: Text that occurs exactly once in the file.
        new: What stands there instead.
        tests: Words for pytest that select the tests which must notice.
    """

    rule: str
    file: str
    old: str
    new: str
    tests: str

    def apply(self, root: Path) -> str:
        """Break the file below ``root``; returns the text it had."""
        path = root / self.file
        text = path.read_text(encoding="utf-8")
        if text.count(self.old) != 1 or self.old == self.new:
            raise ValueError(f"{self.file} has {text.count(self.old)} times, not once: {self.old}")
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")
        return text


def mutants(folder: Path = ROOT / "scripts" / "mutants") -> list[Mutant]:
    """All mutants, file by file."""
    found = []
    for path in sorted(folder.glob("*.toml")):
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        found += [Mutant(**{"tests": content["tests"], **entry}) for entry in content["mutant"]]
    return found


def tested(root: Path, tests: str) -> int | None:
    """Status of pytest on the tests named by these words, at the first failure; None where they take too long."""
    child = multiprocessing.get_context("fork").Process(target=_pytest, args=(root, tests))
    child.start()
    child.join(TIMEOUT)
    if child.is_alive():
        child.kill()
        child.join()
        return None
    return child.exitcode


def _pytest(root: Path, tests: str) -> None:
    """Run tests in a process that has the libraries, but nothing of the project yet."""
    os.chdir(root)
    sys.dont_write_bytecode = True
    os.environ |= {"PYTHONPATH": f"{root / 'src'}{os.pathsep}{root / 'tests'}", "PYTHONDONTWRITEBYTECODE": "1"}
    with open(root / "output.txt", "w", encoding="utf-8") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        sys.exit(int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *shlex.split(tests)])))


def copy_of(root: Path, folder: Path) -> Path:
    """A copy of the tree in ``folder``."""
    copy = folder / "tree"
    copy.mkdir()
    ignored = shutil.ignore_patterns("__pycache__", ".*_cache", "records")
    for name in COPIED:
        if (root / name).is_dir():
            shutil.copytree(root / name, copy / name, ignore=ignored)
        elif (root / name).exists():
            shutil.copy2(root / name, copy / name)
    for name in LINKED:
        if (root / name).exists():
            (copy / name).symlink_to((root / name).resolve())
    return copy


def main() -> int:
    """Apply the chosen mutants one by one and say which were noticed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="TEXT", help="mutants with this text in their file or rule")
    parser.add_argument("--list", action="store_true", help="name them and leave")
    args = parser.parse_args()
    chosen = [m for m in mutants() if args.only in m.file or args.only in m.rule]
    if args.list:
        print("\n".join(f"{m.file}: {m.rule}" for m in chosen))
        return 0
    os.environ["OMP_NUM_THREADS"] = "1"
    for name in LIBRARIES:
        importlib.import_module(name)
    alive, sound = 0, dict[str, bool]()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = copy_of(ROOT, Path(folder))
        for number, mutant in enumerate(chosen, 1):
            if mutant.tests not in sound:
                sound[mutant.tests] = tested(copy, mutant.tests) == PASSED
            if sound[mutant.tests]:
                text = mutant.apply(copy)
                status = tested(copy, mutant.tests)
                (copy / mutant.file).write_text(text, encoding="utf-8")
                verdict = {FAILED: "killed", None: "killed (never ends)", PASSED: "SURVIVED"}.get(status, "NOT TESTED")
            else:
                verdict = "NOT TESTED (its tests fail without it)"
            alive += not verdict.startswith("killed")
            print(f"{number:>3} of {len(chosen)}  {verdict:<10} {mutant.file}: {mutant.rule}", flush=True)
    print(f"{len(chosen) - alive} of {len(chosen)} mutants are killed.")
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main())
