"""The list of mutants fits the code: each can be applied, still compiles, and names tests that exist."""

from __future__ import annotations

import ast
import importlib.util
import shlex
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutants_script", ROOT / "scripts" / "mutants.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


MUTANTS = script().mutants()


def test_there_are_enough_and_no_two_are_the_same() -> None:
    assert len(MUTANTS) >= 60
    assert len({(m.file, m.old, m.new) for m in MUTANTS}) == len(MUTANTS)
    assert len({m.rule for m in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize("file", sorted({m.file for m in MUTANTS}))
def test_texts_occur_once_and_what_replaces_them_compiles(file: str) -> None:
    text = (ROOT / file).read_text(encoding="utf-8")
    for mutant in (m for m in MUTANTS if m.file == file):
        assert text.count(mutant.old) == 1, f"mend the mutant of {file}: {mutant.rule}"
        ast.parse(text.replace(mutant.old, mutant.new))
        for word in shlex.split(mutant.tests):
            assert not word.startswith("tests/") or (ROOT / word.partition("::")[0]).exists(), word


def test_a_mutant_is_applied_to_the_copy_and_taken_back(tmp_path: Path) -> None:
    mutant = MUTANTS[0]
    copy = tmp_path / mutant.file
    copy.parent.mkdir(parents=True)
    before = (ROOT / mutant.file).read_text(encoding="utf-8")
    copy.write_text(before, encoding="utf-8")
    assert mutant.apply(tmp_path) == before
    assert copy.read_text(encoding="utf-8") == before.replace(mutant.old, mutant.new)
    with pytest.raises(ValueError, match="not once"):
        mutant.apply(tmp_path)
