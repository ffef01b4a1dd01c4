"""Method cards as pages."""

from __future__ import annotations

import pytest

from fgl_repro.core import registry
from fgl_repro.web import cards


@pytest.mark.parametrize(
    ("plain", "html"),
    [
        ("S_ij = cos(e_i, e_j)", "S<sub>ij</sub> = cos(e<sub>i</sub>, e<sub>j</sub>)"),
        ("theta_i <- sum_j alpha_ij theta_j", "θ<sub>i</sub> ← ∑<sub>j</sub> α<sub>ij</sub> θ<sub>j</sub>"),
        ("|x|^2 / M^2 <= tau * y", "|x|^2 / M<sup>2</sup> ≤ τ · y"),
        ("w_{ij} < 1", "w<sub>ij</sub> &lt; 1"),
    ],
)
def test_equations_are_set(plain, html):
    assert cards.equation(plain) == html


def test_a_page_has_prose_equations_variants_options_and_tables():
    page = cards.page("fedpub", {"../fedlog/fedlog/table_1.md": "FedLoG, Table 1"})
    assert page.startswith("# FED-PUB\n")
    assert '<div class="fgl-equation">' in page
    assert "S<sub>ij</sub>" in page
    assert "- **release** " in page
    assert "- **paper** " in page
    assert "| `tau` " in page
    assert "`conf/method/fedpub.yaml`" in page
    assert "- [FedLoG, Table 1](../fedlog/fedlog/table_1.md)" in page


def options_of(name):
    section = cards.page(name, {}).partition("## Options\n\n")[2].partition("\n\n")[0]
    lines = [[word.strip() for word in line.split("|")[1:-1]] for line in section.splitlines()[2:]]
    return {line[0].strip("`"): line[1:] for line in lines}


def test_options_have_a_meaning_and_the_default_that_runs():
    fedgm, opfgl = options_of("fedgm"), options_of("opfgl")
    assert fedgm["iterations"][1] == "`100`"  # the class says 1000, as the released code does
    assert fedgm["rate"][2].startswith("Nodes of the small graphs as a share")
    assert fedgm["lr_links"] == ["`float`", "`0.01`", fedgm["lr_features"][2]]  # one sentence tells of both
    assert fedgm["variant"][2].startswith("Which of the method's versions runs")
    assert opfgl["rate"][1] == "by data set, see below"


@pytest.mark.parametrize("name", sorted(registry.options("method")))
def test_every_method_has_a_card(name):
    page = cards.page(name, {})
    assert page.startswith("# ")
    assert f"`method={name}`" in page
    assert len(page) > 300
