"""Fixtures shared by all tests: real graphs where they can be had, and a toy graph that needs nothing."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import settings

from fgl_repro.data import load
from fgl_repro.data.download import DataUnavailableError
from fgl_repro.data.graph import Graph
from fgl_repro.runs.folders import RESULTS

os.environ.setdefault("OMP_NUM_THREADS", "1")  # for torch, imported later, and for child processes


def pytest_configure(config: pytest.Config) -> None:
    settings.register_profile("no clock", deadline=None)  # a busy machine is no failure
    settings.load_profile("no clock")
    config.addinivalue_line("markers", "network: needs a package index; skips with a reason without one")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is costly to set up comes first: a worker that has nothing left to do takes from the end of another's tests,
    and would build the web site once more.
    """
    items.sort(key=lambda item: item.path.name != "test_site.py")


@pytest.fixture(autouse=True)
def _nothing_published_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command in an empty folder reads the published runs that lie beside the code; a test has its own."""
    monkeypatch.setattr("fgl_repro.cli.arguments.default_results", lambda: RESULTS)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    """Torch on one thread, in tests that use it, and denormals as Python has them, which a run sets aside."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
        sys.modules["torch"].set_flush_denormal(False)


@pytest.fixture(scope="session")
def data_root() -> Path | None:
    """Folder of raw files named by FGL_DATA, or None."""
    value = os.environ.get("FGL_DATA")
    return Path(value) if value and Path(value).is_dir() else None


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository's cache folder, or a temporary one where that cannot be written."""
    folder = Path(__file__).parents[1] / "cache"
    try:
        folder.mkdir(exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def real_graph(cache: Path) -> Callable[..., Graph]:
    """``real_graph("cora", features="row")``; the test is skipped, with the reason, if no source has the data."""
    graphs: dict[tuple[str, str, str], Graph] = {}
    absent: dict[str, str] = {}

    def get(name: str, features: str = "row", component: str = "largest") -> Graph:
        if name not in absent and (name, features, component) not in graphs:
            try:
                graphs[name, features, component] = load(name, cache, features, component)
            except DataUnavailableError as error:
                absent[name] = str(error)
        if name in absent:
            pytest.skip(absent[name])
        return graphs[name, features, component]

    return get


def stochastic_block_graph(
    sizes: tuple[int, ...] = (44, 34, 26, 16),
    features: int = 16,
    inside: float = 0.12,
    across: float = 0.012,
    seed: int = 0,
) -> Graph:
    """Stochastic block model with class-dependent binary features, row-normalised; no node is isolated.

    Node ids are shuffled, so classes are not contiguous. ``features`` must be at least the number of classes.
    """
    rng = np.random.default_rng(seed)
    classes, n = len(sizes), sum(sizes)
    labels = rng.permutation(np.repeat(np.arange(classes), sizes)).astype(np.int64)
    probability = np.where(labels[:, None] == labels[None, :], inside, across)
    upper = np.triu(rng.random((n, n)) < probability, k=1)
    for node in range(n):  # one sure neighbour of the same class each
        peers = np.flatnonzero((labels == labels[node]) & (np.arange(n) != node))
        upper[tuple(sorted((node, int(rng.choice(peers)))))] = True
    own_word = np.arange(features)[None, :] % classes == labels[:, None]
    words = rng.random((n, features)) < np.where(own_word, 0.5, 0.1)
    words[np.arange(n), labels] = True
    bag = words.astype(np.float32)
    return Graph(
        name="toy",
        features=sp.csr_matrix(bag / bag.sum(axis=1, keepdims=True)),
        adjacency=sp.csr_matrix((upper | upper.T).astype(np.float32)),
        labels=labels,
        num_classes=classes,
        original_id=np.arange(n, dtype=np.int32),
    )


@pytest.fixture(scope="session")
def toy_graph() -> Graph:
    """120 nodes, 4 classes of different sizes, 16 features."""
    return stochastic_block_graph()


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of sweeps are made up, see ``support.fake_run``."""
    monkeypatch.setattr("fgl_repro.runs.sweep.run_all.__kwdefaults__", {"execute": "support.fake_run:execute"})


@pytest.fixture
def made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs from Python are made up, in a folder where nothing has run yet."""
    from fgl_repro.runs import obtain
    from support.sweeps import PLACE

    monkeypatch.chdir(tmp_path)
    for folder in PLACE.values():
        Path(folder).mkdir()
    execute = "support.fake_run:execute"
    monkeypatch.setattr(obtain, "obtain", partial(obtain.obtain, execute=execute))
    monkeypatch.setattr("fgl_repro.runs.sweep.run_all.__kwdefaults__", {"execute": execute})
