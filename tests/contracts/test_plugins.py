"""Somebody's own package adds an option on every axis and a table, with nothing of ours edited."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

MODULE = '''
    """One of everything."""

    from dataclasses import dataclass
    from typing import ClassVar

    import numpy as np

    from fgl_repro.core.errors import UserError
    from fgl_repro.data.dataset import Dataset
    from fgl_repro.federation.partitioners import Partitioner
    from fgl_repro.federation.settings import Setting, common
    from fgl_repro.federation.split import TEST
    from fgl_repro.federation.world import Probe
    from fgl_repro.fl.messages import Weights
    from fgl_repro.methods.fedavg import FedAvg
    from fgl_repro.nn.architectures import Architecture


    @dataclass
    class Blocks(Dataset):
        name: ClassVar[str] = "blocks"

        def raw(self, cache):
            import torch
            from torch_geometric.data import Data

            rng = torch.Generator().manual_seed(0)
            labels = torch.arange(120) % 3
            linked = torch.rand(120, 120, generator=rng) < torch.where(labels[:, None] == labels, 0.2, 0.01)
            words = torch.eye(3)[labels] + 0.1 * torch.rand(120, 3, generator=rng)
            return Data(x=words, edge_index=linked.triu(1).nonzero().T, y=labels)


    @dataclass
    class Stripes(Partitioner):
        name: ClassVar[str] = "stripes"
        width: int = 1

        def assign(self, graph, parts, seed):
            return np.arange(graph.num_nodes) // self.width % parts, f"stripes of {self.width}"


    @dataclass
    class Hubs(Setting):
        name: ClassVar[str] = "hubs"
        probes: ClassVar[tuple[str, ...]] = ("hubs", "seen_graph")
        degree: int = 2

        def build(self, graph, partitioner, split):
            members = partitioner.divide(graph, partitioner.clients, split.seed)
            learned = common.training(graph, list(members.nodes), partitioner, split)
            rows = learned.rows(TEST)
            hubs = rows[np.diff(learned.graph.adjacency.indptr)[rows] >= self.degree]
            probes = (Probe("hubs", learned.graph, hubs), common.seen_graph(learned))
            return common.as_world(learned, members, probes, {})


    @dataclass
    class Wide(Architecture):
        name: ClassVar[str] = "wide"
        factor: int = 2

        def build(self, num_features, num_classes):
            from fgl_repro.nn.models.gcn import GCN

            return GCN(num_features, num_classes, self.hidden * self.factor, self.dropout)


    @dataclass
    class FedMine(FedAvg):
        name: ClassVar[str] = "fedmine"
        display: ClassVar[str] = "FedMine"
        shrink: float = 1.0

        def check(self):
            super().check()
            if not 0 < self.shrink <= 1:
                raise UserError(f"method.shrink={self.shrink} must lie in (0, 1].")

        def aggregate(self, *given):
            mean = super().aggregate(*given).tensors()
            return Weights({name: weights * self.shrink for name, weights in mean.items()})
'''
ENTRY_POINTS = {
    "methods": "FedMine",
    "datasets": "Blocks",
    "partitioners": "Stripes",
    "settings": "Hubs",
    "models": "Wide",
}
YAMLS = {
    "method/fedmine.yaml": "defaults: [_fedmine, _self_]\nshrink: 0.5\n",
    "dataset/blocks.yaml": "defaults: [_blocks, _self_]\nfeatures: raw\n",
    "partitioner/stripes.yaml": "defaults: [_stripes, _self_]\nwidth: 2\n",
    "setting/hubs.yaml": "defaults: [_hubs, _self_]\nfocus: hubs\n",
    "model/wide.yaml": "defaults: [_wide, _self_]\nhidden: 8\n",
    "protocol/short.yaml": "defaults: [fedlog, _self_]\nname: short\nrounds: 2\nlr: 0.01\n",
    "table/mine/1.yaml": """
        title: Accuracy of hubs
        datasets: [blocks]
        clients: [3, 4]
        seeds: [0, 1]
        partitioner: stripes
        protocols: [short]
        model: wide
        rows:
          - {name: FedMine, method: fedmine}
          - {name: FedAvg, method: fedavg}
        panels:
          "1": {title: Hubs, setting: hubs, probe: hubs}
    """,
}
OURS = Path(__file__).resolve().parents[2] / "src"


class Shell:
    """A folder where the package is installed, as pip would: beside it lies what announces it."""

    def __init__(self, folder: Path) -> None:
        self.folder, site = folder, folder / "site"
        self.conf = folder / "my conf's"  # neither a blank nor a quote may matter
        points = "".join(
            f"[fgl_repro.{group}]\n{cls.lower()} = mine.parts:{cls}\n" for group, cls in ENTRY_POINTS.items()
        )
        files = {site / "mine/__init__.py": "", site / "mine/parts.py": MODULE}
        files[site / "mine-1.0.dist-info/METADATA"] = "Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n"
        files[site / "mine-1.0.dist-info/entry_points.txt"] = points
        files |= {self.conf / name: content for name, content in YAMLS.items()}
        for path, content in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(content).lstrip())
        self.environment = {**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{OURS}", "FGL_CACHE": str(folder / "cache")}
        self.environment.pop("FGL_RECORDS", None)

    def __call__(self, *words: str, status: int = 0) -> str:
        command = [sys.executable, *words]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=500
        )
        assert done.returncode == status, done.stderr
        return done.stdout + done.stderr

    def train(self, *words: str, status: int = 0) -> str:
        return self("-m", "fgl_repro.train", "--config-dir", str(self.conf), *words, "logger=disabled", status=status)

    def table(self, *words: str) -> str:
        return self("-m", "fgl_repro.cli.table", *words, "--config-dir", str(self.conf))

    @property
    def records(self) -> list[dict[str, object]]:
        return [json.loads(path.read_text()) for path in self.folder.glob("results/records/**/*.json")]


@pytest.mark.slow
def test_an_installed_package_adds_an_option_on_every_axis_and_a_table(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    axes = ("method=fedmine", "dataset=blocks", "partitioner=stripes", "setting=hubs", "model=wide", "protocol=short")
    shell.train("-m", *axes, "seed=0,1")
    assert len(shell.records) == 2
    science = shell.records[0]["config"]
    assert isinstance(science, dict)
    assert science["partitioner"] == {"name": "stripes", "width": 2, "clients": 3, "revision": 1}
    assert science["setting"] == {"world": "hubs", "degree": 2, "revision": 1}
    assert science["model"] == {"name": "wide", "factor": 2, "hidden": 8, "dropout": 0.5}
    pins = list((tmp_path / "cache" / "graphs").glob("blocks-raw-*.json"))
    assert [json.loads(pin.read_text())["nodes"] for pin in pins] == [120]

    missing = [line for line in shell.table("missing", "mine/1").splitlines() if line.startswith("python")]
    assert len(missing) == 6, "two of eight runs are done"
    assert all("--config-dir" in line for line in missing)
    shell.table("run", "mine/1", "--jobs", "2")
    assert len(shell.records) == 8
    assert "FedMine" in shell.table("show", "mine/1")
    corner = ("fedlog/1", "--datasets", "cora", "--clients", "3")
    missing = [line for line in shell.table("missing", *corner, "--add", "fedmine").splitlines() if "method=" in line]
    assert [line.split()[-1] for line in missing] == ["seed=0", "seed=1", "seed=2"], "only what is added runs"
    assert all("method=fedmine dataset=cora" in line for line in missing)
    code = "import fgl_repro; fgl_repro.search(\"my conf's\"); print(fgl_repro.run('fedmine', 'blocks', 3, 1, "
    code += "partitioner='stripes', setting='hubs', model='wide', protocol='short').source)"
    assert shell("-c", code) == "local\n", "recorded by the command line"
    told = shell.table("run", "mine/1", "--add", "fedprox", "--clients", "3")
    assert "2 runs done" in told
    assert "**FedProx" in (tmp_path / "tables/mine+fedprox/short/leaderboard_1.md").read_text()
    only = "import sys; from fgl_repro.cli import request, table; every = request.specs; "
    only += "request.specs = lambda _: every('mine'); sys.exit(table.main(['report', *sys.argv[1:]]))"
    shell("-c", only, "--config-dir", str(shell.conf))  # the report of one paper: those of all take minutes
    assert "FedMine" in (tmp_path / "tables" / "mine" / "README.md").read_text()

    refused = shell.train(*axes, "partitioner.depth=3", status=2)
    assert "partitioner.depth does not exist: the keys of partitioner are clients, width." in refused
    assert "method=fedyours does not exist: choose from coboost," in (told := shell.train("method=fedyours", status=2))
    assert "fedmine" in told
