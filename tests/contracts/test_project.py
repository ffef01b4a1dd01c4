"""House rules: file sizes, no traces of one machine, every make target works, entry points exist."""

from __future__ import annotations

import ast
import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import grimp
import networkx as nx
import pytest

from fgl_repro.cli.arguments import parser as _table_parser
from fgl_repro.core.errors import UserError
from fgl_repro.fl.protocol import Protocol
from fgl_repro.tables.load import load

ROOT = Path(__file__).resolve().parents[2]
LONGEST = 400
CODE = {".py", ".yaml", ".sh"}
TEXT = {*CODE, ".md", ".toml", ".txt", ".cff", ".json", ""}
FOLDERS = ("src", "tests", "conf", "scripts", "benchmarks", "results", ".ci")

# Spelt in pieces, so that this file does not find itself.
MACHINE = re.compile("|".join(["/(?:" + "work|root|home|Users|opt" + ")/", r"\.\./" + "shared"]))
MAY_NAME_SHARED = {"Makefile", ".ci/run"}  # they use the folder beside a checkout if it exists


def _project_files() -> list[Path]:
    """Files of the project: what git tracks or would, or all in its folders where there is no git."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True, check=True, text=True
        ).stdout.split("\0")
        found = [ROOT / name for name in listed if name]
    except (OSError, subprocess.CalledProcessError):
        found = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if "__pycache__" not in path.parts]
        found += [path for path in ROOT.iterdir() if path.is_file()]
    return [path for path in found if path.is_file()]


OF_EACH_METHOD = {"State", "Upload", "Download"}
"""Every method may have its own of these, in its own module: what it keeps, what goes up and what comes down."""

# The suite may itself run under make, whose variables (ARGS=...) must not leak into the makes under test.
ENV = {
    name: value for name, value in os.environ.items() if not name.startswith("MAKE") and name not in ("ARGS", "MFLAGS")
}


def _pyproject() -> dict[str, dict[str, dict[str, str]]]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def _help_targets() -> list[str]:
    return re.findall(r"^([a-z0-9]+):.*## ", (ROOT / "Makefile").read_text(), flags=re.M)


def test_no_source_file_is_too_long() -> None:
    sizes = {p.relative_to(ROOT): len(p.read_text().splitlines()) for p in _project_files() if p.suffix in CODE}
    assert sizes
    assert {path: lines for path, lines in sizes.items() if lines > LONGEST} == {}


def test_nothing_that_git_ignores_is_tracked() -> None:
    """A tracked link at the place of an ignored folder would replace that folder at the next checkout."""
    listed = ["git", "ls-files", "-ci", "--exclude-standard"]
    assert subprocess.run(listed, cwd=ROOT, capture_output=True, text=True).stdout == ""


def test_nothing_names_one_machine() -> None:
    found = []
    for path in _project_files():
        name = str(path.relative_to(ROOT))
        if path.suffix not in TEXT or path.stat().st_size > 1_000_000:
            continue
        for number, line in enumerate(path.read_text(errors="ignore").splitlines(), 1):
            hits = {hit for hit in MACHINE.findall(line) if not (name in MAY_NAME_SHARED and "shared" in hit)}
            found += [f"{name}:{number}: {hit}" for hit in sorted(hits)]
    assert found == []


def test_help_is_the_default_target_and_lists_every_target() -> None:
    shown = subprocess.run(["make"], cwd=ROOT, env=ENV, capture_output=True, check=True, text=True).stdout
    wanted = "install demo test lint type train table1 table2 table9 tables list missing compare"
    wanted += " report show rerun publish unpack push bench data clean"
    assert set(wanted.split()) <= set(_help_targets())
    for target in _help_targets():
        assert re.search(rf"^  {target} +\S", shown, flags=re.M), target
    assert "make fedlog (or fedpub fedsage fedvn opfgl)" in shown
    for name in re.findall(r"make (fed\w+-\w+)", shown):
        assert load(name).name.replace("/", "-") == name, "help names only what exists"


@pytest.mark.parametrize("target", _help_targets())
def test_make_target_has_a_recipe(target: str) -> None:
    command = ["make", "-n", target, "ARGS=", "KEY=0123", "T=table1"]
    done = subprocess.run(command, cwd=ROOT, env=ENV, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_make_passes_only_the_options_that_are_given() -> None:
    command = ["make", "-n", "-o", ".venv/.installed", "table1"]
    plain = subprocess.run(command, cwd=ROOT, env=ENV, capture_output=True, check=True, text=True).stdout
    assert plain.strip() == ".venv/bin/fgl-table run 'table1'"
    narrow = [*command, "DATASETS=cora pubmed", "CLIENTS=3,5", "SEEDS=0", "JOBS=2"]
    said = subprocess.run(narrow, cwd=ROOT, env=ENV, capture_output=True, check=True, text=True).stdout
    assert said.strip().endswith("run 'table1' --datasets 'cora,pubmed' --clients '3,5' --seeds '0' --jobs '2'")
    said = subprocess.run([*command, "FAST=1"], cwd=ROOT, env=ENV, capture_output=True, check=True, text=True).stdout
    assert said.strip() == ".venv/bin/fgl-table run 'table1' --fast"
    said = subprocess.run([*command, "ADD=mine"], cwd=ROOT, env=ENV, capture_output=True, check=True, text=True).stdout
    assert said.strip() == ".venv/bin/fgl-table run 'table1' --add 'mine'"


def test_every_table_and_figure_has_a_target() -> None:
    names = ["fedlog-table3", "fedlog-fig9", "fedsage-tabled1", "fedpub-7a", "fedpub-table7a", "fedpub-fig1", "fedlog"]
    command = ["make", "-n", "-o", ".venv/.installed", *names, "SEEDS=0"]
    said = subprocess.run(command, cwd=ROOT, env=ENV, capture_output=True, check=True, text=True).stdout
    assert said.splitlines() == [f".venv/bin/fgl-table run '{name}' --seeds '0'" for name in names]
    assert [load(name).name for name in names[:3]] == ["fedlog/3", "fedlog/fig9", "fedsage/D1"]


@pytest.mark.parametrize("evil", ["cora;touch HERE", "$$(touch HERE)", "`touch HERE`", "' ; touch HERE ; '"])
def test_no_variable_is_a_command(tmp_path: Path, evil: str) -> None:
    """Tools that only print their words stand for ours: nothing else may run."""
    for tool in ("python", "fgl-table", "fgl-train", "fgl-data", "pytest"):
        (tmp_path / tool).write_text("#!/bin/sh\necho\n")
        (tmp_path / tool).chmod(0o755)
    for target in ("table1", "fedlog-3", "missing", "push", "rerun", "data", "train", "bench"):
        names = ("DATASETS", "METHODS", "SEEDS", "PROTOCOL", "JOBS", "LAUNCHER", "ADDRESS", "SLURM", "T", "KEY", "ARGS")
        values = [f"{name}={evil}" for name in names]
        stamp = ["-o", ".venv/.installed", f"BIN={tmp_path}", "-f", str(ROOT / "Makefile"), "-C", str(tmp_path)]
        shutil.copytree(ROOT / "conf" / "table", tmp_path / "conf" / "table", dirs_exist_ok=True)
        done = subprocess.run(["make", *stamp, target, *values], env=ENV, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert not (tmp_path / "HERE").exists(), target


@pytest.mark.parametrize("target", _help_targets())
def test_make_uses_options_that_the_tools_have(target: str) -> None:
    given = [
        "KEY=0123",
        "DATASETS=cora",
        "CLIENTS=3",
        "METHODS=local",
        "SEEDS=0",
        "PROTOCOL=fedlog",
        "ADD=fedgta",
        "PRINTED=1",
        "JOBS=2",
        "LAUNCHER=ray",
        "ADDRESS=auto",
        "SLURM=mem_gb=4",
        "FAST=1",
    ]
    command = ["make", "-n", "-o", ".venv/.installed", target, *given]
    said = subprocess.run(command, cwd=ROOT, env=ENV, capture_output=True, check=True, text=True).stdout
    for line in re.findall(r"fgl-table ([^;\n]+)", said):
        _table_parser().parse_args(shlex.split(line))


@pytest.mark.parametrize("name", sorted(_pyproject()["project"]["scripts"]))
def test_entry_point_imports(name: str) -> None:
    module, function = _pyproject()["project"]["scripts"][name].split(":")
    assert callable(getattr(importlib.import_module(module), function))


def test_every_subpackage_is_importable_and_shipped() -> None:
    for folder in (ROOT / "src" / "fgl_repro").rglob("*"):
        if folder.is_dir() and any(folder.glob("*.py")):
            assert (folder / "__init__.py").is_file(), folder


def test_dependencies_are_pinned() -> None:
    pinned = re.findall(r"^([\w.-]+)==[\w.]+$", (ROOT / "constraints.txt").read_text(), flags=re.M)
    names = {re.sub(r"[-_.]+", "-", name).lower() for name in pinned}
    wanted = {re.split(r"[<>=]", line)[0].lower() for line in _pyproject()["project"]["dependencies"]}
    assert wanted <= names


@pytest.mark.slow
def test_wheel_holds_the_yaml_files_and_the_stored_data(tmp_path: Path) -> None:
    pytest.importorskip("setuptools")
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    for name in ("src", "conf"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    command = [sys.executable, "setup.py", "-q", "build", "--build-lib", "out"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    for path in (
        "conf/config.yaml",
        "conf/dataset/cora.yaml",
        "py.typed",
        "federation/partitioners/stored",
        "tables/reference/fedlog",
        "web/assets/fgl-site.js",
        "web/assets/mkdocs.yaml",
    ):
        assert (tmp_path / "out" / "fgl_repro" / path).exists(), path


def test_a_bare_install_asks_pip_for_what_is_pinned_and_nothing_else() -> None:
    command = ["make", "-n", "-B", "install"]
    shown = subprocess.run(command, cwd=ROOT, env=ENV, capture_output=True, check=True, text=True).stdout
    found = [shlex.split(line)[4:] for line in shown.splitlines() if "pip install" in line]
    pinned = ["-qq", "-c", "constraints.txt"]
    assert found == [[*pinned, "torch"], [*pinned, "-e", ".[dev]"]]


def test_no_files_import_each_other_in_a_circle() -> None:
    """Imports for the type checker count; a package's own face, which gathers its files, does not."""
    graph = grimp.build_graph("fgl_repro", cache_dir=None)
    files = {name for name in graph.modules if not graph.find_children(name)}
    arrows = [(name, other) for name in files for other in graph.find_modules_directly_imported_by(name) & files]
    circles = [sorted(c) for c in nx.strongly_connected_components(nx.DiGraph(arrows)) if len(c) > 1]
    assert not circles


def _types(statements: list[ast.stmt]) -> Iterator[str]:
    """Names of a module's public classes, and of types that stand for others; a type variable is no type."""
    for node in statements:
        if isinstance(node, ast.If):
            yield from {*_types(node.body), *_types(node.orelse)}  # for the type checker, or else at run time
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name, variable = node.targets[0].id, ast.unparse(node.value).startswith("TypeVar(")
            if name[0].isupper() and not name.isupper() and not variable:
                yield name


def test_no_two_types_share_a_name() -> None:
    src = ROOT / "src" / "fgl_repro"
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(src.rglob("*.py")):
        name = str(path.relative_to(src))
        for each in _types(ast.parse(path.read_text(encoding="utf-8")).body):
            if not (each in OF_EACH_METHOD and name.startswith("methods/")):
                found[each].append(name)
    assert len(found) > 300
    assert {each: files for each, files in found.items() if len(files) > 1} == {}


def test_arguments_that_docstrings_explain_exist() -> None:
    explained = []
    for path in sorted((ROOT / "src" / "fgl_repro").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                text = (ast.get_docstring(node) or "").partition("\nArgs:\n")[2].partition("\n\n")[0]
                given = node.args
                known = {each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)}
                known |= {each.arg for each in (given.vararg, given.kwarg) if each}
                words = re.findall(r"^ {4}([\w, *]+):", text, re.MULTILINE)
                named = {name for word in words for name in word.split(", ")}
                explained += [(path.name, node.name, name, name.lstrip("*") in known) for name in sorted(named)]
    assert len(explained) > 200
    assert [each[:3] for each in explained if not each[3]] == []


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))])
def test_links_of_readme_and_guides_lead_to_files(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)
    assert [link for link in links if not ((ROOT / page).parent / link).exists()] == []


def test_every_guide_is_listed() -> None:
    listed = set(re.findall(r"\]\(([\w-]+\.md)\)", (ROOT / "docs" / "README.md").read_text(encoding="utf-8")))
    assert listed == {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}


def test_the_page_on_protocols_knows_every_protocol_and_every_key() -> None:
    keys, _, protocols = (ROOT / "docs" / "protocols.md").read_text(encoding="utf-8").partition("## The protocols")
    named = {field.name for field in fields(Protocol)} - {"name"}
    assert named - set(re.findall(r"`(\w+)`", keys)) == set()
    listed = {name for line in protocols.splitlines() for name in re.findall(r"`(\w+)`", "".join(line.split("|")[1:2]))}
    assert listed == {path.stem for path in (ROOT / "conf" / "protocol").glob("*.yaml")}


@pytest.mark.parametrize("key", ["moments", "judged", "average", "selection", "selected_by", "optimiser"])
def test_the_page_on_protocols_knows_every_word_that_a_key_takes(key: str) -> None:
    with pytest.raises(UserError) as refused:
        Protocol(**{key: "nothing of the sort"})  # type: ignore[arg-type]
    words = re.split(r", | or ", str(refused.value).partition("choose ")[2].rstrip("."))
    text = (ROOT / "docs" / "protocols.md").read_text(encoding="utf-8")
    assert len(words) > 1
    assert [word for word in words if f"`{word}`" not in text] == []


def test_the_readme_is_read_in_two_minutes() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) < 1200
