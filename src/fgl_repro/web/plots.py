"""Drawings for a browser: what was drawn with matplotlib, in Plotly's JSON, so that a figure is drawn once in code.

Lines, error bars, bands, dots, images and words are what figures here consist of; each becomes a trace or a shape in
the data units of its axes. Traces of one label share an entry of the legend, which hides them all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from fgl_repro.tables import verdict

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.container import ErrorbarContainer
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage
    from matplotlib.lines import Line2D

Trace = dict[str, Any]

SYMBOLS = {"o": "circle", "s": "square", "^": "triangle-up", "D": "diamond", "v": "triangle-down", "P": "cross"}
SYMBOLS |= {"X": "x", "*": "star", "<": "triangle-left", ">": "triangle-right", ".": "circle", "x": "x-thin-open"}
SYMBOLS |= {"p": "pentagon", "h": "hexagon"}
DASHES = {"-": "solid", "--": "dash", "-.": "dashdot", ":": "dot"}
COLOURS = {
    verdict.REPRODUCED: "#2a9d55",
    verdict.WITHIN: "#8ecae6",
    verdict.DIFFERS: "#e07a5f",
    verdict.NOTHING: "#b8b8b8",
}
SIDES = {"top": "top", "bottom": "bottom", "baseline": "bottom"}
DOTS_PER_INCH = 92
COLOURS_OF_A_MAP = 12


def plotly(draw: Callable[[Figure], None]) -> dict[str, Any]:
    """Make ``{data, layout, width}`` of what ``draw`` draws; ``width`` is what a chart needs to be read, in pixels."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained")
    FigureCanvasAgg(figure)
    draw(figure)
    figure.canvas.draw()  # which places axes and ticks
    charts = [chart for chart in figure.axes if chart.get_visible() and chart.axison]
    data: list[Trace] = []
    shown: set[str] = set()
    layout: dict[str, Any] = {"annotations": [], "shapes": []}
    for number, chart in enumerate(charts, 1):
        x, y = (axis if number == 1 else f"{axis}{number}" for axis in "xy")
        for trace in _traces(chart):
            label = trace.get("legendgroup", "")
            trace["showlegend"] = (
                bool(label) and trace["type"] == "scatter" and label not in shown and "fill" not in trace
            )
            shown |= {label} if trace["showlegend"] else set()
            data.append(trace | {"xaxis": x, "yaxis": y})
        layout |= _axes(chart, number)
        layout["annotations"] += _words(chart, x, y)
        layout["shapes"] += _across(chart, x, y)
    # matplotlib has left room for labels, titles and the legend below; a browser's letters are a little wider
    layout["margin"] = {"l": 18, "r": 0, "t": 10, "b": 0}
    layout["showlegend"] = bool(shown) and any([figure.legends, *(chart.get_legend() for chart in charts)])
    layout["legend"] = {"orientation": "h", "x": 0.5, "xanchor": "center", "y": 0.0, "yanchor": "bottom"}
    layout["height"] = max(int(DOTS_PER_INCH * figure.get_figheight()), 320)
    return {"data": data, "layout": layout, "width": int(DOTS_PER_INCH * figure.get_figwidth())}


def _traces(chart: Axes) -> Iterator[Trace]:
    from matplotlib.collections import PathCollection, PolyCollection

    taken: set[Artist] = set()
    label_of: dict[str, str] = {}
    for container in chart.containers:
        taken |= {child for child in container.get_children() if child is not None}
        yield _errorbar(container)  # type: ignore[arg-type]
    for image in chart.images:
        yield _image(image, _tick_words(chart.xaxis), _tick_words(chart.yaxis))
    for line in chart.lines:
        if line not in taken and line.get_transform() == chart.transData and len(line.get_xydata()):  # type: ignore[arg-type]
            label_of.setdefault(_colour(line.get_color()), _label(line))
            yield _line(line)
    for found in chart.collections:
        if found in taken:
            continue
        colour = _colour(found.get_facecolor()[0]) if len(found.get_facecolor()) else ""
        if isinstance(found, PolyCollection):
            for path in found.get_paths():  # several where a line breaks
                yield _band(path.vertices, colour, label_of.get(_opaque(colour), ""))
        elif isinstance(found, PathCollection):
            yield _dots(found, colour)


def _label(artist: Artist) -> str:
    """Say what the legend calls an artist; matplotlib's own names begin with an underscore and are in no legend."""
    label = str(artist.get_label())
    return "" if label.startswith("_") else label


def _colour(found: Any) -> str:
    from matplotlib.colors import to_hex

    return str(to_hex(found, keep_alpha=True))


def _opaque(colour: str) -> str:
    return f"{colour[:7]}ff"


def _numbers(values: Any) -> list[Any]:
    """Give values as JSON has them; None for what is no number."""
    return [None if isinstance(v, float) and not math.isfinite(v) else v for v in np.asarray(values).tolist()]


def _named(label: str) -> Trace:
    return {"name": label, "legendgroup": label} if label else {"name": ""}


def _line(line: Line2D) -> Trace:
    marker, dash = str(line.get_marker()), line.get_linestyle()
    modes = [*(["lines"] if dash not in ("None", "", " ") else []), *(["markers"] if marker in SYMBOLS else [])]
    pattern = DASHES.get(str(dash), "solid")
    return {
        **{"type": "scatter", "mode": "+".join(modes) or "lines", **_named(_label(line))},
        **{"x": _numbers(line.get_xdata()), "y": _numbers(line.get_ydata())},
        "line": {"color": _colour(line.get_color()), "dash": pattern, "width": float(line.get_linewidth())},
        "marker": {"symbol": SYMBOLS.get(marker, "circle"), "color": _colour(line.get_markerfacecolor()), "size": 7},
    }


def _errorbar(container: ErrorbarContainer) -> Trace:
    """Draw dots with bars, which matplotlib keeps as line segments."""
    line, _, bars = container.lines
    x, y = (np.asarray(values, float) for values in (line.get_xdata(), line.get_ydata()))
    trace = _line(line) | {"mode": "markers", **_named(_label(container))}  # type: ignore[arg-type]
    for axis, found in zip(
        (["x"] if container.has_xerr else []) + (["y"] if container.has_yerr else []), bars, strict=True
    ):
        # a bar that is not drawn has ends that are no numbers, which get_segments() would leave out
        ends = np.array([np.asarray(path.vertices)[:, "xy".index(axis)] for path in found.get_paths()])
        middle = x if axis == "x" else y
        if len(ends) == len(middle):
            spread = {"array": _numbers(ends.max(1) - middle), "arrayminus": _numbers(middle - ends.min(1))}
            trace[f"error_{axis}"] = {"type": "data", "symmetric": False, "thickness": 1.2, "width": 3, **spread}
    return trace


def _band(corners: Any, colour: str, label: str) -> Trace:
    """Draw the band around a line; it is hidden with that line."""
    x, y = np.asarray(corners).T
    fill = {"fill": "toself", "fillcolor": _rgba(colour), "line": {"width": 0}, "hoverinfo": "skip", "mode": "lines"}
    return {"type": "scatter", **_named(label), "x": _numbers(x), "y": _numbers(y), **fill}


def _rgba(colour: str) -> str:
    """Write ``#rrggbbaa`` as Plotly understands it."""
    red, green, blue, alpha = (int(colour[at : at + 2], 16) for at in (1, 3, 5, 7))
    return f"rgba({red},{green},{blue},{alpha / 255:.3f})"


def _dots(found: Any, colour: str) -> Trace:
    x, y = np.asarray(found.get_offsets()).T
    trace = {"type": "scatter", "mode": "markers", **_named(_label(found)), "x": _numbers(x), "y": _numbers(y)}
    size = float(np.sqrt(found.get_sizes().mean())) + 2 if len(found.get_sizes()) else 7.0
    return trace | {"marker": {"color": _rgba(colour) if colour else None, "size": size}}


def _image(image: AxesImage, across: Mapping[float, str], down: Mapping[float, str]) -> Trace:
    """Draw numbers as colours, with the colours of the map and its ends; a field is told by the words at its ticks."""
    left, right, bottom, top = image.get_extent()
    z: Any = np.ma.filled(np.ma.asarray(image.get_array(), float), np.nan)
    rows, columns = z.shape[:2]
    steps = np.linspace(0, 1, COLOURS_OF_A_MAP)
    low, high = (float(end) for end in image.get_clim())
    x = _middles(left, right, columns)
    y = _middles(top, bottom, rows) if image.origin == "upper" else _middles(bottom, top, rows)
    hover_text = [[", ".join(filter(None, (down.get(at), across.get(place)))) for place in x] for at in y]
    return {
        **{"type": "heatmap", "name": "", "z": [_numbers(line) for line in z], "zmin": low, "zmax": high},
        **{"x": _numbers(x), "y": _numbers(y), "hovertext": hover_text},
        "colorscale": [[float(step), _colour(image.get_cmap()(step))[:7]] for step in steps],
        "showscale": False,
        "hovertemplate": "%{hovertext} %{z:.2~f}<extra></extra>",
    }


def _middles(start: float, end: float, count: int) -> Any:
    step = (end - start) / count
    return start + step * (np.arange(count) + 0.5)


def _axes(chart: Axes, number: int) -> dict[str, Any]:
    """Set place, ends, ticks and titles of a chart's two axes."""
    from matplotlib.ticker import FixedLocator

    box, suffix = chart.get_position(), "" if number == 1 else str(number)
    out: dict[str, Any] = {}
    for name, axis, ends, domain, scale, words in (
        ("x", chart.xaxis, chart.get_xlim(), (box.x0, box.x1), chart.get_xscale(), chart.get_xlabel()),
        ("y", chart.yaxis, chart.get_ylim(), (box.y0, box.y1), chart.get_yscale(), chart.get_ylabel()),
    ):
        log = scale == "log"
        settings: dict[str, Any] = {
            "domain": [round(max(end, 0.0), 4) for end in domain],
            "range": [math.log10(end) if log else float(end) for end in ends],
            "type": "log" if log else "linear",
            "title": {"text": _lines(words), "standoff": 6},
            "anchor": f"{'y' if name == 'x' else 'x'}{suffix}",
            "zeroline": False,
            "side": _side(axis),
            "tickfont": {"size": _pixels(axis.get_major_ticks()[0].label1)} if axis.get_major_ticks() else {},
            "visible": bool(axis.get_visible() and (axis.get_ticklabels() or words)),
        }
        inside = [(at, text) for at, text in _ticks(axis) if min(ends) <= at <= max(ends)]
        # ticks that a figure has set are kept: a browser would put some between classes, which are whole
        fixed = isinstance(axis.get_major_locator(), FixedLocator)
        if fixed or any(text and not _is_number(text, at) for at, text in inside) or not inside:
            settings |= {"tickvals": [at for at, _ in inside], "ticktext": [_lines(text) for _, text in inside]}
        elif log and abs(settings["range"][1] - settings["range"][0]) >= 1:
            settings["dtick"] = 1  # powers of ten alone
        if angle := _angle(axis):
            settings |= {"tickangle": -angle, "ticklabeloverflow": "allow"}  # a browser hides what leaves the chart
        out[f"{name}axis{suffix}"] = settings
    return out


def _lines(text: str) -> str:
    """Write lines as a browser breaks them."""
    return text.replace("\n", "<br>")


def _angle(axis: Any) -> float:
    """Tell by how many degrees the words at an axis's ticks are turned to the left."""
    ticks = axis.get_major_ticks()
    return float(ticks[0].label1.get_rotation()) if ticks else 0.0


def _ticks(axis: Any) -> list[tuple[float, str]]:
    return [(float(tick.get_loc()), tick.label1.get_text()) for tick in axis.get_major_ticks()]


def _tick_words(axis: Any) -> dict[float, str]:
    """Read the words at ticks, in one line; where they are two, the first holds for the ticks after it, too."""
    out, head = {}, ""
    for at, text in _ticks(axis):
        above, two, below = text.rpartition("\n")
        head = above if two else head
        out[at] = f"{head} {below}".strip()
    return out


def _side(axis: Any) -> str:
    """Tell where an axis's ticks have their words."""
    ticks = axis.get_major_ticks()
    first, second = ("bottom", "top") if axis.axis_name == "x" else ("left", "right")
    return second if ticks and ticks[0].label2.get_visible() else first


def _pixels(text: Any) -> int:
    """Measure the height of letters, for which matplotlib has left room."""
    return round(float(text.get_fontsize()) / 72 * DOTS_PER_INCH)


def _is_number(text: str, at: float) -> bool:
    """Tell whether a tick's words are its place, as a browser would write it, too; values side by side are not."""
    try:
        return math.isclose(float(text.replace("−", "-")), at, rel_tol=0.01, abs_tol=1e-9)
    except ValueError:
        return "mathdefault" in text


def _words(chart: Axes, x: str, y: str) -> list[dict[str, Any]]:
    """Write a chart's title, and words inside it."""
    above = {"xref": f"{x} domain", "yref": f"{y} domain", "x": 0.5, "y": 1.0, "yanchor": "bottom"}
    above |= {"x": 0.0, "xanchor": "left"} if chart.get_title("left") else {}
    if _side(chart.xaxis) == "top":  # above the words at its ticks
        above["yshift"] = 17 * max(1 + text.count("\n") for _, text in _ticks(chart.xaxis))
    title = chart.get_title("left") or chart.get_title()
    out = [{"text": f"<b>{_lines(title)}</b>", "showarrow": False, **above}] if title else []
    for text in chart.texts:
        inside = text.get_transform() == chart.transData
        refs = {"xref": x, "yref": y} if inside else {"xref": f"{x} domain", "yref": f"{y} domain"}
        at = dict(zip("xy", map(float, text.get_position()), strict=True))
        label = _lines(text.get_text())
        sides = {
            "xanchor": text.get_horizontalalignment(),
            "yanchor": SIDES.get(text.get_verticalalignment(), "middle"),
        }
        look = {"size": 11} | ({"color": _colour(text.get_color())[:7]} if chart.images else {})
        out.append({"text": label, "showarrow": False, "font": look, **refs, **at, **sides})
    return out


def _across(chart: Axes, x: str, y: str) -> list[dict[str, Any]]:
    """Draw lines from side to side, and boxes, which have one axis in units of the chart."""
    out = []
    for line in chart.lines:
        if line.get_transform() == chart.transData:
            continue
        across = line.get_transform() == chart.get_yaxis_transform(which="grid")
        refs = {"xref": f"{x} domain" if across else x, "yref": y if across else f"{y} domain"}
        (x0, x1), (y0, y1) = (np.asarray(values, float)[[0, -1]] for values in (line.get_xdata(), line.get_ydata()))
        ends = {"x0": float(x0), "x1": float(x1), "y0": float(y0), "y1": float(y1)}
        dash = DASHES.get(str(line.get_linestyle()), "solid")
        look = {"color": _colour(line.get_color())[:7], "width": float(line.get_linewidth()), "dash": dash}
        out.append({"type": "line", **refs, **ends, "line": look})
    return out


def scoreboard(shares: Mapping[str, Mapping[str, object]]) -> dict[str, Any]:
    """Draw a bar a name: how its printed numbers fare, by verdict, see :func:`fgl_repro.tables.compare.shares`."""
    names = list(shares)[::-1]
    counts = {
        name: {word: int(str(count)) for word, count in shares[name].items() if word in COLOURS} for name in names
    }
    data = []
    for word in verdict.VERDICTS:
        found = [counts[name][word] for name in names]
        data.append(
            {
                **{"type": "bar", "orientation": "h", "name": word, "marker": {"color": COLOURS[word]}},
                **{"y": names, "x": [100 * counts[name][word] / sum(counts[name].values()) for name in names]},
                **{"text": [str(count or "") for count in found], "insidetextanchor": "middle", "textangle": 0},
                "hovertemplate": f"%{{y}}: %{{text}} {word}<extra></extra>",
            }
        )
    layout = {
        **{"barmode": "stack", "height": 60 + 34 * len(names), "margin": {"l": 10, "r": 20, "t": 5, "b": 45}},
        "xaxis": {"title": {"text": "printed numbers, %"}, "range": [0, 100]},
        "yaxis": {"ticksuffix": " "},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "traceorder": "normal"},
    }
    return {"data": data, "layout": layout, "width": 340}
