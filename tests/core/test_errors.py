"""What the system refuses, in one sentence."""

from __future__ import annotations

import errno
import os

import pytest

from fgl_repro.core.errors import sentence


@pytest.mark.parametrize(
    ("number", "file", "told"),
    [
        (errno.EACCES, "records", "records: Permission denied: name a place that can be read and written, or make"),
        (errno.ENOSPC, None, "No space left on device: make room here, in paths.outputs, FGL_CACHE and for temporary"),
        (errno.ECONNREFUSED, None, "Connection refused."),
    ],
)
def test_what_the_system_refuses_names_the_fix(number: int, file: str | None, told: str) -> None:
    assert sentence(OSError(number, os.strerror(number), file)).startswith(told)
