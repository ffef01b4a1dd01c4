"""The whole site: markdown, data and assets into a working folder, which MkDocs turns into static pages."""

from __future__ import annotations

import logging
import re
import shutil
from importlib.resources import as_file, files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

from fgl_repro.core.errors import UserError
from fgl_repro.core.extras import install
from fgl_repro.web import cards, result_pages, scripts
from fgl_repro.web.sources import Site, Sources, Watched

LINK = re.compile(r"\]\(([\w-]+\.md)\)")
NEEDS = ("mkdocs", "material", "mkdocstrings_handlers", "plotly", "itables")
ASSETS = "fgl_repro.web.assets"


def check() -> None:
    """Refuse to begin without the packages that a site is built with.

    Raises:
        UserError: It says how to install them.
    """
    if lacking := [name for name in NEEDS if find_spec(name) is None]:
        raise UserError(f"a site needs packages that are not installed ({', '.join(lacking)}): {install('site')}.")


def build(sources: Sources, out: Path, work: Path, watched: Watched = iter) -> Path:
    """Write the site into ``out``; returns its front page.

    Args:
        work: Empty folder for what MkDocs reads.
        watched: Shows progress over the tables.

    Raises:
        UserError: Packages are missing, or ``out`` holds something that is no site of ours.
    """
    check()
    if out.exists() and any(out.iterdir()) and not (out / "all-runs.js").exists():
        raise UserError(f"{out} holds something that is no site: name another folder with --out.")
    site = Site(work / "docs")
    _assets(site)
    result_pages.add(site, sources, watched)
    _methods(site)
    _guides(site, sources.guides)
    _render(site, work, out)
    return out / "index.html"


def _assets(site: Site) -> None:
    """Copy our script and style, and of two packages the part that runs in a browser."""
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


def _methods(site: Site) -> None:
    known = cards.names()
    listed = [f"- [{name}]({name}.md): {line}" for name, line in known.items()]
    intro = (
        "Each card says what is implemented, from which equations, in which variants, and how released code differs."
    )
    pages: list[Any] = [{"All": site.page("methods/index.md", "\n".join(["# Methods", "", intro, "", *listed, ""]))}]
    pages += [{name: site.page(f"methods/{name}.md", cards.page(name, site.rows_of.get(name, {})))} for name in known]
    site.nav.append({"Methods": pages})


def _guides(site: Site, guides: Path) -> None:
    """Write the guides, in the order in which their list names them, and the reference of what a user's code meets."""
    pages: list[Any] = []
    listed = guides / "README.md"
    names = LINK.findall(listed.read_text(encoding="utf-8")) if listed.exists() else []
    for path in [listed, *(guides / name for name in names)] if names else sorted(guides.glob("*.md")):
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

    settings = yaml.safe_load(files(ASSETS).joinpath("mkdocs.yaml").read_text(encoding="utf-8"))
    settings["plugins"][-1]["mkdocstrings"]["handlers"]["python"]["paths"] = [str(Path(__file__).parents[2])]
    settings |= {"docs_dir": str(site.docs.resolve()), "site_dir": str(out.resolve()), "nav": site.nav}
    settings["hooks"] = [str(Path(__file__).with_name("roles.py"))]
    path = work / "mkdocs.yml"
    path.write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    logging.getLogger("mkdocs").setLevel(logging.ERROR)
    render(load_config(str(path)))
