"""ZINC, 250k molecules: a penalised solubility is to be predicted, environments differ in the scaffold.

Molecules: Irwin et al., "ZINC: A Free Tool to Discover Chemistry for Biology" (2012), the selection of Gomez-Bombarelli
et al. (2018). Environments and target by the rule of Gui et al., "GOOD: A Graph Out-of-Distribution Benchmark" (NeurIPS
2022), under its default seed; sets of rings and scaffolds are those of the RDKit at hand. The order of molecules, by
which clients draw theirs, is that of the published list, which GOOD keeps.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from tqdm import tqdm

from fgl_repro.core.extras import extra
from fgl_repro.core.lazy import sparse as sp
from fgl_repro.data.graph_dataset import GraphDataset, disjoint_union
from fgl_repro.data.graphset import GraphSet
from fgl_repro.data.sources.source import Source

SEED = 123
ENVIRONMENTS = 10
FIELDS = (119, 4, 11, 12, 9, 5, 8, 2, 2)
BOND_FIELDS = (5, 6, 2)
CHARGE = 5  # charges begin at -5
HYBRIDISATIONS = ("UNSPECIFIED", "S", "SP", "SP2", "SP3", "SP3D", "SP3D2", "OTHER")
BOND_KINDS = ("misc", "SINGLE", "DOUBLE", "TRIPLE", "AROMATIC")
STEREO = ("STEREONONE", "STEREOZ", "STEREOE", "STEREOCIS", "STEREOTRANS", "STEREOANY")
_CONTENT = "df0aa677c770f15c9943684d6600cba8e7076c67be6a090c12f24da3aaa55b70"


def _read(root: Path) -> list[str]:
    """Read the molecules as SMILES, one a line."""
    content = gzip.decompress((root / "ZINC" / "zinc250k_smiles.txt.gz").read_bytes())
    if (found := hashlib.sha256(content).hexdigest()) != _CONTENT:
        raise ValueError(f"its contents have SHA-256 {found[:12]}..., expected {_CONTENT[:12]}...")
    return content.decode().split()


@dataclass
class ZincScaffold(GraphDataset):
    """Environments are ten runs of molecules in the order of their Murcko scaffolds."""

    name: ClassVar[str] = "zinc_scaffold"
    source: ClassVar[Source | None] = Source(
        folder="ZINC",
        urls={"zinc250k_smiles.txt.gz": "https://github.com/wenhao-gao/mol_opt/raw/main/data/zinc.txt.gz"},
        pinned=False,
        read=_read,
    )

    made_with: ClassVar[Mapping[str, str]] = {"rdkit": "2026.9.1"}

    def graphs(self, cache: Path) -> GraphSet:
        from fgl_repro.data import download

        chem = Chemistry(self.name)
        smiles = download.obtain(self.name, cache)
        scaffolds = [chem.scaffold(one) for one in self._bar(smiles, "scaffolds")]
        chosen, environment = training(scaffolds)
        molecules = [chem.molecule(smiles[one]) for one in self._bar(chosen, "molecules")]
        return molecule_set(self.name, molecules, environment)

    def _bar(self, items: Sequence[Any], what: str) -> Any:
        return tqdm(items, desc=f"{self.name}: {what}", unit="molecule", unit_scale=True, leave=False, disable=None)


def training(scaffolds: Sequence[str], seed: int = SEED) -> tuple[list[int], np.ndarray]:
    """Draw the benchmark's training molecules.

    They are given by their place in the file, with the environment of each, ascending ``[G]``. Molecules are sorted by
    scaffold, descending. The first 80 %, to the end of a scaffold, are cut in ten: a new environment begins with the
    first new scaffold after each tenth. They are shuffled, and as many as 20 % of all are left out, which are
    validation and test sets of the benchmark.
    """
    count = len(scaffolds)
    order = sorted(range(count), key=lambda one: scaffolds[one])[::-1]
    new = [True, *(scaffolds[a] != scaffolds[b] for a, b in zip(order[1:], order, strict=False)), True]
    end = next(place for place in range(int(0.8 * count), count + 1) if new[place])
    environment = np.zeros(end, dtype=np.int64)
    for begin in range(1, ENVIRONMENTS):
        aim = begin * (end // ENVIRONMENTS)
        environment[next(place for place in range(aim, end + 1) if new[place]) :] = begin
    rng = random.Random(seed)
    rng.shuffle(list(range(count)))  # the benchmark's set without shift comes first
    for _ in range(int(0.6 * count)):
        rng.randint(0, ENVIRONMENTS - 1)
    places = list(range(end))
    rng.shuffle(places)
    kept = np.array(places[: end - 2 * int(0.1 * count)])
    kept = kept[np.argsort(environment[kept], kind="stable")]
    return [order[place] for place in kept], environment[kept]


@dataclass(frozen=True)
class Molecule:
    """One molecule.

    Attributes:
        atoms: Categories of each atom, uint8 ``[n, 9]``.
        ends: Bonds in both directions, in the order of their first atom and then their second, ``[2, b]``.
        bonds: Categories of each bond, uint8 ``[b, 3]``.
        target: logP - synthetic accessibility - rings of six atoms or more.
    """

    atoms: np.ndarray
    ends: np.ndarray
    bonds: np.ndarray
    target: float


class Chemistry:
    """What RDKit computes of molecules."""

    def __init__(self, needed_by: str) -> None:
        self.rdkit = extra("rdkit.Chem", "molecules", needed_by)
        self.murcko = extra("rdkit.Chem.Scaffolds.MurckoScaffold", "molecules", needed_by)
        self.crippen = extra("rdkit.Chem.Crippen", "molecules", needed_by)
        self.accessibility = _accessibility()

    def scaffold(self, smiles: str) -> str:
        """Return the Murcko scaffold without chirality; empty if there is no ring."""
        found: str = self.murcko.MurckoScaffoldSmiles(smiles=smiles, includeChirality=False)
        return found

    def molecule(self, smiles: str) -> Molecule:
        molecule = self.rdkit.MolFromSmiles(smiles)
        atoms = np.array([_atom(atom) for atom in molecule.GetAtoms()], dtype=np.uint8)
        bonds = {}
        for bond in molecule.GetBonds():
            first, second = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
            bonds[first, second] = bonds[second, first] = _bond(bond)
        ordered = sorted(bonds)
        ends = np.array(ordered, dtype=np.uint8).reshape(-1, 2).T
        codes = np.array([bonds[pair] for pair in ordered], dtype=np.uint8).reshape(-1, len(BOND_FIELDS))
        return Molecule(atoms, ends, codes, self.target(molecule))

    def target(self, molecule: Any) -> float:
        rings = sum(len(ring) >= 6 for ring in molecule.GetRingInfo().AtomRings())
        return float(self.crippen.MolLogP(molecule) - self.accessibility(molecule) - rings)


def molecule_set(name: str, molecules: Sequence[Molecule], environment: np.ndarray) -> GraphSet:
    """Turn molecules into graphs whose categories are one-hot blocks of columns."""
    sizes, counts = np.array([(len(one.atoms), len(one.bonds)) for one in molecules]).T
    ptr, links = disjoint_union(sizes, counts, np.concatenate([one.ends for one in molecules], axis=1))
    codes = np.concatenate([one.atoms for one in molecules])
    columns = (codes + np.cumsum([0, *FIELDS[:-1]], dtype=np.int32)).ravel()
    starts = np.arange(len(codes) + 1, dtype=np.int32) * np.int32(len(FIELDS))
    ones = np.ones(len(columns), dtype=np.float32)
    return GraphSet.of(
        name,
        ptr,
        sp.csr_matrix((ones, columns, starts), shape=(len(codes), sum(FIELDS))),
        links,
        environment,
        targets=np.array([one.target for one in molecules], dtype=np.float32),
        fields=FIELDS,
        bonds=np.concatenate([one.bonds for one in molecules]),
        bond_fields=BOND_FIELDS,
    )


def _atom(atom: Any) -> tuple[int, ...]:
    """Return the nine categories of an atom."""
    if (chiral := int(atom.GetChiralTag())) >= FIELDS[1]:
        raise ValueError(f"{atom.GetChiralTag()} is no chirality of an atom that the features know")
    return (
        atom.GetAtomicNum(),
        chiral,
        atom.GetTotalDegree(),
        atom.GetFormalCharge() + CHARGE,
        atom.GetTotalNumHs(),
        atom.GetNumRadicalElectrons(),
        HYBRIDISATIONS.index(str(atom.GetHybridization())),
        int(atom.GetIsAromatic()),
        int(atom.IsInRing()),
    )


def _bond(bond: Any) -> tuple[int, int, int]:
    """Return the three categories of a bond: type, stereo configuration, conjugated or not."""
    kind = str(bond.GetBondType())
    return (
        BOND_KINDS.index(kind) if kind in BOND_KINDS else 0,
        STEREO.index(str(bond.GetStereo())),
        int(bond.GetIsConjugated()),
    )


def _accessibility() -> Callable[[Any], float]:
    """Load the synthetic accessibility score among RDKit's contributions, which are no package."""
    from rdkit.Chem import RDConfig

    path = Path(RDConfig.RDContribDir) / "SA_Score" / "sascorer.py"
    spec = importlib.util.spec_from_file_location("fgl_repro_sascorer", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    score: Callable[[Any], float] = module.calculateScore
    return score
