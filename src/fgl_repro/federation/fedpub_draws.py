"""The order in which the released generators of FED-PUB (ICML 2023) draw, so that their draws can be repeated.

A script seeds Python's and torch's generators once, with 1234, and goes through the data sets and, for each, the
client counts. What a data set gets therefore depends on all that was drawn before it. For overlapping clients two
printed facts show it: the halves of Cora, CiteSeer and PubMed have the nine mean numbers of edges of the supplement's
Table 1, and with 30 clients on Cora the commonest class is 29.94 % of the test nodes, mean over clients, which Table
6 prints for models that have not learned yet. That the script for disjoint clients does the same is inferred: with
the second permutation FedAvg's printed accuracy comes back for 10 clients on Cora, with the first it does not. The
data set after PubMed is presumably ogbn-arxiv, whose parts we do not have; all others start afresh here.
"""

from __future__ import annotations

ORDER = ("cora", "citeseer", "pubmed")
COUNTS = {False: (5, 10, 20), True: (10, 30, 50)}
"""Client counts, by whether clients share nodes."""


def turns_before(name: str, clients: int, overlap: bool) -> list[tuple[str, int]]:
    """Data set and client count of every draw before the one for ``clients`` clients on ``name``.

    A count that the generator does not have takes its data set's first turn; a data set that it does not have starts
    afresh, with the counts in the same order.
    """
    counts = COUNTS[overlap]
    turns = [(each, count) for each in (ORDER if name in ORDER else (name,)) for count in counts]
    return turns[: turns.index((name, clients if clients in counts else counts[0]))]
