"""What a run takes of memory is its own, whatever the process took before."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch

from fgl_repro.core import memory

CPU = torch.device("cpu")
SIZE = 200_000_000
"""Bytes of an array that no other allocation hides."""


@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="only Linux forgets a peak")
def test_a_peak_is_that_of_the_run_alone() -> None:
    del (before := [np.ones(SIZE, dtype=np.uint8)])[0]
    resting = memory.begin(CPU)
    assert memory.peak(CPU) < resting + SIZE / 2e6, "an earlier run's array is forgotten"
    during = np.ones(SIZE, dtype=np.uint8)
    assert memory.peak(CPU) > resting + 0.9 * SIZE / 1e6
    assert not before
    assert during.all()


def test_a_gpu_is_made_ready_before_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch's allocator knows no device before, and says so with an error."""
    asked: list[str] = []
    monkeypatch.setattr(torch.cuda, "init", lambda: asked.append("init"))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: asked.append("empty"))
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: asked.append("reset"))
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 2_000_000)
    assert memory.begin(torch.device("cuda", 0)) == 2.0
    assert asked == ["init", "empty", "reset"]
