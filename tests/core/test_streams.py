"""Named random streams: none is another one, for any seed."""

from __future__ import annotations

from fgl_repro.core.streams import numpy_rng, stream_seed


def test_streams_differ_by_name_and_by_seed() -> None:
    seeds = {stream_seed(name, seed) for name in ("split", "init", "dropout") for seed in range(3)}
    assert len(seeds) == 9
    assert numpy_rng("split", 0).random() != numpy_rng("crop", 0).random()


def test_seeds_of_streams_are_promises() -> None:
    """Every recorded number is a function of them."""
    assert stream_seed("split", 0) == 4719946621281231735
    assert stream_seed("init", 1) == 8589851229162487040
