"""fgl_repro: a reference harness that regenerates the tables of federated graph learning papers.

For notebooks: ``run``, ``sweep``, ``table``, ``records``, ``find``, ``announce`` and ``search``, see
:mod:`fgl_repro.api`, which is imported once one of them is asked for.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"
__all__ = ["__version__", "announce", "find", "records", "run", "search", "sweep", "table"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module("fgl_repro.api"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
