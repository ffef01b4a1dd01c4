"""What of a Python file can change a number: its code, without comments, docstrings and empty lines."""

from __future__ import annotations

import ast
import io
import tokenize


def code_of(text: str) -> str:
    """Return the lines of a Python file that hold code, without their comments.

    The text is cut, not written anew from its syntax, which versions of Python do in ways of their own.

    Raises:
        SyntaxError: The text is no Python.
    """
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            first, last = node.lineno - 1, node.end_lineno or node.lineno
            before, after = lines[first].encode()[: node.col_offset], lines[last - 1].encode()[node.end_col_offset :]
            if not (before + after).strip():  # no other statement shares its lines
                lines[first:last] = [""] * (last - first)
    return "\n".join(line.rstrip() for line in lines if line.strip())
