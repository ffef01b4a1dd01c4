"""What of a file counts as its code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from fgl_repro.runs import code as module
from fgl_repro.runs.code import code_of

SOURCES = sorted(Path(module.__file__).parents[1].rglob("*.py"))

CODE = """
\"\"\"A card.\"\"\"
from x import y  # why


class Mine:
    \"\"\"Attributes:
    rate: With # a hash.
    \"\"\"

    rate: float = 0.1
    \"\"\"Of what.\"\"\"
    text = "# no comment"; 'ä'; "shares its line"
    note = \"\"\"kept  # as it is

    here\"\"\"
"""


def test_comments_docstrings_and_empty_lines_are_no_code() -> None:
    lines = code_of(CODE).splitlines()
    assert lines == [
        "from x import y",
        "class Mine:",
        "    rate: float = 0.1",
        '    text = "# no comment"; \'ä\'; "shares its line"',
        '    note = """kept  # as it is',
        '    here"""',
    ]


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("# why", "# because", True),
        ("A card.", "Another.", True),
        ("With # a hash.", "Without.", True),
        ("\n\n\nclass", "\n\nclass", True),
        ("0.1", "0.2", False),
        ("# no comment", "# no", False),
        ("shares its line", "shares", False),
        ("kept  # as", "kept # as", False),
    ],
)
def test_what_is_no_code_may_change(old: str, new: str, same: bool) -> None:
    assert CODE.count(old) == 1
    assert (code_of(CODE.replace(old, new)) == code_of(CODE)) is same


def dump(tree: ast.AST) -> str:
    """A tree as text; of several ends of line in a string one is left."""
    return re.sub(r"( *\\n)+", r"\\n", ast.dump(tree))


def statements(text: str) -> str:
    """The syntax of a file without docstrings, by Python's own tree."""

    class Bare(ast.NodeTransformer):
        def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
            bare = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
            return None if bare else node

    return dump(Bare().visit(ast.parse(text)))


def test_nothing_but_docstrings_is_lost_of_our_own_files() -> None:
    compared = 0
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        try:
            code = ast.parse(code_of(text))
        except SyntaxError:  # a body that was a docstring alone
            continue
        assert dump(code) == statements(text), path
        compared += 1
    assert compared > 0.9 * len(SOURCES) > 100
