"""Somebody's own package adds an option on every axis and a table, with nothing of ours edited."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import textwrap
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OWN = """
    title: Accuracy of hubs at one client
    datasets: [blocks]
    clients: [1]
    seeds: [0, 1]
    partitioner: dirichlet_sizes
    protocols: [short]
    rows: [{name: Local, method: local}]
    panels: {"1": {title: Hubs, setting: hubs, probe: hubs}}
"""


class Shell:
    """A folder where the package is installed by pip, and some yamls of a user's own."""

    def __init__(self, folder: Path) -> None:
        self.folder, site, source = folder, folder / "site", folder / "my_fgl"
        shutil.copytree(ROOT / "examples" / "my_fgl", source)  # pip builds in place
        command = ["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
        subprocess.run([sys.executable, *command, "--target", str(site), str(source)], check=True)
        self.conf = folder / "my conf's"  # neither a blank nor a quote may matter
        (self.conf / "table" / "mine").mkdir(parents=True)
        (self.conf / "table" / "mine" / "2.yaml").write_text(textwrap.dedent(OWN))
        paths = os.pathsep.join([str(site), str(ROOT / "src")])
        self.environment = {**os.environ, "PYTHONPATH": paths, "FGL_CACHE": str(folder / "cache")}
        self.environment.pop("FGL_RECORDS", None)

    def __call__(self, *words: str, status: int = 0) -> str:
        command = [sys.executable, *words]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=500
        )
        assert done.returncode == status, done.stderr
        return done.stdout + done.stderr

    def train(self, *words: str, status: int = 0) -> str:
        return self("-m", "fgl_repro.train", *words, "logger=disabled", status=status)

    def table(self, *words: str) -> str:
        return self("-m", "fgl_repro.cli.table", *words)

    @property
    def records(self) -> list[dict[str, object]]:
        return [json.loads(path.read_text()) for path in self.folder.glob("results/records/**/*.json")]


@pytest.mark.slow
def test_an_installed_package_adds_an_option_on_every_axis_and_a_table(tmp_path: Path) -> None:
    pytest.importorskip("setuptools", reason="pip builds the example with it")
    shell = Shell(tmp_path)
    axes = ("method=fedtrim", "dataset=blocks", "partitioner=dirichlet_sizes", "setting=hubs", "model=heat")
    shell.train("-m", *axes, "protocol=short", "seed=0,1")
    assert len(shell.records) == 2
    science = shell.records[0]["config"]
    assert isinstance(science, dict)
    partitioner = {"name": "dirichlet_sizes", "alpha": 1.0, "least": 20, "clients": 3, "revision": 1}
    assert science["partitioner"] == partitioner
    assert science["setting"] == {"world": "hubs", "degree": 2, "revision": 1}
    assert {name: science["model"][name] for name in ("name", "steps", "time")} == {
        "name": "heat",
        "steps": 4,
        "time": 1,
    }
    pins = list((tmp_path / "cache" / "graphs").glob("blocks-raw-*.json"))
    assert [json.loads(pin.read_text())["nodes"] for pin in pins] == [120]

    graphs = ("dataset=rings", "partitioner=environment", "partitioner.clients=3", "setting=plain", "protocol=fedvn")
    learned = ("method=fedtrim", *graphs, "protocol.rounds=2", f"paths.records={tmp_path / 'graphs'}")
    assert "recorded in" in shell.train(*learned, "partitioner.graphs=30")
    assert "has no 1000 graphs left for client 0: lower partitioner.graphs" in shell.train(*learned, status=2)

    missing = [line for line in shell.table("missing", "mine/1").splitlines() if line.startswith("python")]
    assert len(missing) == 6, "two of eight runs are done"
    assert not any("--config-dir" in line for line in missing)
    shell.table("run", "mine/1", "--jobs", "2")
    assert len(shell.records) == 8
    assert "FedTrim" in shell.table("show", "mine/1")
    corner = ("fedlog/1", "--datasets", "cora", "--clients", "3")
    missing = [line for line in shell.table("missing", *corner, "--add", "fedtrim").splitlines() if "method=" in line]
    assert [line.split()[-1] for line in missing] == ["seed=0", "seed=1", "seed=2"], "only what is added runs"
    assert all("method=fedtrim dataset=cora" in line for line in missing)
    code = "import fgl_repro; print(fgl_repro.run('fedtrim', 'blocks', 3, 1, partitioner='dirichlet_sizes', "
    code += "setting='hubs', model='heat', protocol='short').source)"
    assert shell("-c", code) == "local\n", "recorded by the command line"
    told = shell.table("run", "mine/1", "--add", "fedprox", "--clients", "3")
    assert "2 runs done" in told
    assert "**FedProx" in (tmp_path / "tables/mine+fedprox/short/leaderboard_1.md").read_text()
    if all(find_spec(name) for name in ("mkdocs", "material", "plotly", "itables")):
        shell.table("site", "mine", "--out", "web")
        web = tmp_path / "web"
        assert '"method":"FedTrim"' in (web / "mine/short/table_1.js").read_text()
        assert all((web / page).exists() for page in ("mine/short/table_1.html", "methods/fedtrim.html"))
        assert "FedProx" in (web / "mine+fedprox/short/leaderboard_1.html").read_text()

    only = "import sys; from fgl_repro.cli import request, table; every = request.specs; "
    only += "request.specs = lambda _: every('mine'); sys.exit(table.main(['report']))"
    shell("-c", only)  # the report of one paper: those of all take minutes
    assert "FedTrim" in (tmp_path / "tables" / "mine" / "README.md").read_text()

    refused = shell.train(*axes, "partitioner.depth=3", status=2)
    assert "partitioner.depth does not exist: the keys of partitioner are clients, alpha, least." in refused
    assert "method=fedyours does not exist: choose from coboost," in (told := shell.train("method=fedyours", status=2))
    assert "fedtrim" in told

    own = ("--config-dir", str(shell.conf))
    lines = shell.table("missing", "mine/2", *own).splitlines()
    commands = [shlex.split(line) for line in lines if line.startswith("python")]
    assert len(commands) == 2
    assert all(command[3:5] == list(own) for command in commands)
    assert "recorded in" in shell(*commands[0][1:], "logger=disabled")
