"""All published drawings at a glance: a page of thumbnails, each a link to what it shows."""

from __future__ import annotations

from pathlib import Path

from fgl_repro.tables.load import papers

WIDTH = 240
"""Width of a thumbnail, in pixels."""


def page(results: Path) -> str:
    """Show drawings by paper and protocol; each leads to the page of its numbers, or to itself where there is none."""
    blocks = ["# All pictures", "A click leads to the numbers."]
    for paper, name in papers().items():
        folders = sorted({path.parent for path in (results / paper).glob("*/*.png")})
        blocks += [f"## {name}"] if folders else []
        for folder in folders:
            blocks += [f"### {folder.name}", "\n".join(map(_thumbnail, sorted(folder.glob("*.png"), key=_order)))]
    return "\n\n".join(blocks) + "\n"


def _thumbnail(path: Path) -> str:
    where = f"{path.parent.parent.name}/{path.parent.name}"
    target = path.with_suffix(".md") if path.with_suffix(".md").exists() else path
    caption = path.stem.replace("_", " ").capitalize()
    picture = f'<img src="{where}/{path.name}" width="{WIDTH}" alt="{caption}" title="{caption}">'
    return f'<a href="{where}/{target.name}">{picture}</a>'


def _order(path: Path) -> tuple[bool, int, str]:
    """Put tables first, each by number."""
    word, _, number = path.stem.partition("_")
    digits = "".join(filter(str.isdigit, number))
    return word != "table", int(digits or 0), number
