"""The site of one paper, built from what is committed: its pages, its data, and a look at it with a browser."""

from __future__ import annotations

import csv
import json
import math
import re
import shutil
from pathlib import Path
from urllib.parse import unquote

import pytest
from scipy.stats import ttest_ind_from_stats

from fgl_repro.cli.table import main
from fgl_repro.core.errors import UserError
from fgl_repro.tables.contents import findings_of
from fgl_repro.web import result_pages
from fgl_repro.web import site as sites

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
TABLE = "fedvn/fedvn/table_1"
FIGURE = "fedvn/fedvn/figure_6"


def test_links_to_findings_lead_to_headings_of_the_site() -> None:
    toc = pytest.importorskip("markdown.extensions.toc")
    pages = sorted(RESULTS.glob("*/FINDINGS.md"))
    assert pages
    for page in pages:
        found = list(findings_of(page.read_text(encoding="utf-8")))
        assert found, page
        for finding in found:
            own = toc.slugify(finding.title, "-")
            assert result_pages.mirrored(f"[it](#{finding.anchor})") == f"[it](#{own})"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """FedVN's pages, with methods, guides and the reference."""
    for package in sites.NEEDS:
        pytest.importorskip(package)
    out = tmp_path_factory.mktemp("web") / "site"
    for folder in ("build/site", "temporary"):
        (out.parent / folder).mkdir(parents=True)
    (out.parent / "build/site/thesis.tex").touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(out.parent)
        patch.setattr("tempfile.tempdir", str(out.parent / "temporary"))
        words = ["--results", str(RESULTS), "--guides", str(ROOT / "docs"), "--records", str(out.parent)]
        assert main(["site", "fedvn", "--out", str(out), *words]) == 0
    return out


def content(site, name):
    """What a data script hands to its page."""
    text = (site / f"{name}.js").read_text(encoding="utf-8")
    found = re.fullmatch(r'fgl\.put\("(.+?)",(.*)\);\n', text, re.DOTALL)
    assert found
    assert found[1] == name
    return json.loads(found[2])


def pages(site):
    return sorted(path for path in site.rglob("*.html") if path.name != "404.html")


def test_nothing_is_asked_of_another_host(site):
    asked = re.compile(
        r"<(?:script|img|iframe|source)[^>]*\ssrc=[\"']?(https?:[^\"' >]+)|<link[^>]*\shref=[\"']?(https?:[^\"' >]+)"
    )
    assert not [
        (page.name, found.groups()) for page in pages(site) for found in asked.finditer(page.read_text("utf-8"))
    ]
    assert "https://" not in re.sub(r"/\*.*?\*/", "", (site / "assets/fgl-site.css").read_text("utf-8"))


def test_links_lead_to_pages_that_are_there(site):
    others = {path.parent.name for path in RESULTS.glob("*/runs.csv")} - {"fedvn"}  # not built here
    missing = set()
    for page in pages(site):
        for link in re.findall(r"\s(?:href|src)=\"([^\"#?:]+)[\"#?]", page.read_text("utf-8")):
            target = (page.parent / unquote(link)).resolve()
            if not target.exists() and not others & set(target.relative_to(site.resolve()).parts):
                missing.add((str(page.relative_to(site)), link))
    assert not missing


def test_a_table_holds_what_its_csv_holds_and_names_runs_that_are_there(site):
    data = content(site, TABLE)
    with open(RESULTS / f"{TABLE}.csv", encoding="utf-8", newline="") as text:
        lines = [line for line in csv.DictReader(text) if line["printed"] == "1"]
    assert len(data["cells"]) == len(lines)
    ran = [line for line in lines if line["mean"]]
    assert sorted(cell["mean"] for cell in data["cells"] if cell["mean"] is not None) == pytest.approx(
        sorted((1 if line["metric"] == "mae" else 100) * float(line["mean"]) for line in ran), abs=1e-3
    )
    for cell in (cell for cell in data["cells"] if cell["keys"]):
        keys = {run["record"]["key"][:8] for file in cell["files"] for run in content(site, f"runs/{file}")}
        assert set(cell["keys"]) <= keys


def test_what_has_to_be_beaten_is_just_told_apart(site):
    with open(RESULTS / f"{TABLE}.csv", encoding="utf-8", newline="") as text:
        ddof = int(next(csv.DictReader(text))["ddof"])
    beat = [found for found in content(site, TABLE)["beat"].values() if "needed" in found]
    assert beat
    for found in beat:
        runs = found["seeds"]
        std = found["std"] * math.sqrt((runs - ddof) / (runs - 1))
        best, needed = ((found[name], std, runs) for name in ("mean", "needed"))
        assert ttest_ind_from_stats(*best, *needed).pvalue == pytest.approx(0.05, abs=1e-3)


def test_numbers_of_findings_lead_to_their_cells(site):
    text = (site / "fedvn/FINDINGS.html").read_text(encoding="utf-8")
    assert re.search(r'href="fedvn/table_1\.html#[^"]*method=fedvn', text)


def test_dated_notes_are_found_below_pages(site):
    entries = json.loads((site / "search/search_index.json").read_text(encoding="utf-8"))["docs"]
    notes = [entry for entry in entries if "/notes/" in entry["location"]]
    assert notes
    assert all(entry["boost"] < 1 for entry in notes)
    assert not [entry["location"] for entry in entries if entry not in notes and "boost" in entry]


def test_tabs_tell_tables_of_one_number_apart_and_the_navigation_is_short(site):
    text = (site / f"{TABLE}.html").read_text(encoding="utf-8")
    assert "<title>FedVN, Table 1 (fedvn) - " in text
    (link,) = re.findall(
        r'<a href="(?:\./|table_1\.html)" class="md-nav__link md-nav__link--active">(.*?)</a>', text, re.S
    )
    assert re.sub(r"<.*?>", "", link).strip() == "Table 1"


def test_what_is_no_site_is_not_written_over(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.tex").touch()
    assert main(["site", "fedvn", "--results", str(RESULTS), "--out", "mine"]) == 2
    assert "name another folder" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.tex"]


def test_what_lies_beside_a_site_is_left_alone_and_no_working_folder_stays(site):
    assert {path.name for path in site.parent.iterdir()} == {"build", "site", "temporary"}
    assert [path.name for path in (site.parent / "build/site").iterdir()] == ["thesis.tex"]
    assert not list((site.parent / "temporary").iterdir())


def test_missing_packages_are_named_with_the_way_to_install_them(monkeypatch):
    monkeypatch.setattr(sites, "NEEDS", ("json", "no_such_package"))
    with pytest.raises(UserError, match=r"no_such_package.*pip install .*\[site\]"):
        sites.check()


# --- in a browser -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser():
    api = pytest.importorskip("playwright.sync_api")
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip("no Chromium on this machine: install it (apt-get install chromium) to look at the site")
    with api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture
def look(site, browser):
    """Opens a page of the site from disk and waits until its charts and tables are there; refuses what goes wrong."""
    wrong: list[str] = []
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("requestfailed", lambda request: wrong.append(request.url))
    page.on("request", lambda r: None if r.url.startswith(("file:", "data:", "blob:")) else wrong.append(r.url))

    def open_page(name, width=1280):
        page.set_viewport_size({"width": width, "height": 900})
        page.goto("about:blank")
        page.goto(f"{site.as_uri()}/{name}")
        page.wait_for_function(
            "() => document.querySelectorAll('[data-ready]').length >= "
            "document.querySelectorAll('.fgl-chart, .fgl-grid, .fgl-runs').length"
        )
        return page

    yield open_page
    context.close()
    assert not wrong


def test_a_table_sorts_filters_and_opens_its_runs(look):
    page = look(f"{TABLE}.html")
    head = page.locator("table.fgl-wide thead th").nth(1)
    numbers = page.locator("table.fgl-wide tbody tr td:nth-child(2)")
    for order, sign in (("descending", -1), ("ascending", 1)):
        head.click()
        page.wait_for_selector(f"table.fgl-wide thead th[aria-sort={order}]")
        values = [
            sign * float(value) for value in numbers.evaluate_all("cells => cells.map(cell => cell.dataset.order)")
        ]
        assert values == sorted(values)
        assert len(set(values)) > 2

    rows = page.locator("table.fgl-long tbody tr")
    every = rows.count()
    page.select_option('select[name="verdict"]', "reproduced")
    assert 0 < rows.count() < every
    assert set(page.locator("table.fgl-long tbody td:nth-child(10)").all_inner_texts()) == {"reproduced"}

    page.locator("td.fgl-reproduced button.fgl-cell").first.click()
    page.wait_for_selector("dialog.fgl-drawer[data-ready]")
    told = page.inner_text("dialog.fgl-drawer")
    assert "fgl-table rerun " in told
    assert "client by client" in told
    assert "Bytes of a client" in told
    assert page.locator("dialog.fgl-drawer .main-svg").count() > 0
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog.fgl-drawer", state="detached")  # its "close" event comes a task later


def test_a_link_of_a_finding_shows_its_cells_alone(look):
    page = look(f"{TABLE}.html#method=fedavg&dataset=motif_basis")
    assert set(page.locator("table.fgl-long tbody td:nth-child(3)").all_inner_texts()) == {"FedAvg (release)"}
    assert "Show all" in page.inner_text(".fgl-note")


def test_a_figure_is_drawn_once_and_its_picture_is_a_file_to_take_away(look):
    page = look(f"{FIGURE}.html")
    assert page.locator(".fgl-chart .main-svg").count() > 0
    assert page.locator("img[src$='figure_6.png']").count() == 0
    assert page.locator("a[href$='figure_6.png']").count() == 1


def test_runs_are_found_by_their_keys(look, site):
    key = content(site, TABLE)["cells"][0]["keys"][0]
    page = look(f"runs.html#keys={key}")
    page.wait_for_selector("dialog.fgl-drawer[data-ready]")
    assert key in page.inner_text("dialog.fgl-drawer")


def test_the_search_finds_a_method_from_disk(look):
    page = look("methods/fedvn.html")
    page.locator("[data-md-component=search-query]").press_sequentially("virtual nodes")  # it listens to keys
    page.wait_for_selector(".md-search-result__item")


@pytest.mark.parametrize("name", ["index.html", f"{TABLE}.html", f"{FIGURE}.html", "methods/fedvn.html"])
def test_a_phone_scrolls_no_page_sideways(look, name):
    page = look(name, width=390)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
