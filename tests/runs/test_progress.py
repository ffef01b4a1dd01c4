"""What a run says of itself while nobody watches: the clock is the test's."""

from __future__ import annotations

import pytest

from fgl_repro.runs import progress


@pytest.mark.parametrize("wanted", [True, False])
def test_without_a_terminal_a_run_prints_a_line_every_half_minute(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], wanted: bool
) -> None:
    now = 0.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    with progress.RunProgress("fedavg-release cora 3c s0", wanted) as bar:
        for number, now in enumerate((1.0, 29.0, 31.0, 60.0, 62.0)):  # noqa: B007 (the clock reads it)
            bar.report("rounds", number, 100, {"validation": 0.5, "loss": 1.25, "further": 0.1})
    lines = [f"fedavg-release cora 3c s0: rounds {n}/100, validation 0.500, loss 1.250" for n in (3, 5)]
    assert capfd.readouterr().err.splitlines() == lines * wanted
