"""Drawings in Plotly's JSON are the drawings that matplotlib made."""

from __future__ import annotations

import json
import math
from functools import partial

import numpy as np
import pytest
from matplotlib.figure import Figure

from fgl_repro.tables import verdict
from fgl_repro.tables.figures import charts
from fgl_repro.web import plots


def traces(draw, kind="scatter"):
    found = plots.plotly(draw)
    json.dumps(found, allow_nan=False)  # browsers read no NaN
    return [trace for trace in found["data"] if trace["type"] == kind], found["layout"]


def test_a_line_with_its_band_shares_an_entry_of_the_legend():
    def draw(figure: Figure):
        charts.band(figure.subplots(), [(1, 50.0, 2.0), (2, 60.0, 4.0)], 1, "FedAvg")

    (line, band), _ = traces(draw)
    if "fill" in line:
        line, band = band, line
    assert (line["x"], line["y"]) == ([1, 2], [50.0, 60.0])
    assert line["line"]["color"].lower().startswith(charts.PALETTE[1].lower())
    assert line["marker"]["symbol"] == "square"
    assert line["showlegend"]
    assert line["legendgroup"] == band["legendgroup"] == "FedAvg"
    assert not band["showlegend"]
    assert {48.0, 52.0, 56.0, 64.0} <= set(band["y"])


def test_a_line_breaks_where_nothing_ran_and_its_band_too():
    def draw(figure: Figure):
        places = [(0, 50.0, 1.0), (1, 51.0, 1.0), charts.no_point(2), (3, 53.0, 1.0), (4, 54.0, 1.0)]
        charts.band(figure.subplots(), places, 0, "FedAvg")

    found, _ = traces(draw)
    (line,) = (trace for trace in found if "fill" not in trace)
    bands = [trace for trace in found if "fill" in trace]
    assert line["y"] == [50.0, 51.0, None, 53.0, 54.0], "Plotly joins nothing across what is missing"
    assert [(min(band["x"]), max(band["x"])) for band in bands] == [(0, 1), (3, 4)]
    assert sum(trace["showlegend"] for trace in found) == 1


def test_error_bars_keep_their_two_ends():
    def draw(figure: Figure):
        charts.dots(figure.subplots(), [(0, 1.0, 2.0), (1, 5.0, 0.5), (2, 7.0, None)], 0, "Local")

    (dots,), _ = traces(draw)
    assert dots["mode"] == "markers"
    assert dots["name"] == "Local"
    assert dots["error_y"]["array"] == [2.0, 0.5, None], "a single seed has none"
    assert dots["error_y"]["arrayminus"] == [1.0, 0.5, None], "bars end at 0"
    assert "error_x" not in dots


def test_a_legend_is_there_where_the_figure_has_one():
    def draw(figure: Figure, *, legend: bool):
        charts.band(figure.subplots(), [(1, 50.0, 2.0), (2, 60.0, 4.0)], 0, "FedAvg")
        if legend:
            charts.legend(figure)

    for legend in (True, False):
        assert traces(partial(draw, legend=legend))[1]["showlegend"] is legend


def test_every_mark_has_its_like_in_a_browser():
    assert set(charts.MARKS) <= set(plots.SYMBOLS)
    assert len({plots.SYMBOLS[mark] for mark in charts.MARKS}) == len(charts.MARKS)


def test_an_image_is_a_heatmap_that_stands_as_it_was_drawn():
    values = np.arange(6.0).reshape(2, 3)
    (image,), layout = traces(lambda figure: figure.subplots().imshow(values, cmap="Blues"), "heatmap")
    assert image["z"] == values.tolist()
    assert image["x"] == [0, 1, 2]
    assert image["y"] == [0, 1]
    assert layout["yaxis"]["range"][0] > layout["yaxis"]["range"][1]  # the first line is above


def test_a_field_of_an_image_is_told_by_the_words_at_its_ticks_and_keeps_the_colour_of_its_number():
    def draw(figure: Figure):
        chart = figure.subplots()
        chart.imshow(np.ma.masked_equal([[1.0, 2.0], [3.0, 0.0]], 0.0), cmap="Blues")
        chart.set_xticks([0, 1], ["Cora\n3", "5"])
        chart.set_yticks([0, 1], ["Local", "FedAvg"])
        chart.tick_params(labeltop=True, labelbottom=False)
        chart.text(1, 0, "+2", color="white")
        chart.set_title("1  Accuracy", loc="left")

    (image,), layout = traces(draw, "heatmap")
    assert image["z"] == [[1.0, 2.0], [3.0, None]]
    assert image["hovertext"] == [["Local, Cora 3", "Local, Cora 5"], ["FedAvg, Cora 3", "FedAvg, Cora 5"]]
    assert (layout["xaxis"]["side"], layout["yaxis"]["side"]) == ("top", "left")
    title, number = layout["annotations"]
    assert (title["text"], title["xanchor"]) == ("<b>1  Accuracy</b>", "left")
    assert title["yshift"] > 0  # above the words at the ticks
    assert number["font"]["color"] == "#ffffff"


def test_numbers_that_stand_evenly_keep_their_names():
    def draw(figure: Figure):
        chart = figure.subplots()
        chart.plot([0, 1, 2], [1.0, 2.0, 3.0])
        chart.set_xticks([0, 1, 2], ["0.0", "3.0", "20.0"])

    _, layout = traces(draw)
    assert layout["xaxis"]["tickvals"] == [0, 1, 2]
    assert layout["xaxis"]["ticktext"] == ["0.0", "3.0", "20.0"]
    assert "ticktext" not in layout["yaxis"]


def test_axes_keep_titles_ends_words_and_logarithms():
    def draw(figure: Figure):
        left, right = figure.subplots(1, 2)
        left.plot([0, 1], [1.0, 100.0])
        left.set_yscale("log")
        left.set_ylim(1, 1000)
        left.set_xticks([0, 1], ["up", "down"])
        left.set_title("Bytes")
        right.axhline(3.0, color="red")
        right.set_xlabel("round")
        right.text(0.5, 0.5, "not run", transform=right.transAxes)

    _, layout = traces(draw)
    assert layout["yaxis"]["type"] == "log"
    assert layout["yaxis"]["range"] == pytest.approx([0, 3])
    assert layout["xaxis"]["ticktext"] == ["up", "down"]
    assert layout["xaxis2"]["title"]["text"] == "round"
    assert layout["xaxis"]["domain"][1] < layout["xaxis2"]["domain"][0]
    words = {note["text"]: note for note in layout["annotations"]}
    assert words["<b>Bytes</b>"]["xref"] == "x domain"
    assert words["not run"]["xref"] == "x2 domain"
    (across,) = layout["shapes"]
    assert (across["xref"], across["yref"], across["y0"]) == ("x2 domain", "y2", 3.0)


def test_ticks_that_a_figure_sets_are_all_there_is_and_words_keep_their_angle():
    def draw(figure: Figure):
        chart = figure.subplots()
        chart.plot([0, 1, 2], [0.1, 1.0, 100.0])
        chart.set_yscale("log")
        chart.set_ylabel("megabytes\nof a client")
        chart.set_xticks([0, 1, 2])
        chart.tick_params(axis="x", rotation=60)

    _, layout = traces(draw)
    assert (layout["xaxis"]["tickvals"], layout["xaxis"]["ticktext"]) == ([0, 1, 2], ["0", "1", "2"])
    assert (layout["xaxis"]["tickangle"], layout["xaxis"]["ticklabeloverflow"]) == (-60, "allow")
    assert "tickangle" not in layout["yaxis"]
    assert layout["yaxis"]["dtick"] == 1, "several decades have a tick each"
    assert layout["yaxis"]["title"]["text"] == "megabytes<br>of a client"


def test_numbers_that_are_none_are_blank():
    (line,), _ = traces(lambda figure: figure.subplots().plot([0, 1, 2], [1.0, math.nan, 2.0], label="a"))
    assert line["y"] == [1.0, None, 2.0]


def test_bars_of_the_scoreboard_are_shares():
    found = plots.scoreboard({"A, a": {"cells": 4, **dict.fromkeys(verdict.VERDICTS, 1)}})
    assert [trace["name"] for trace in found["data"]] == list(verdict.VERDICTS)
    assert [trace["x"] for trace in found["data"]] == [[25.0]] * 4
