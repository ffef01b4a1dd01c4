"""The one exception a user is meant to read: a sentence that names the fix."""

from __future__ import annotations


class UserError(Exception):
    """Something the user can mend; entry points print it on stderr without a traceback and exit with 2."""
