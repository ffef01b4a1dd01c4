"""Names for the shell to complete: a script of a tool's commands, options and of the names that they take."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import shtab

SHELLS = ("bash", "zsh")


def add(commands: argparse._SubParsersAction[Any], tool: str) -> argparse.ArgumentParser:
    """Add the command ``completion``; returns its parser."""
    help = f'print a script that completes names: eval "$({tool} completion bash)"'
    sub: argparse.ArgumentParser = commands.add_parser("completion", help=help, description=help)
    sub.add_argument("shell", choices=SHELLS)
    return sub


def script(parser: argparse.ArgumentParser, shell: str, names: Mapping[str, Iterable[str]]) -> str:
    """Make the script for ``shell``.

    Args:
        names: What may stand for an argument, by the argument's ``dest``.
    """
    preamble = ""
    for dest, words in names.items():
        function, listed = f"_{parser.prog.replace('-', '_')}_{dest}", " ".join(words)
        preamble += f'{function}() {{ compgen -W "{listed}" -- "$1"; }}\n'
        for action in (action for action in _actions(parser) if action.dest == dest):
            action.complete = {"bash": function, "zsh": f"({listed})"}  # type: ignore[attr-defined]
    text: str = shtab.complete(parser, shell=shell, preamble=preamble if shell == "bash" else "")
    return text


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield the arguments of a parser and of its commands."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for sub in dict.fromkeys(action.choices.values()):
                yield from _actions(sub)
