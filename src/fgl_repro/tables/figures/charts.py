"""How figures look: one palette that colour-blind readers can tell apart, light grids, mean with a band of one std."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

from fgl_repro.core.files import write_atomic
from fgl_repro.fl.metrics import Metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette without its yellow, which is faint on white, and some darker colours; marks differ too, for
# print without colour.
PALETTE = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00"),
    *("#000000", "#7F7F7F", "#882255", "#999933", "#5E3C99", "#8C510A"),
)
MARKS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", "p", ">", "h")
DASHES = (
    *("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (7, 3)), (0, (5, 1, 1, 1))),
    *((0, (2, 2)), (0, (9, 2, 2, 2)), (0, (6, 1, 1, 1, 1, 1))),
)

SHARED = 0.6  # part of the distance between two x that series of marks share
CLOSE = 40.0  # points; where all accuracies lie closer together, axes show their part alone

Point = tuple[float, float, float | None]
"""x, mean, std; accuracies in percent, errors as they are.

A mean is NaN where there is none, see :func:`no_point`; a std is None where there is none, as of a single seed.
"""


def style(number: int) -> tuple[str, str, object]:
    """Choose colour, mark and dash of the nth series; once colours come again, they do with other marks and dashes."""
    again, color = divmod(number, len(PALETTE))
    shifted = color + again
    return PALETTE[color], MARKS[shifted % len(MARKS)], DASHES[shifted % len(DASHES)]


def no_point(x: float) -> Point:
    """Make a point at which nothing ran, so that a line breaks there."""
    return x, math.nan, None


def aside(number: int, series: int, share: float) -> float:
    """Tell how far left or right of its x the nth series stands, where all share a part of the way from x to x + 1."""
    return share * ((number + 0.5) / series - 0.5)


def _known(points: Sequence[Point]) -> list[Point]:
    return [each for each in points if not math.isnan(each[1])]


def band(chart: Axes, points: Sequence[Point], number: int, label: str, *, marks: bool = True) -> None:
    """Draw means as a line with a band of one std that ends at 0, both broken where a point has no mean.

    Where a mean has no std, as of a single seed, there is no band: narrowed to a point it would look like certainty.
    Without any mean nothing is drawn, nor is there a word in the legend.
    """
    if _known(points):
        color, mark, dash = style(number)
        x, mean = [x for x, _, _ in points], [mean for _, mean, _ in points]
        chart.plot(x, mean, color=color, ls=dash, marker=mark if marks else None, ms=4.5, lw=1.8, label=label)
        low, high = (
            [math.nan if s is None or math.isnan(m) else max(m + sign * s, 0.0) for _, m, s in points]
            for sign in (-1, 1)
        )
        if any(map(math.isfinite, low)):
            chart.fill_between(x, low, high, color=color, alpha=0.13, lw=0)


def dots(chart: Axes, points: Sequence[Point], number: int, label: str) -> None:
    """Draw numbers above 0 as :func:`spans` does; bars end at 0."""
    spans(chart, points, number, label, floor=0.0)


def spans(chart: Axes, points: Sequence[Point], number: int, label: str, floor: float = -math.inf) -> None:
    """Draw means with error bars of one std, ending at ``floor``; without a point nothing, nor a word in the legend.

    A point without a std has no bar, and where none has one, the mark in the legend has none either.
    """
    if known := _known(points):
        color, mark, _ = style(number)
        x, mean = [x for x, _, _ in known], [mean for _, mean, _ in known]
        if all(std is None for _, _, std in known):
            chart.plot(x, mean, ls="none", marker=mark, ms=6, color=color, label=label)
            return
        above = [bar(std) for _, _, std in known]
        bars = [[min(s, m - floor) for m, s in zip(mean, above, strict=True)], above]
        chart.errorbar(x, mean, yerr=bars, fmt=mark, ms=6, color=color, elinewidth=1.2, capsize=2.5, label=label)


def bar(std: float | None) -> float:
    """Give the length of an error bar; NaN draws none, where one of length 0 would look like certainty."""
    return math.nan if std is None else std


def tidy(chart: Axes, xlabel: str, ylabel: str, title: str = "", *, whole: bool = True) -> None:
    """Give a chart its labels, light horizontal lines, no box; a chart without a point says so.

    It shows accuracies in percent from 0 to 100, or (not ``whole``) what is drawn.
    """
    if not math.isfinite(chart.dataLim.x0):
        chart.text(0.5, 0.5, "not run", transform=chart.transAxes, ha="center", color="0.5")
    chart.set_title(title, fontsize=10)
    chart.set_xlabel(xlabel)
    chart.set_ylabel(ylabel)
    if whole:
        chart.set_ylim(-3, 103)
    chart.grid(axis="y", color="0.9", lw=0.8)
    chart.set_axisbelow(True)
    chart.spines[["top", "right"]].set_visible(False)


def far_apart(heights: Sequence[float]) -> bool:
    """Tell whether accuracies in percent need the whole axis to be told apart."""
    return max(heights, default=100.0) - min(heights, default=0.0) > CLOSE


def axis(kind: Metric) -> str:
    """Say what numbers of a kind are called at their axis, and of an error that less of it is better."""
    if kind.error:
        return f"{kind.title}, less is better"
    return "accuracy (%)" if kind.title == kind.entry else f"{kind.title} (%)"


def legend(figure: Figure) -> None:
    """Draw one legend of what the charts show, below them, as wide as they are."""
    pairs = [pair for chart in figure.axes for pair in zip(*chart.get_legend_handles_labels(), strict=True)]
    named = {label: handle for handle, label in reversed(pairs)}
    labels = list(dict.fromkeys(label for _, label in pairs))
    longest = max(map(len, labels), default=1)
    columns = int(figure.get_figwidth() * 12 / (longest + 8))  # twelve letters an inch, eight for the mark
    handles = [named[label] for label in labels]
    figure.legend(handles, labels, loc="outside lower center", ncols=min(4, max(1, columns)), frameon=False)


def save(draw: Callable[[Figure], None], title: str, folder: Path, stem: str, kinds: Sequence[str]) -> list[Path]:
    """Write ``stem.png`` and so on, each whole or not at all; the same numbers give the same bytes.

    Returns:
        The files, one for each of ``kinds`` (``png``, ``svg``).
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    draw(figure)
    width = int(11 * figure.get_figwidth())
    figure.suptitle("\n".join(wrapped(line, width) for line in title.splitlines()), fontsize=10.5)
    metadata: dict[str, dict[str, str | None]] = {"png": {"Software": None}, "svg": {"Date": None}}
    files = [folder / f"{stem}.{kind}" for kind in kinds]
    for kind, path in zip(kinds, files, strict=True):
        drawn = BytesIO()
        with matplotlib.rc_context({"svg.hashsalt": stem, "svg.fonttype": "none"}):
            figure.savefig(drawn, format=kind, metadata=metadata[kind])
        write_atomic(path, drawn.getvalue())
    return files


def wrapped(text: str, width: int) -> str:
    """Break text into as few lines as ``width`` characters allow, of about one length: no word alone in the last."""
    tried = [fill(text, narrower, break_long_words=False) for narrower in range(1, width + 1)]
    return next(each for each in tried if each.count("\n") == tried[-1].count("\n"))
