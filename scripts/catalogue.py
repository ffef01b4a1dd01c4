#!/usr/bin/env python3
"""Write ``docs/methods.md``, a line for each method and model, from what their files say of them."""

from __future__ import annotations

from argparse import ArgumentParser
from dataclasses import fields
from pathlib import Path

from fgl_repro.core import registry
from fgl_repro.core.files import write_atomic
from fgl_repro.tables.printing import grid_text
from fgl_repro.web import cards

PAGE = Path(__file__).parent.parent / "docs" / "methods.md"

HEAD = """# Methods and models

Written from the heads of the methods' files by `python scripts/catalogue.py`; a line for each.

## Methods

The whole *card* of a method (paper, formulas, variants, known differences) is the text at the head of its file in
`src/fgl_repro/methods/`; `make site` makes a page of each, and `fgl-train method=fedlog --help` tells what FedLoG's
settings mean. Where paper and released code differ, `method.variant` says which is meant; the first is the default.
"""

MODELS = """## Models

`model=auto` is the network that the method asks for; most ask for none and have FED-PUB's GCN, whatever their papers
had. `fgl-train model=gat --help` lists a model's settings.
`sage_halves_sampled` is `sage_halves` with neighbours drawn in tests, too, as in FedSage's released code.
"""


def text() -> str:
    """Write the page."""
    methods = []
    for name, line in cards.names().items():
        title, _, what = line.partition(": ")
        kind = registry.options("method")[name]
        default = next(field.default for field in fields(kind) if field.name == "variant")
        others = [f"`{variant}`" for variant in kind.variants if variant != default]
        methods.append([f"`{name}`", title, what, ", ".join([f"`{default}`", *others])])
    models = [
        [f"`{name}`", (kind.__doc__ or "").strip().partition("\n")[0].replace("``", "`")]
        for name, kind in registry.options("model").items()
    ]
    parts = [
        HEAD,
        grid_text(["`method=`", "name", "what it is", "`method.variant=`"], methods, numbers_from=4),
        MODELS,
        grid_text(["`model=`", "what it is"], models, numbers_from=2),
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


if __name__ == "__main__":
    ArgumentParser(description=__doc__).parse_args()
    write_atomic(PAGE, text())
    print(f"Written to {PAGE}.")
