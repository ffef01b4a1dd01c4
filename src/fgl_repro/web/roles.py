"""A hook of MkDocs: roles of docstrings, which it does not know, become plain code."""

from __future__ import annotations

import re
from typing import Any

ROLE = re.compile(r":(?:class|func|meth|mod|data|attr):\s*<code>~?([\w.]+)</code>")


def on_page_content(html: str, **_: Any) -> str:
    """Let a page's roles name the last part of what they refer to."""
    return ROLE.sub(lambda found: f"<code>{found[1].rpartition('.')[2]}</code>", html)
