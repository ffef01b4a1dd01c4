"""What the settings of options mean: the second half of ``fgl-train method=fedvn --help``."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence
from dataclasses import fields

from fgl_repro.config import GROUPS, options, unchecked
from fgl_repro.core.schema import meanings


def of_chosen(words: Sequence[str]) -> str:
    """Write what each setting of the options means that a command line names; nothing where it names none.

    Args:
        words: Overrides, of which ``method=fedvn`` names an option and ``protocol.lr=0.01`` does not.
    """
    pairs = (word.lstrip("+").partition("=") for word in words)
    chosen = {group: option.strip("'\"").removesuffix(".yaml") for group, _, option in pairs if group in GROUPS}
    chosen = {group: option for group, option in chosen.items() if option in options(group)}
    config = unchecked(None, **chosen)
    return "\n\n".join(_section(f"{group}={option}", getattr(config, group)) for group, option in chosen.items())


def _section(word: str, part: object) -> str:
    meaning_of = meanings(type(part))
    known = [f.name for f in fields(part) if f.name in meaning_of]  # type: ignore[arg-type]
    lines = [f"{word}:", *(f"  {name}: {meaning_of[name]}" for name in known)]
    width = shutil.get_terminal_size().columns
    return "\n".join(textwrap.fill(line.replace("``", ""), width, subsequent_indent="    ") for line in lines)
