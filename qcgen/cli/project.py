"""The file qcgen.toml: models with their options, which qcgen compile takes if it is given no model."""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from qcgen.cli.options import OptionsParser, WrongOptions
from qcgen.options import GROUPS, OF_COMPILE, Option

FILE = "qcgen.toml"
"""In the folder where qcgen is called; its paths start there."""

KEYS: dict[str, Option] = {
    row.flag.removeprefix("--") if row.flag.startswith("--") else row.name: row
    for row in (*(row for rows in GROUPS.values() for row in rows), *OF_COMPILE)
    if row.name not in ("check", "force", "json")
}
"""The keys of a model beside its path: the options of qcgen compile, but those that say how it runs."""


class _Wrong(Exception):
    """What is wrong with qcgen.toml."""


def models(words: Sequence[str], add_arguments: Callable[[argparse.ArgumentParser], None]) -> list[argparse.Namespace]:
    """The arguments of qcgen compile for each model of qcgen.toml; ``words`` of the command line are added to each.

    Ends with exit status 1 if something is wrong with the file, which is printed.
    """
    parser = OptionsParser()
    add_arguments(parser)
    try:
        tables = _tables()
    except _Wrong as error:
        _fail(str(error))
    return [_arguments(number, table, words, parser) for number, table in enumerate(tables, start=1)]


def _fail(text: str) -> NoReturn:
    print(f"qcgen: {FILE}: {text}", file=sys.stderr)
    sys.exit(1)


def _tables() -> list[object]:
    try:
        with Path(FILE).open("rb") as file:
            content = tomllib.load(file)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _Wrong(str(error)) from None
    if unknown := sorted(content.keys() - {"model"}):
        raise _Wrong(f"unknown key {unknown[0]!r}; models are tables [[model]]")
    tables = content.get("model")
    if not isinstance(tables, list) or not tables:
        raise _Wrong("it has no table [[model]]")
    return tables


def _arguments(number: int, table: object, words: Sequence[str], parser: OptionsParser) -> argparse.Namespace:
    """A model's arguments; if something is wrong with them, now or later, it is told of which model."""

    def wrong(text: str) -> NoReturn:
        _fail(f"model {number}: {text}")

    if not isinstance(table, dict) or not isinstance(table.get("path"), str):
        wrong("it has no path")
    known = ("path", *KEYS)
    if unknown := [key for key in table if key not in known]:
        wrong(f"unknown key {unknown[0]!r}; there are {', '.join(known)}")
    try:
        own = [word for key, value in table.items() if key != "path" for word in _words(key, value)]
        args = parser.parse_args([*own, *words, "--", table["path"]])
    except (_Wrong, WrongOptions) as error:
        wrong(str(error))
    args.usage_error = wrong
    return args


def _words(key: str, value: object) -> Iterator[str]:
    """A key and its value as words of a command line."""
    option = KEYS[key].flag
    match value:
        case bool():
            yield from [option] if value else []
        case str() | int() if option == "-o":
            yield from [option, str(value)]
        case str() | int():
            yield f"{option}={value}"
        case list():
            for each in value:
                yield from _words(key, each)
        case dict():
            yield from (f"{option}={name}={each}" for name, each in value.items())
        case _:
            raise _Wrong(f"{key} is neither text, a number, true, a list nor a table")
