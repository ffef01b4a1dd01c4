"""Pages of results: the scoreboard, each paper's report and findings, its tables and figures, all runs.

The pages of ``results/`` keep their places, so that the links between them hold: the scoreboard is the front page and
``fedlog/FINDINGS.md`` stays what it is. A table has one page, ``table_<n>``, which takes in ``compare_<n>``.
"""

from __future__ import annotations

import html
import re
import shutil
from pathlib import Path
from typing import Any

from fgl_repro.tables import compare, findings, scoreboard
from fgl_repro.tables.contents import with_contents
from fgl_repro.tables.load import papers
from fgl_repro.tables.published import PublishedPaper, all_published
from fgl_repro.tables.spec import TableSpec
from fgl_repro.web import grids, plots, scripts
from fgl_repro.web.sources import BARE, LATER, WIDE, Site, Sources, Watched, titled

ABOUT = (
    "Methods of federated graph learning from five papers, run by one program; each number that the papers print is "
    "compared with what our runs give. Click a paper to see its findings, a number of a table to see its cells."
)


def add(site: Site, sources: Sources, watched: Watched) -> None:
    """Write all of them, and their places in the navigation."""
    _front(site, sources)
    for paper, specs in sources.specs.items():
        pages = _own_pages(site, sources.results / paper, paper)
        wanted = [pair for spec in specs for pair in spec.by_protocol()]
        for spec, protocol in watched(wanted):
            folder = _folder(sources, spec, protocol)
            if folder is not None:
                section: list[Any] = next((entry[protocol] for entry in pages if protocol in entry), [])
                if not section:
                    pages.append({protocol: section})
                section.append({spec.heading: _table(site, sources, spec, protocol, folder)})
        pages += _added(site, sources.own, paper)
        site.nav += [{specs[0].display: pages}] if pages else []
    sources.runs.write(site.docs, sources.curves)
    site.nav.append({"Runs": [{"All runs": site.page("runs.md", _all_runs())}, *_of_all_papers(site, sources.results)]})


def _front(site: Site, sources: Sources) -> None:
    """Write the scoreboard, whose bars stand above its table, below what all this is."""
    path = sources.results / "README.md"
    text = mirrored(path.read_text(encoding="utf-8")) if path.exists() else "# Results\n\nNothing is published yet."
    title, _, rest = text.partition("\n\n")
    front = f'{BARE}{title}\n\n{ABOUT}\n\n<div class="fgl-chart" data-script="scoreboard"></div>\n\n{rest}'
    site.nav.append({"Scoreboard": site.page("index.md", front)})
    shares = {
        f"{papers()[paper]}, {protocol}": compare.shares([line for own in tables.values() for line in own])
        for paper, protocol, tables in scoreboard.scores(all_published(sources.results))
    }
    scripts.write(site.docs, "scoreboard", plots.scoreboard(shares))


def _of_all_papers(site: Site, results: Path) -> list[dict[str, str]]:
    """Write the pages about all papers."""
    found = {name: results / f"{name.upper()}.md" for name in ("Causes", "Pictures", "Columns")}
    texts = {name: path.read_text(encoding="utf-8") for name, path in found.items() if path.exists()}
    # links in HTML are not MkDocs' to follow
    pages = {name: mirrored(text.replace('.md"', '.html"')) for name, text in texts.items()}
    return [{name: site.page(found[name].name, text)} for name, text in pages.items()]


def mirrored(text: str) -> str:
    """Return a page of ``results/`` as it stands in the site.

    There a comparison is on the page of its table, and no anchor has two dashes in a row.
    """
    text = re.sub(r"compare_(\w+)\.md", r"table_\1.md", text)
    return re.sub(r"#[\w-]+\)", lambda anchor: re.sub("-+", "-", anchor[0]), text)


def _own_pages(site: Site, folder: Path, paper: str) -> list[Any]:
    """Write a paper's report, findings and notes, where it has some."""
    pages: list[Any] = []
    if (folder / "README.md").exists():
        text = mirrored((folder / "README.md").read_text(encoding="utf-8"))
        pages.append({"Report": site.page(f"{paper}/README.md", text)})
    if (folder / "findings.md.in").exists():
        pages.append({"Findings": site.page(f"{paper}/FINDINGS.md", _findings(folder, paper))})
    for note in sorted(folder.glob("notes/*.md")):
        site.page(f"{paper}/notes/{note.name}", LATER + note.read_text(encoding="utf-8"))
    return pages


def _added(site: Site, own: Path, paper: str) -> list[Any]:
    """Write the tables of a paper with rows that a user has added: their ranks among the paper's."""
    pages: list[Any] = []
    for path in sorted(own.glob(f"{paper}+*/*/leaderboard_*.md")):
        place, number = path.parent.relative_to(own), path.stem.removeprefix("leaderboard_")
        text = path.read_text(encoding="utf-8") + _files_of(site, path.parent, place, number)
        name = site.page(f"{place}/{path.name}", text)
        added = ", ".join(place.parts[0].split("+")[1:])
        pages.append({f"With {added}: Table {number}, {place.name}": name})
    return pages


def _files_of(site: Site, folder: Path, place: Path, number: str) -> str:
    """Copy picture and CSV of a table with added rows; returns the lines that lead to them."""
    _copied(folder, site.docs / place)
    picture = f"\n![Table {number}](table_{number}.png)\n" if (folder / f"table_{number}.png").exists() else ""
    return f"{picture}\nFiles: [`leaderboard_{number}.csv`](leaderboard_{number}.csv).\n"


def _copied(folder: Path, target: Path) -> None:
    """Copy CSVs and pictures that pages name."""
    for path in sorted(folder.glob("*.*")):
        if path.suffix in (".csv", ".png", ".svg") and not (copy := target / path.name).exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)


def _folder(sources: Sources, spec: TableSpec, protocol: str) -> Path | None:
    """Find where a table lies under a protocol; None where it has not been written."""
    found = (folder / spec.paper / protocol for folder in (sources.results, sources.own))
    return next((folder for folder in found if (folder / f"{spec.stem}.csv").exists()), None)


def _findings(folder: Path, paper: str) -> str:
    """Write a paper's findings, whose numbers lead to the cells and runs that they are of."""
    published = PublishedPaper(folder)
    text = (folder / "findings.md.in").read_text(encoding="utf-8")
    return mirrored(with_contents(findings.fill(text, published, f"{paper}/findings.md.in", {}, _linked)))


def _linked(text: str, lines: list[dict[str, str]], keys: list[str]) -> str:
    """Link a number of a finding to the lines of a comparison, or to the runs, that it was made from."""
    if keys:
        return f"[{text}](../runs.md#keys={','.join(key[:8] for key in keys)})"
    places = {(line["protocol"], line["table"]) for line in lines}
    if not places or len(places) > 1 or not text:
        return text
    ((protocol, table),) = places
    shared = {}
    for name in ("panel", "dataset", "clients", "method", "variant"):
        values = list(dict.fromkeys(line[name] for line in lines))
        if len(values) == 1 and values[0]:
            shared[name] = values[0]
    words = "&".join(f"{name}={value}" for name, value in shared.items())
    return f"[{text}]({protocol}/table_{table}.md#{words})"


def _table(site: Site, sources: Sources, spec: TableSpec, protocol: str, folder: Path) -> str:
    """Write the page of a table or figure under a protocol."""
    place, stem = f"{spec.paper}/{protocol}", spec.stem
    _copied(folder, site.docs / place)
    beside = folder / f"compare_{spec.table}.md"
    is_grid = spec.sort == "table" and beside.exists()
    chart = ""
    if (folder / f"{stem}.png").exists() and (draw := sources.fill(spec, protocol).content.draw) is not None:
        scripts.write(site.docs, f"{place}/{stem}_chart", plots.plotly(draw))
        chart = f'<div class="fgl-chart" data-script="{place}/{stem}_chart"></div>'
    head = [f"# {spec.full_title}", f"Protocol `{protocol}`.", spec.note, spec.blank]
    if is_grid:
        scripts.write(site.docs, f"{place}/{stem}", grids.data(spec, folder, sources.runs))
        blocks = [*filter(None, head), f'<div class="fgl-grid" data-script="{place}/{stem}"></div>', *_static(beside)]
        blocks += ["## As a picture", chart] if chart else []
        for method in dict.fromkeys(row.method for row in spec.rows):
            site.rows_of.setdefault(method, {})[f"../{place}/{stem}.md"] = f"{spec.full_title}, `{protocol}`"
    else:
        page = folder / f"{stem}.md"
        text = mirrored(page.read_text(encoding="utf-8")) if page.exists() else "\n\n".join(filter(None, head))
        title, _, rest = text.partition("\n\n")
        blocks = [title, chart, rest]
    blocks += [_files(site.docs / place, spec, chart)]
    front = titled(WIDE, f"{spec.display}, {spec.heading} ({protocol})")
    return site.page(f"{place}/{stem}.md", front + "\n\n".join(filter(None, blocks)) + "\n")


def _static(comparison: Path) -> list[str]:
    """Keep what a comparison's page says that is not cell by cell, to stand below the interactive table."""
    head, _, rest = comparison.read_text(encoding="utf-8").partition("\n## By cell\n")
    _, _, text = head.partition("\n\n")
    differences = re.search(r"\n## Differences.*", rest, re.DOTALL)
    about, mark, shares = text.partition("## By method")
    about = '??? note "How to read it"\n\n' + "\n".join(f"    {line}" for line in about.strip().splitlines())
    return [about, mark + shares, differences[0].strip() if differences else ""]


def _files(folder: Path, spec: TableSpec, chart: str) -> str:
    """Name the files to take away, and show the picture where no ``chart`` is; without scripts it is shown anyway."""
    blocks = []
    if (folder / f"{spec.stem}.png").exists():
        picture = f'<img src="{spec.stem}.png" alt="{html.escape(spec.heading)}" loading="lazy">'
        blocks = [f"<noscript>{picture}</noscript>" if chart else picture]
    names = [
        path.name
        for path in sorted(folder.iterdir())
        if path.stem.removesuffix("_wide") in (spec.stem, f"compare_{spec.table}")
    ]
    named = [f"[`{name}`]({name})" for name in names if name.endswith((".csv", ".png", ".svg"))]
    return "\n\n".join([*blocks, f"Files: {', '.join(named)}." if named else ""])


def _all_runs() -> str:
    intro = (
        "Every run that is packed with the results; a click shows its record, curves and the command that repeats it."
    )
    return f'{WIDE}# Runs\n\n{intro}\n\n<div class="fgl-runs" data-script="all-runs"></div>\n'
