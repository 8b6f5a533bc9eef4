"""Options as commands declare and read them, and a parser that says what was probably meant."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from qcgen.chips import chip_of, target_of
from qcgen.options import (
    CODE_OPTIONS,
    DETAIL,
    GROUPS,
    MOST_BYTES,
    ByName,
    Bytes,
    Count,
    OneOf,
    Option,
    Several,
    Switch,
    block_name,
    contradiction,
    parse_size,
    spelt,
)

if TYPE_CHECKING:
    from qcgen.ir.plan import Options
    from qcgen.ir.types import Array


USUAL = "-O2"
"""The flag of the C compiler with which bench counts and of which compile says the flash."""


class WrongOptions(Exception):
    """Options that a file or a board names are wrong; the text says how."""


class OptionsParser(argparse.ArgumentParser):
    """A parser of options that are not the command line's: it raises WrongOptions and does not end the process."""

    def __init__(self) -> None:
        super().__init__(prog="qcgen compile", add_help=False, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """Raises WrongOptions."""
        raise WrongOptions(message)


def add_options(
    container: argparse._ActionsContainer, rows: Iterable[Option], parsers: Mapping[str, Callable[[str], Any]] = {}
) -> None:
    """Declares options, each as ``args.NAME``; ``parsers`` make values of the texts of some, beside PARSERS."""
    for row in rows:
        settings: dict[str, Any] = {"default": row.kind.default, "metavar": row.metavar or None}
        match row.kind:
            case Switch(value):
                settings = {"action": "store_true" if value else "store_false"}
            case OneOf(words):
                settings["choices"] = words
            case Count(least):
                settings["type"] = _typed(partial(_count, least))
            case Bytes(or_more):
                settings["type"] = _typed(partial(parse_size, or_more=or_more))
            case _:
                settings["type"] = _typed({**PARSERS, **parsers}.get(row.name, str))
        if row.is_repeated or isinstance(row.kind, Several | ByName):
            settings |= {"action": "append", "default": []}
        if row.is_required:
            settings["required"] = True
        container.add_argument(*row.flags.split(), dest=row.name, help=row.help, **settings)


def _typed(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """A type for argparse, which says what the text of a ValueError says."""

    def typed(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return typed


def add_compile_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of all commands that compile, in groups, in the order in which --help lists them."""
    for (title, example), rows in GROUPS.items():
        add_options(parser.add_argument_group(title, f"Such as {example}"), rows)


def add_detail_options(parser: argparse.ArgumentParser) -> None:
    """Declares how much of the text a command prints."""
    add_options(parser.add_mutually_exclusive_group(), DETAIL)


def add_code_options(parser: argparse.ArgumentParser) -> None:
    """Declares those that choose the code and name no file: a firmware tells them, and may tell no others."""
    add_options(parser, (row for rows in GROUPS.values() for row in rows if row.name in CODE_OPTIONS))


def compile_options(args: argparse.Namespace) -> Options:
    """The options that the code depends on; ends with a usage error if two contradict each other."""
    from qcgen.ir.plan import Options

    if why := contradiction(vars(args)):
        args.usage_error(f"argument {why}")
    names = {each.name for each in fields(Options)}
    given = {name: value for name, value in vars(args).items() if name in names}
    rename = tuple(by_name(args, "rename").items())
    given |= {"self_test": False, "test_slices": False}  # of files beside the code
    return Options(**given | {"outputs": tuple(args.outputs), "rename": rename})


def by_name(args: argparse.Namespace, option: str) -> dict[str, Any]:
    """The values of an option that is given once for each name; ends with a usage error if a name has two values."""
    chosen: dict[str, Any] = {}
    for name, value in getattr(args, option):
        if chosen.setdefault(name, value) != value:
            verb = "renamed" if option == "rename" else "set"
            args.usage_error(f"argument {spelt(option)}: {name} is {verb} to {chosen[name]} and to {value}")
    return chosen


def joined(argv: Sequence[str]) -> list[str]:
    """The same arguments with the value of --cflags attached: alone, argparse takes "-O3" for an option."""
    words, result = iter(argv), []
    for word in words:
        value = next(words, None) if word == "--cflags" else None
        result.append(word if value is None else f"{word}={value}")
    return result


def _compiler_flags(text: str) -> tuple[str, ...]:
    """The words of --cflags."""
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise ValueError(f"{text!r}: {error}") from None


def _count(least: int, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) >= least):
        raise ValueError(f"{text!r} is not a number from {least} to {MOST_BYTES}")
    return int(text)


def _text(path: str) -> str:
    """What a file holds."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"{path}: it cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path}: it is not text in UTF-8") from None


def _folder(text: str) -> Path:
    path = Path(text)
    if path.suffix in (".c", ".h") and not path.is_dir():
        what = f"{text!r} is not a folder's name: the files go into a folder, here if there is no -o"
        raise ValueError(f"{what}; --name {path.stem} calls them {path.stem}.c and {path.stem}.h")
    return path


def _prefix(text: str) -> str:
    from qcgen.plan.names import is_prefix

    if not is_prefix(text):
        what = "is no C identifier that starts with a letter, does not end in '_' and is not a reserved word or header"
        raise ValueError(f"{text!r} {what}")
    return text


def _constant(text: str) -> tuple[str, Array]:
    import numpy as np

    name, equals, path = text.partition("=")
    if not (name and equals and path):
        raise ValueError(f"{text!r} is not NAME=FILE.npy")
    try:
        array = np.load(path, allow_pickle=False)
    except OSError as error:
        raise ValueError(f"{path}: it cannot be read: {error.strerror or error}") from None
    except (ValueError, EOFError):
        raise ValueError(f"{path}: it is no .npy file of a plain array") from None
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{path}: it holds several arrays")
    return name, array


def _dimension(text: str) -> tuple[str, int]:
    name, equals, value = text.rpartition("=")
    digits = value.isascii() and value.isdigit() and len(value) < 10
    if not (name and equals and digits and int(value)):
        raise ValueError(f"{text!r} is not NAME=VALUE with a positive number")
    return name, int(value)


def _name_pair(text: str) -> tuple[str, str]:
    name, equals, new = text.rpartition("=")
    if not (name and equals and new):
        raise ValueError(f"{text!r} is not NAME=NEW")
    return name, new


PARSERS: dict[str, Callable[[str], Any]] = {
    "folder": _folder,
    "name": _prefix,
    "target": target_of,
    "dims": _dimension,
    "rename": _name_pair,
    "constants": _constant,
    "board": chip_of,
    "data": Path,
    "flags": _compiler_flags,
    "banner": _text,
    "output": Path,
    "weights": block_name,
}
"""What makes a value of an option's text, by the option's name; the others are numbers, words or any text."""


# A parser of command lines that says in two lines what is wrong and what was probably meant, and completes words.


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
            self.error(f"unknown argument {unknown[0]!r}{_meant(word, options if word.startswith('-') else ())}")
        return found, []

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            choices = [str(each) for each in action.choices]
            hint = _meant(str(value), choices) or f": there are {', '.join(choices)}"
            raise argparse.ArgumentError(action, f"unknown {value!r}{hint}")


def _meant(word: str, known: Iterable[str]) -> str:
    """The question whether the nearest of what is known was meant; nothing where none is near.

    >>> _meant("--ouput", ["--name", "--output"]), _meant("--z80", ["--name"])
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
