"""O-pFGL's clients and node roles as its released code draws them: by its libraries, in its order of draws.

For each data set named it draws the divisions of the whole graph into ten clients, by Louvain and by Metis, and says
whether they are the stored ones: the published ones of Cora and CiteSeer, or the recomputed ones of the others.
``--out`` writes them. Louvain needs python-louvain, which nothing else here does: ``pip install python-louvain==0.16``.

    python scripts/opfgl_divisions.py cora citeseer
    python scripts/opfgl_divisions.py photo --cuts metis --out divisions.npz
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import grid
from fgl_repro.config import build
from fgl_repro.core.errors import UserError
from fgl_repro.core.files import cache_folder
from fgl_repro.data.graph import Graph
from fgl_repro.federation.partitioners.opfgl import DELTA, PACKS, STARTS, Grouped, chopped

SEED, CLIENTS = 42, 10
TRAINING, VALIDATION = 0.2, 0.4
GIVEN_UP = 1000
"""Packs that are tried for a piece before the emptiest one takes it."""


def metis_packs(adjacency: sp.csr_matrix) -> list[list[int]]:
    """Nodes of each pack, by METIS with its own seed."""
    import pymetis

    links = pymetis.CSRAdjacency(adjacency.indptr.tolist(), adjacency.indices.tolist())
    part = np.asarray(pymetis.part_graph(PACKS, links).vertex_part)
    return [np.flatnonzero(part == pack).tolist() for pack in range(PACKS)]


def louvain_packs(adjacency: sp.csr_matrix) -> list[list[int]]:
    """Nodes of each pack, by python-louvain, which draws from numpy's global stream."""
    try:
        from community import community_louvain
    except ImportError:
        raise UserError("python-louvain is not installed: pip install python-louvain==0.16, or --cuts metis.") from None
    import networkx as nx

    graph = nx.Graph()
    graph.add_nodes_from(range(adjacency.shape[0]))
    graph.add_edges_from((node, int(to)) for node in range(adjacency.shape[0]) for to in adjacency[node].indices)
    groups: dict[int, list[int]] = {}
    for node, group in community_louvain.best_partition(graph).items():
        groups.setdefault(group, []).append(node)
    quota = adjacency.shape[0] // PACKS
    pieces = chopped([np.array(nodes) for nodes in groups.values()], quota - DELTA)
    return dealt([piece.tolist() for piece in pieces], quota)


def dealt(pieces: list[list[int]], quota: int) -> list[list[int]]:
    """Packs of pieces, the largest first: a pack with its quota is closed, and one without room is passed over."""
    packs: list[list[int]] = [[] for _ in range(PACKS)]
    unfilled, at = list(range(PACKS)), 0
    for piece in sorted(pieces, key=len, reverse=True):
        while len(unfilled) >= 2 and len(packs[unfilled[at]]) >= quota:
            del unfilled[at]
            at %= len(unfilled)
        tried = 0
        while len(packs[unfilled[at]]) + len(piece) >= quota + DELTA:
            at, tried = (at + 1) % len(unfilled), tried + 1
            if tried > GIVEN_UP:
                at = emptiest(packs, unfilled, at)
                break
        packs[unfilled[at]] += piece
    return [nodes for nodes in packs if nodes]


def emptiest(packs: list[list[int]], unfilled: list[int], at: int) -> int:
    """The code's search for the pack with fewest nodes, which looks at the one at hand and at those before its find."""
    least = float("inf")
    for place in range(len(unfilled)):
        if len(packs[unfilled[at]]) < least:
            least, at = len(packs[unfilled[at]]), place
    return at


def clusters(points: np.ndarray, count: int) -> np.ndarray:
    """Cluster of each point ``[P, C]`` as scikit-learn 1.2's k-means has it, with its draws from numpy's global stream.

    Ten starts by k-means++, Lloyd's steps, the smallest inertia; int64 ``[P]``.
    """
    points = points - points.mean(0)
    tolerance = float(np.mean(np.var(points, axis=0))) * 1e-4
    best: tuple[float, np.ndarray] | None = None
    for _ in range(STARTS):
        found, inertia = lloyd(points, spread_out(points, count), tolerance)
        if best is None or (inertia < best[0] and not same_clusters(found, best[1])):
            best = inertia, found
    assert best is not None
    return best[1]


def squared(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Squared distances of each row of one array from each row of the other, expanded as scikit-learn does."""
    return np.maximum((a**2).sum(1)[:, None] - 2 * a @ b.T + (b**2).sum(1)[None], 0)


def spread_out(points: np.ndarray, count: int) -> np.ndarray:
    """First centres by k-means++: of a few candidates each the one that leaves least."""
    stream, trials = np.random.mtrand._rand, 2 + int(np.log(count))
    centres = points[[stream.randint(len(points))]]
    closest = squared(centres, points)[0]
    for _ in range(1, count):
        drawn = stream.random_sample(trials) * closest.sum()
        tried = np.clip(np.searchsorted(np.cumsum(closest), drawn), None, len(points) - 1)
        left = np.minimum(closest, squared(points[tried], points))
        taken = left.sum(1).argmin()
        closest, centres = left[taken], np.concatenate([centres, points[tried[[taken]]]])
    return centres


def nearest(points: np.ndarray, centres: np.ndarray) -> np.ndarray:
    return ((centres**2).sum(1)[None] - 2 * points @ centres.T).argmin(1)


def lloyd(points: np.ndarray, centres: np.ndarray, tolerance: float, most: int = 300) -> tuple[np.ndarray, float]:
    """Clusters and their inertia after Lloyd's steps; an empty cluster takes the point that lies farthest out."""
    before: np.ndarray | None = None
    for _ in range(most):
        found = nearest(points, centres)
        sizes, sums = np.bincount(found, minlength=len(centres)).astype(float), np.zeros_like(centres)
        np.add.at(sums, found, points)
        empty = np.flatnonzero(sizes == 0)
        out = np.argpartition(((points - centres[found]) ** 2).sum(1), -max(len(empty), 1))
        for cluster, point in zip(empty, out[: -len(empty) - 1 : -1], strict=False):
            sums[found[point]] -= points[point]
            sums[cluster], sizes[cluster] = points[point], 1
            sizes[found[point]] -= 1
        moved = sums / sizes[:, None]
        shift, centres = float(((moved - centres) ** 2).sum()), moved
        if before is not None and np.array_equal(found, before):
            break
        before = found
        if shift <= tolerance:
            found = nearest(points, centres)
            break
    return found, float(((points - centres[found]) ** 2).sum())


def same_clusters(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether each cluster of one is within one cluster of the other."""
    pairs = {(int(x), int(y)) for x, y in zip(a, b, strict=True)}
    return len(pairs) == len(set(a.tolist()))


def divide(graph: Graph, cut: str, clients: int) -> tuple[np.ndarray, np.ndarray]:
    """Client and role (0 training, 1 validation, 2 test) of each node, uint8 ``[N]``."""
    random.seed(SEED)
    np.random.seed(SEED)  # the code's libraries draw from the global streams
    adjacency = graph.adjacency.tocsr()
    adjacency.sort_indices()
    packs = louvain_packs(adjacency) if cut == "louvain" else metis_packs(adjacency)
    shares = np.stack([np.bincount(graph.labels[pack], minlength=graph.num_classes) for pack in packs]).astype(float)
    group = clusters(shares / shares.sum(1, keepdims=True), clients)
    client, role = np.empty((2, graph.num_nodes), np.uint8)
    for k in range(clients):
        own = [node for pack, found in zip(packs, group, strict=True) if found == k for node in pack]
        client[own] = k
        of_class: dict[int, list[int]] = {}
        for node in own:
            of_class.setdefault(int(graph.labels[node]), []).append(node)
        for nodes in (of_class[label] for label in sorted(of_class)):
            random.shuffle(nodes)
            train = int(len(nodes) * TRAINING)
            role[nodes] = 2
            role[nodes[: train + int(len(nodes) * VALIDATION)]] = 1
            role[nodes[:train]] = 0
    return client, role


def stored_division(graph: Graph, cut: str, clients: int, drawn: tuple[np.ndarray, np.ndarray]) -> str:
    """Which of the package's divisions of ``graph`` was drawn: ``published, to the bit``, or that none was."""
    apart = {}
    for division in ("published", "published_mkl", "recomputed"):
        parts = build({"partitioner.division": division}, partitioner=f"opfgl_{cut}", clients=clients).partitioner
        assert isinstance(parts, Grouped)
        kept = parts.stored(graph, clients, "client"), parts.stored(graph, clients, "role")
        if kept[0] is not None and kept[1] is not None:
            apart[division] = sum(int((a != b).sum()) for a, b in zip(drawn, kept, strict=True))
    if not apart:
        return "none is stored"
    same = next((division for division, count in apart.items() if count == 0), None)
    return f"{same}, to the bit" if same else f"none of {', '.join(apart)}"


def main() -> int:
    """Draw the divisions, and print which of the stored ones they are."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("datasets", nargs="+", metavar="DATASET", help="cora, citeseer, photo, computers, cs, physics")
    words.add_argument("--cuts", nargs="+", default=["louvain", "metis"], choices=["louvain", "metis"])
    words.add_argument("--clients", type=int, default=CLIENTS, help=f"default {CLIENTS}")
    words.add_argument("--out", type=Path, help="an .npz with client and role of every node")
    args = words.parse_args()
    made: dict[str, np.ndarray] = {}
    for name in args.datasets:
        config = build(dataset=name, method="local", protocol="opfgl_whole", setting="plain", clients=args.clients)
        graph = config.dataset.load(cache_folder())
        for cut in args.cuts:
            drawn = divide(graph, cut, args.clients)
            stem = f"{name}/{cut}/{args.clients}"
            made |= dict(zip((f"{stem}/client", f"{stem}/role"), drawn, strict=True))
            print(f"{name}, {cut}: {stored_division(graph, cut, args.clients, drawn)}")
    if args.out:
        np.savez_compressed(args.out, **made)
    return 0


if __name__ == "__main__":
    grid.run(main)
