"""The findings of a page: their verdicts, what they are worth, and where each stands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

HEADING = re.compile(r"^(##|###) (.+)$", re.MULTILINE)
VERDICT = re.compile(r"\s*\*\*Verdict: (.+?)\.\*\*")
WORTH = re.compile(r"\*\*Gap to print: (.+?)\.\*\*")


@dataclass(frozen=True)
class Finding:
    """A finding of a page.

    Attributes:
        section: Heading of the part of the page that it stands in; empty where a page has no parts.
        title: Its heading, which is what it claims.
        verdict: What runs say of it.
        worth: The mean gap to print without what is claimed and with it; empty where it tells none.
    """

    section: str
    title: str
    verdict: str
    worth: str

    @property
    def anchor(self) -> str:
        """What its heading is called in a link to it."""
        return re.sub(r"[^\w -]", "", self.title.lower()).replace(" ", "-")


def findings_of(text: str) -> Iterator[Finding]:
    """Yield the findings of a page in its order; a heading without a verdict below it is none."""
    section, headings = "", list(HEADING.finditer(text))
    for heading, following in zip_longest(headings, headings[1:]):
        body = text[heading.end() : following.start() if following else len(text)]
        if heading[1] == "##":
            section = heading[2]
        elif verdict := VERDICT.match(body):
            worth = WORTH.search(body)
            yield Finding(section, heading[2], verdict[1], worth[1] if worth else "")


def with_contents(text: str) -> str:
    """Return a page with a list of its findings and their verdicts before the first heading; without any as it is."""
    lines, section = [], ""
    for finding in findings_of(text):
        if finding.section != section:
            section = finding.section
            lines += ["", f"{section}:", ""]
        lines.append(f"- {finding.verdict}: [{finding.title}](#{finding.anchor})")
    first = HEADING.search(text)
    if first is None or not lines:
        return text
    listed = "\n".join(lines).strip("\n")
    return f"{text[: first.start()]}**Verdicts.**\n\n{listed}\n\n{text[first.start() :]}"
