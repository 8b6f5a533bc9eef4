"""A parser of command lines that says in two lines what is wrong and what was probably meant, and completes words."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any, NoReturn


class Parser(argparse.ArgumentParser):
    """As argparse's, except that it takes no shortened options and speaks as the module says; ends with status 2."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """Says what is wrong, and how to see the options."""
        self.exit(2, f"{self.prog}: error: {message}\n{self.prog} --help shows what there is\n")

    def parse_known_args(  # type: ignore[override]  # a command's parser, too, ends with what it does not know
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """As argparse's parse_args: there are no arguments that are unknown and passed on."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            options = [option for action in self._actions for option in action.option_strings]
            word = unknown[0].partition("=")[0]
            self.error(f"unknown argument {unknown[0]!r}{meant(word, options if word.startswith('-') else ())}")
        return found, []

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            choices = [str(each) for each in action.choices]
            hint = meant(str(value), choices) or f": there are {', '.join(choices)}"
            raise argparse.ArgumentError(action, f"unknown {value!r}{hint}")


def meant(word: str, known: Iterable[str]) -> str:
    """The question whether the nearest of what is known was meant; nothing where none is near.

    >>> meant("--ouput", ["--name", "--output"]), meant("--z80", ["--name"])
    (': did you mean --output?', '')
    """
    near = get_close_matches(word, known, n=1)
    return f": did you mean {near[0]}?" if near else ""


# Completion of command lines in a shell, where argcomplete is installed.


def complete(parser: argparse.ArgumentParser) -> None:
    """Answers a shell that asks what may stand at the cursor, and ends the process; otherwise returns.

    Commands, options and choices are those of ``parser``; elsewhere files are offered.
    """
    if "_ARGCOMPLETE" not in os.environ:
        return
    try:
        import argcomplete
    except ImportError:
        return
    argcomplete.autocomplete(parser)
