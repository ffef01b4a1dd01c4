"""Switches of the whole process are put back."""

from __future__ import annotations

import pytest
import torch

from fgl_repro.core.device import one_thread


def test_one_thread_is_for_what_runs_inside_alone() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with one_thread():
            assert torch.get_num_threads() == 1
        with one_thread(wanted=False):
            assert torch.get_num_threads() == 2
        with pytest.raises(ZeroDivisionError), one_thread():
            print(1 / 0)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
