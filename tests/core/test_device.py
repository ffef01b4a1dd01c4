"""Switches of the whole process are set only where they have to be, and put back."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from fgl_repro.core.device import one_thread, prepare

CPU = torch.device("cpu")


def test_a_run_starts_without_what_it_does_not_use() -> None:
    """Each of these takes a second or two to import, in every run and in every worker of a sweep."""
    code = "import sys, torch, fgl_repro.runs.execute as runs; runs.prepare(torch.device('cpu'), 1, False); "
    code += "names = {'torch._dynamo', 'scipy.stats', 'pandas', 'torch_geometric'} & set(sys.modules); "
    code += "sys.exit(f'imported {names}' if names else 0)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_sums_in_a_fixed_order_are_asked_for_by_the_run_that_follows_alone() -> None:
    try:
        for wanted in (True, True, False, False, True, False):
            prepare(CPU, 1, deterministic=wanted)
            assert torch.are_deterministic_algorithms_enabled() == wanted
    finally:
        torch.use_deterministic_algorithms(False)


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
