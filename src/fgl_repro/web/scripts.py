"""Data that pages load: scripts and not JSON, because a page that is opened from disk may load nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def write(docs: Path, name: str, content: Any) -> None:
    """Write ``docs/<name>.js``, which hands ``content`` to the page under ``name``."""
    path = docs / f"{name}.js"
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    path.write_text(f"fgl.put({json.dumps(name)},{text});\n", encoding="utf-8")


def quoted(text: str) -> str:
    """Write ``text`` as a string of JavaScript."""
    return json.dumps(text).replace("</", "<\\/")
