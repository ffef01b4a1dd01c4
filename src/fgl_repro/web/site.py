"""The whole site: markdown, data and assets into a working folder, which MkDocs turns into static pages.

The pages of ``results/`` keep their places, so that the links between them hold: the scoreboard is the front page,
``fedlog/FINDINGS.md`` stays what it is. Of every table there is one page, ``table_<n>``, which takes in ``compare_<n>``.
"""

from __future__ import annotations

import html
import logging
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import as_file, files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

from fgl_repro.core.errors import UserError
from fgl_repro.tables import artifact, compare, findings
from fgl_repro.tables.load import papers
from fgl_repro.tables.spec import TableSpec
from fgl_repro.web import cards, charts, grids, scripts
from fgl_repro.web.runs import Curves, Runs

NEEDS = ("mkdocs", "material", "mkdocstrings_handlers", "plotly", "itables")
INSTALL = 'pip install -c constraints.txt -e ".[site]"'
ASSETS = "fgl_repro.web.assets"
WIDE = "---\nhide: [toc]\n---\n\n"
"""Leaves a page's table of contents out, for the sake of a wide table."""


@dataclass(frozen=True)
class Sources:
    """What a site is made from.

    Attributes:
        results: What is published: pages, CSVs, pictures.
        own: Tables of a user's own, written as published ones are; they may be of no paper of ours.
        guides: Markdown files about use.
        specs: Tables and figures by paper, those that the site is narrowed to.
        runs: Every run at hand, with the paper it is published with.
        curves: Their curves by key.
        fill: Fills a table or figure under a protocol.
    """

    results: Path
    own: Path
    guides: Path
    specs: Mapping[str, list[TableSpec]]
    runs: Runs
    curves: Curves
    fill: Callable[[TableSpec, str], artifact.Artifact]


@dataclass
class Site:
    """The working folder while it fills.

    Attributes:
        docs: Its markdown.
        nav: Titles and pages, section by section.
        rows_of: For each method the pages of tables that have a row of it, with their titles.
    """

    docs: Path
    nav: list[Any] = field(default_factory=list)
    rows_of: dict[str, dict[str, str]] = field(default_factory=dict)

    def page(self, name: str, text: str) -> str:
        """Write a page; returns its name."""
        path = self.docs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return name


def check() -> None:
    """Refuse to begin without the packages that a site is built with.

    Raises:
        UserError: It says how to install them.
    """
    if missing := [name for name in NEEDS if find_spec(name) is None]:
        raise UserError(f"a site needs packages that are not installed ({', '.join(missing)}): {INSTALL}.")


def build(sources: Sources, out: Path, work: Path, watched: Callable[[list[Any]], Iterable[Any]] = iter) -> Path:
    """Write the site into ``out``; returns its front page.

    Args:
        work: Folder for what MkDocs reads; made anew.
        watched: Shows progress over the tables.

    Raises:
        UserError: Packages are missing, or ``out`` holds something that is no site of ours.
    """
    check()
    if out.exists() and any(out.iterdir()) and not (out / "all-runs.js").exists():
        raise UserError(f"{out} holds something that is no site: name another folder with --out.")
    shutil.rmtree(work, ignore_errors=True)
    site = Site(work / "docs")
    _assets(site)
    _front(site, sources)
    _papers(site, sources, watched)
    sources.runs.write(site.docs, sources.curves)
    site.nav.append({"Runs": [{"All runs": site.page("runs.md", _all_runs())}, *_of_all_papers(site, sources.results)]})
    _methods(site)
    _guides(site, sources.guides)
    _render(site, work, out)
    return out / "index.html"


def _assets(site: Site) -> None:
    """Our script and style, and of two packages the part that runs in a browser."""
    folder = site.docs / "assets"
    folder.mkdir(parents=True)
    with as_file(files(ASSETS)) as own:
        for path in sorted(own.glob("fgl-*.*")):
            shutil.copy(path, folder / path.name)
    import itables
    import plotly

    shutil.copy(Path(plotly.__file__).parent / "package_data" / "plotly.min.js", folder / "plotly.min.js")
    bundle = Path(itables.__file__).parent / "html"
    shutil.copy(bundle / "dt_bundle.css", folder / "datatables.css")
    # A page from disk may import no module by its address, but one that it has as text.
    text = scripts.quoted((bundle / "dt_bundle.js").read_text(encoding="utf-8"))
    (folder / "datatables.js").write_text(f"fgl.put('assets/datatables',{text});\n", encoding="utf-8")


# --- results ----------------------------------------------------------------------------------------------------------


def _front(site: Site, sources: Sources) -> None:
    """The scoreboard, whose bars stand above its table."""
    path = sources.results / "README.md"
    text = _mirrored(path.read_text(encoding="utf-8")) if path.exists() else "# Results\n\nNothing is published yet."
    title, _, rest = text.partition("\n\n")
    front = f'{title}\n\n<div class="fgl-chart" data-script="scoreboard"></div>\n\n{rest}'
    site.nav.append({"Scoreboard": site.page("index.md", front)})
    shares = {
        f"{papers()[paper]}, {protocol}": compare.shares([line for own in tables.values() for line in own])
        for paper, protocol, tables in findings.scores(findings.published(sources.results))
    }
    scripts.write(site.docs, "scoreboard", charts.scoreboard(shares))


def _of_all_papers(site: Site, results: Path) -> list[dict[str, str]]:
    """Pages about the files of all papers."""
    found = {"Pictures": results / "PICTURES.md", "Columns": results / "COLUMNS.md"}
    texts = {name: path.read_text(encoding="utf-8") for name, path in found.items() if path.exists()}
    # links in HTML are not MkDocs' to follow
    return [{name: site.page(found[name].name, text.replace('.md"', '.html"'))} for name, text in texts.items()]


def _mirrored(text: str) -> str:
    """A page of ``results/`` as it stands in the site, where a comparison is on the page of its table."""
    return re.sub(r"compare_(\w+)\.md", r"table_\1.md", text)


def _papers(site: Site, sources: Sources, watched: Callable[[list[Any]], Iterable[Any]]) -> None:
    sections: dict[str, list[Any]] = {}
    for paper, specs in sources.specs.items():
        folder, name = sources.results / paper, specs[0].display
        pages: list[Any] = []
        if (folder / "README.md").exists():
            pages.append({"Report": site.page(f"{paper}/README.md", _mirrored((folder / "README.md").read_text("utf-8")))})
        if (folder / "findings.md.in").exists():
            pages.append({"Findings": site.page(f"{paper}/FINDINGS.md", _findings(folder, paper))})
        for note in sorted(folder.glob("notes/*.md")):
            site.page(f"{paper}/notes/{note.name}", note.read_text(encoding="utf-8"))
        sections[paper] = pages
        site.nav.append({name: pages})
    wanted = [(spec, protocol) for specs in sources.specs.values() for spec, protocol in _under_protocols(specs)]
    for spec, protocol in watched(wanted):
        folder = next((f / spec.paper / protocol for f in (sources.results, sources.own) if _is_there(f, spec, protocol)), None)
        if folder is None:
            continue
        pages = sections[spec.paper]
        section = next((entry[protocol] for entry in pages if protocol in entry), None)
        if section is None:
            pages.append({protocol: (section := [])})
        section.append({spec.heading: _table(site, sources, spec, protocol, folder)})
    site.nav[:] = [entry for entry in site.nav if all(entry.values())]


def _under_protocols(specs: Iterable[TableSpec]) -> Iterator[tuple[TableSpec, str]]:
    for spec in specs:
        yield from spec.by_protocol()


def _is_there(results: Path, spec: TableSpec, protocol: str) -> bool:
    return (results / spec.paper / protocol / f"{spec.stem}.csv").exists()


def _findings(folder: Path, paper: str) -> str:
    """A paper's findings, whose numbers lead to the cells and runs that they are of."""
    published = findings.Published(folder)
    text = (folder / "findings.md.in").read_text(encoding="utf-8")
    return _mirrored(findings.fill(text, published, f"{paper}/findings.md.in", {}, _linked))


def _linked(text: str, lines: list[dict[str, str]], keys: list[str]) -> str:
    """A number of a finding as a link to the lines of a comparison, or to the runs, that it was made from."""
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
    """The page of a table or figure under a protocol."""
    place, stem = f"{spec.paper}/{protocol}", spec.stem
    for path in sorted(folder.glob("*.*")):
        if path.suffix in (".csv", ".png", ".svg") and not (copy := site.docs / place / path.name).exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)
    beside = folder / f"compare_{spec.table}.md"
    is_grid = spec.sort == "table" and beside.exists()
    head = [f"# {spec.full_title}", f"Protocol `{protocol}`.", spec.note, spec.blank]
    if is_grid:
        scripts.write(site.docs, f"{place}/{stem}", grids.data(spec, folder, sources.runs))
        blocks = [*filter(None, head), f'<div class="fgl-grid" data-script="{place}/{stem}"></div>', *_static(beside)]
        for row in {row.method for row in spec.rows}:
            site.rows_of.setdefault(row, {})[f"../{place}/{stem}.md"] = f"{spec.full_title}, `{protocol}`"
    else:
        page = folder / f"{stem}.md"
        text = _mirrored(page.read_text(encoding="utf-8")) if page.exists() else "\n\n".join(filter(None, head))
        blocks = [text]
        if (folder / f"{stem}.png").exists() and (draw := sources.fill(spec, protocol).content.draw) is not None:
            scripts.write(site.docs, f"{place}/{stem}", charts.plotly(draw))
            title, _, rest = text.partition("\n\n")
            blocks = [title, f'<div class="fgl-chart" data-script="{place}/{stem}"></div>', rest]
    blocks += [_files(site.docs / place, spec)]
    return site.page(f"{place}/{stem}.md", WIDE + "\n\n".join(filter(None, blocks)) + "\n")


def _static(comparison: Path) -> list[str]:
    """Of a comparison's page what is not cell by cell, behind the interactive table."""
    head, _, rest = comparison.read_text(encoding="utf-8").partition("\n## By cell\n")
    _, _, told = head.partition("\n\n")
    differences = re.search(r"\n## Differences.*", rest, re.DOTALL)
    about, mark, shares = told.partition("## By method")
    about = '??? note "How to read it"\n\n' + "\n".join(f"    {line}" for line in about.strip().splitlines())
    return [about, mark + shares, differences[0].strip() if differences else ""]


def _files(folder: Path, spec: TableSpec) -> str:
    """The picture as it is printed, and the numbers to take away."""
    blocks = []
    if (folder / f"{spec.stem}.png").exists():
        blocks.append(f"## As a picture\n\n![{html.escape(spec.heading)}]({spec.stem}.png){{ loading=lazy }}")
    names = [path.name for path in sorted(folder.iterdir()) if path.stem.removesuffix("_wide") in (spec.stem, f"compare_{spec.table}")]
    named = [f"[`{name}`]({name})" for name in names if name.endswith((".csv", ".svg"))]
    return "\n\n".join([*blocks, f"Files: {', '.join(named)}." if named else ""])


def _all_runs() -> str:
    told = "Every run that is packed with the results; a click shows its record, curves and the command that repeats it."
    return f'{WIDE}# Runs\n\n{told}\n\n<div class="fgl-runs" data-script="all-runs"></div>\n'


# --- methods, guides --------------------------------------------------------------------------------------------------


def _methods(site: Site) -> None:
    known = cards.names()
    listed = [f"- [{name}]({name}.md): {line}" for name, line in known.items()]
    told = "Each card says what is implemented, from which equations, in which variants, and how the released code differs."
    pages: list[Any] = [{"All": site.page("methods/index.md", "\n".join(["# Methods", "", told, "", *listed, ""]))}]
    for name in known:
        pages.append({name: site.page(f"methods/{name}.md", cards.page(name, site.rows_of.get(name, {})))})
    site.nav.append({"Methods": pages})


def _guides(site: Site, guides: Path) -> None:
    """Guides in the order of their numbers, and the reference of what a user's code meets."""
    pages = []
    for path in sorted(guides.glob("*.md")):
        text = path.read_text(encoding="utf-8")
        title = next((line.removeprefix("# ") for line in text.splitlines() if line.startswith("# ")), path.stem)
        pages.append({title: site.page(f"guides/{path.name}", text)})
    if pages:
        site.nav.append({"Guides": pages})
    reference = yaml.safe_load(files(ASSETS).joinpath("reference.yaml").read_text(encoding="utf-8"))
    pages = []
    for title, modules in reference.items():
        blocks = [f"# {title}", *(f"::: {module}" for module in modules)]
        pages.append({title: site.page(f"reference/{title.lower().replace(' ', '-')}.md", "\n\n".join(blocks) + "\n")})
    site.nav.append({"Reference": pages})


def _render(site: Site, work: Path, out: Path) -> None:
    """Have MkDocs make pages of it."""
    from mkdocs.commands.build import build as render
    from mkdocs.config import load_config

    said = yaml.safe_load(files(ASSETS).joinpath("mkdocs.yaml").read_text(encoding="utf-8"))
    said["plugins"][-1]["mkdocstrings"]["handlers"]["python"]["paths"] = [str(Path(__file__).parents[2])]
    said |= {"docs_dir": str(site.docs.resolve()), "site_dir": str(out.resolve()), "nav": site.nav}
    said["hooks"] = [str(Path(__file__).with_name("roles.py"))]
    path = work / "mkdocs.yml"
    path.write_text(yaml.safe_dump(said, sort_keys=False), encoding="utf-8")
    logging.getLogger("mkdocs").setLevel(logging.ERROR)
    render(load_config(str(path)))
