"""Method cards: the prose at the head of a method's file, its fields, and the tables it has a row in."""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from typing import Any

from omegaconf import OmegaConf

from fgl_repro.config import yaml_files
from fgl_repro.core import registry
from fgl_repro.core.schema import meanings
from fgl_repro.tables.printing import grid_text

GREEK = {
    **{"alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "eta": "η", "theta": "θ", "kappa": "κ"},
    **{"lambda": "λ", "mu": "μ", "nu": "ν", "xi": "ξ", "pi": "π", "rho": "ρ", "sigma": "σ", "tau": "τ", "phi": "φ"},
    **{"psi": "ψ", "omega": "ω", "Theta": "Θ", "Phi": "Φ", "Omega": "Ω", "Delta": "Δ"},
}
SIGNS = {" * ": " · ", "&lt;-": "←", "-&gt;": "→", "&lt;=": "≤", "&gt;=": "≥", "sum": "∑", "~=": "≈"}


def names() -> dict[str, str]:
    """List the methods by name, and the one line that says what each is."""
    return {name: _prose(kind).partition("\n")[0] for name, kind in registry.options("method").items()}


def page(name: str, tables: Mapping[str, str]) -> str:
    """Write a method's page.

    Args:
        tables: Titles of the tables that it has a row in, by the address of their pages.
    """
    kind = registry.options("method")[name]
    head, _, rest = _prose(kind).partition("\n")
    title, _, what = head.partition(": ")
    blocks = [f"# {title}", f"`method={name}`{f': {what}' if what else ''}", *map(_block, _paragraphs(rest))]
    blocks += ["## Options", grid_text(["option", "type", "default", "meaning"], _options(name, kind), numbers_from=4)]
    if files := [path for path in yaml_files("method").values() if re.search(rf"\b_?{name}\b", path.stem)]:
        yamls = "\n\n".join(
            f"`conf/method/{path.name}`\n\n```yaml\n{path.read_text('utf-8').strip()}\n```" for path in files
        )
        blocks += ["## Configurations", yamls]
    if tables:
        blocks += ["## Tables", "\n".join(f"- [{words}]({address})" for address, words in tables.items())]
    return "\n\n".join(blocks) + "\n"


def _prose(kind: type[Any]) -> str:
    """Return the card: what stands at the head of the method's module, or of its package."""
    module = sys.modules[kind.__module__]
    return (module.__doc__ or kind.__doc__ or kind.__name__).strip()


def _paragraphs(text: str) -> Iterable[list[str]]:
    return ([line.rstrip() for line in part.splitlines()] for part in re.split(r"\n\s*\n", text.strip("\n")))


def _block(lines: list[str]) -> str:
    """Write a paragraph in markdown: lines set in are equations; ``Variants:`` heads a list."""
    if all(line.startswith("    ") for line in lines):
        return "\n".join(['<div class="fgl-equation">', *(f"{equation(line.strip())}<br>" for line in lines), "</div>"])
    head, inner = lines[0], lines[1:]
    if head.endswith(":") and inner and all(line.startswith("  ") for line in inner):
        items: list[str] = []
        for line in inner:
            if found := re.match(r" {2,4}(\S+(?: \S+)?)  +(.*)", line):
                items.append(f"- **{found[1]}** {found[2]}")
            elif items:
                items[-1] += f" {line.strip()}"
            else:
                items.append(f"- {line.strip()}")
        return "\n".join([f"**{head}**", "", *items])
    return "\n".join(lines).replace("``", "`")


def equation(line: str) -> str:
    """Write a line of plain-text mathematics as HTML: Greek letters, signs, and what is raised or lowered."""
    out = html.escape(line, quote=False)
    for plain, sign in SIGNS.items():
        out = re.sub(rf"\b{plain}(?=[_ (])", sign, out) if plain.isalpha() else out.replace(plain, sign)
    out = re.sub(r"(?<![A-Za-z])([A-Za-z]+)(?![a-z])", lambda found: GREEK.get(found[1], found[1]), out)
    for mark, tag in (("_", "sub"), (r"\^", "sup")):
        out = re.sub(rf"(?<=[\wα-ωΑ-Ω∑)\]>']){mark}(\{{[^}}]*\}}|\([^()]*\)|[\wα-ω]+)", rf"<{tag}>\1</{tag}>", out)
    return re.sub(r"(?<=>)\{([^}]*)\}(?=<)", r"\1", out)


def _options(name: str, kind: type[Any]) -> list[list[object]]:
    """Write a line a field: the default is that of ``method=NAME``, whose yaml may say another one than the class."""
    path = yaml_files("method").get(name)
    given = OmegaConf.to_container(OmegaConf.load(path)) if path is not None else {}
    assert isinstance(given, dict)
    meaning_of = meanings(kind)
    body: list[list[object]] = []
    for field in fields(kind):
        default = given.get(field.name, "" if field.default is MISSING else field.default)
        shown = f"`{default!r}`" if default != "" else ""
        if isinstance(default, str) and default.startswith("${"):
            shown = f"by {default[2:].partition(':')[0].removeprefix('by_').replace('dataset', 'data set')}, see below"
        type_name = f"`{field.type}`".replace("|", "or")
        body.append(
            [f"`{field.name}`", type_name, shown, meaning_of.get(field.name, "").replace("``", "`").replace("|", "\\|")]
        )
    return body
