"""The options that every command that compiles shares."""

from __future__ import annotations

import argparse
import shlex
import string
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, get_args

from qcgen import options
from qcgen.chips import Chip, UnknownChip, chip_of, target_of
from qcgen.cores import TARGETS

if TYPE_CHECKING:
    from qcgen.ir.plan import Options
    from qcgen.ir.types import Array

# The first value of each is the default.
LAYOUTS = get_args(options.LayoutName)
NUMERICS = get_args(options.NumericsName)
OPTIMIZE = get_args(options.Aim)
IO = get_args(options.Boundary)
IO_MEMORY = get_args(options.PlaceOfIO)
INPUT = get_args(options.InputForm)
COMPILERS = get_args(options.CompilerName)
ORACLES = get_args(options.OracleName)

USUAL = "-O2"
"""The flag of the C compiler with which bench counts and of which compile says the flash."""

CODE_OPTIONS = (
    *("--name", "--target", "--layout", "--numerics", "--optimize", "--node", "--output", "--io", "--arena", "--flash"),
    *("--io-memory", "--input", "--status", "--rename", "--no-simplify"),
)
"""Those that choose the code and name no file: a firmware tells them, and may tell no others."""


MOST_BYTES = 999_999_999
"""The largest size that an option may name."""


class WrongOptions(Exception):
    """Options that a file or a board names are wrong; the text says how."""


class OptionsParser(argparse.ArgumentParser):
    """A parser of options that are not the command line's: it raises WrongOptions and does not end the process."""

    def __init__(self) -> None:
        super().__init__(prog="qcgen compile", add_help=False, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """Raises WrongOptions."""
        raise WrongOptions(message)


def add_compile_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of all commands that compile, in groups, in the order in which --help lists them."""
    for title, example, declare in _GROUPS:
        declare(parser.add_argument_group(title, f"Such as {example}").add_argument)


def add_detail_options(parser: argparse.ArgumentParser) -> None:
    """Declares how much of the text a command prints."""
    add = parser.add_mutually_exclusive_group().add_argument
    add("-q", "--quiet", action="store_true", help="print the last lines only, which sum up")
    add("-v", "--verbose", action="store_true", help="print what is proved, all kernels rejected, all columns, too")


def add_code_options(parser: argparse.ArgumentParser) -> None:
    """Declares CODE_OPTIONS."""

    def add(flag: str, **settings: Any) -> None:
        if flag in CODE_OPTIONS:
            parser.add_argument(flag, **settings)

    for _, _, declare in _GROUPS:
        declare(add)


def _add_strictness(add: Callable[..., object]) -> None:
    """What is refused or kept, and the form of the report."""
    add("--no-simplify", dest="simplify", action="store_false", help="keep what is proved to be without effect")
    add("--strict", action="store_true", help="refuse nodes that compute in float; conversions from and to it may stay")
    add("--json", action="store_true", help="print a machine-readable report instead of text")


def _add_target(add: Callable[..., object]) -> None:
    """What the C is called, where it goes, and what it is made for."""
    add("-o", dest="output", metavar="DIR", type=_folder, default=Path(), help="where compile writes (default: here)")
    add("--name", type=_prefix, help="prefix of files and C symbols (default: from the file's name)")
    add(
        "--target",
        type=_target,
        default="portable",
        help=f"{', '.join(TARGETS)}; a chip or a series, such as stm32f4, stands for its core (default: %(default)s)",
    )
    add(
        "--layout",
        choices=LAYOUTS,
        default=LAYOUTS[0],
        help="order of axes of images at the C function's boundary (default: the model's own)",
    )
    add(
        "--numerics",
        choices=NUMERICS,
        default=NUMERICS[0],
        help="the arithmetic meant (default: %(default)s, of .tflite files tflm)",
    )
    add(
        "--optimize",
        choices=OPTIMIZE,
        default=OPTIMIZE[0],
        help="size: weights keep their 8 bits in flash; speed: more flash and RAM, fewer cycles (default: %(default)s)",
    )


def _add_parts_of_model(add: Callable[..., object]) -> None:
    """Which nodes of the model are compiled, and for which sizes."""
    add(
        "--node",
        dest="nodes",
        metavar="NAME",
        action="append",
        default=[],
        help="only this node, as a function of its own; may be repeated: then each becomes files PREFIX_NODE.c and .h",
    )
    add(
        "--output",
        dest="outputs",
        metavar="TENSOR",
        action="append",
        default=[],
        help="compile up to this tensor, which becomes an output in place of the model's own; may be repeated",
    )
    add(
        "--dim",
        dest="dims",
        metavar="NAME=VALUE",
        type=_dimension,
        action="append",
        default=[],
        help="fix a symbolic dimension; may be repeated",
    )
    add(
        "--batch",
        metavar="N",
        type=_positive,
        help="what the leading dimension of inputs becomes where the model leaves it open (default: 1)",
    )
    add(
        "--rename",
        metavar="NAME=NEW",
        type=_name_pair,
        action="append",
        default=[],
        help="what an input or output is called in C; may be repeated (default: as in the model, made an identifier)",
    )
    add(
        "--constant",
        dest="constants",
        metavar="NAME=FILE.npy",
        type=_constant,
        action="append",
        default=[],
        help="make an input a constant of the model, with the elements of an array; may be repeated",
    )


def _name_pair(text: str) -> tuple[str, str]:
    name, equals, new = text.rpartition("=")
    if not (name and equals and new):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=NEW")
    return name, new


def _add_memory(add: Callable[..., object]) -> None:
    """What the caller hands over and how, and how much memory there is."""
    add(
        "--io",
        choices=IO,
        default=IO[0],
        help="quantized: without the conversions from and to float at the boundary of a network; the C function takes"
        " and gives the integers, and the header their scales (default: %(default)s)",
    )
    add(
        "--arena",
        metavar="BYTES|least",
        type=_arena,
        help="fit the arena into so many bytes, such as 4096 or 4k (k and KiB are 1024), with as few extra instructions"
        " as possible: layers are computed row by row; least: as few bytes as can be (default: whole tensors). With"
        " --optimize speed on Cortex-M4 what is left of BYTES holds copies of weights, since flash is often slow;"
        " without --arena it grows for them where that saves 5 %% of the estimated cycles",
    )
    add(
        "--flash",
        metavar="BYTES",
        type=_flash,
        help="the fastest code that, with its constants, fits into so many bytes of flash, such as 64k: each layer gets"
        " what gains most for a byte (default: as --optimize says)",
    )
    add(
        "--io-memory",
        choices=IO_MEMORY,
        default=IO_MEMORY[0],
        help="arena: inputs and outputs lie in the arena, and may be overwritten by what is computed; the header tells"
        " where (default: %(default)s: the C function gets pointers)",
    )
    add(
        "--input",
        choices=INPUT,
        default=INPUT[0],
        help="rows: the caller pushes one row of the image after the other, which is never there as a whole; the first"
        " layers must run row by row (default: %(default)s)",
    )
    add(
        "--status",
        action="store_true",
        help="the C function returns a number: 0, or what NAME_HOOK gave behind a node, which ended the run",
    )


_GROUPS = (
    ("what the C is made for", "--target cortex-m4 --layout nhwc -o firmware", _add_target),
    ("parts of the model", "--dim N=1 --output logits --rename input_1=image", _add_parts_of_model),
    ("memory", "--io quantized --arena 16k", _add_memory),
    ("checks and report", "--strict --json", _add_strictness),
)
"""The options of all commands that compile: a title, an example, and what declares them."""


def compile_options(args: argparse.Namespace) -> Options:
    """The options that the code depends on."""
    from qcgen.ir.plan import Options

    if args.flash is not None and args.optimize == "speed":
        args.usage_error("argument --flash: it chooses itself what is compiled for speed: leave out --optimize speed")
    names = {each.name for each in fields(Options)}
    given = {name: value for name, value in vars(args).items() if name in names}
    return Options(**given | {"outputs": tuple(args.outputs), "rename": _renamed(args), "self_test": False})


def dimensions(args: argparse.Namespace) -> dict[str, int]:
    """The dimensions fixed; ends with a usage error if one has two values."""
    fixed: dict[str, int] = {}
    for name, value in args.dims:
        if fixed.setdefault(name, value) != value:
            args.usage_error(f"argument --dim: {name} is set to {fixed[name]} and to {value}")
    return fixed


def _renamed(args: argparse.Namespace) -> tuple[tuple[str, str], ...]:
    """The names of inputs and outputs in C; ends with a usage error if one has two."""
    chosen: dict[str, str] = {}
    for name, new in args.rename:
        if chosen.setdefault(name, new) != new:
            args.usage_error(f"argument --rename: {name} is renamed to {chosen[name]} and to {new}")
    return tuple(chosen.items())


def joined(argv: Sequence[str]) -> list[str]:
    """The same arguments with the value of --cflags attached: alone, argparse takes "-O3" for an option."""
    words, result = iter(argv), []
    for word in words:
        value = next(words, None) if word == "--cflags" else None
        result.append(word if value is None else f"{word}={value}")
    return result


def compiler_flags(text: str) -> tuple[str, ...]:
    """The words of --cflags."""
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None


def count(text: str) -> int:
    """A number that is not negative."""
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 999999999")
    return int(text)


def _target(text: str) -> str:
    try:
        return target_of(text)
    except UnknownChip as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def board(text: str) -> Chip:
    """The chip of --board."""
    try:
        return chip_of(text)
    except UnknownChip as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _text(path: str) -> str:
    """What a file holds."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{path}: it cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise argparse.ArgumentTypeError(f"{path}: it is not text in UTF-8") from None


BANNER: dict[str, Any] = {
    "metavar": "FILE",
    "type": _text,
    "help": "text for the head of each C file, such as a copyright or a line SPDX-License-Identifier",
}
"""The option of commands that write C for a product."""


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 999999999")
    return int(text)


_UNITS = {"": 1, "k": 1024, "kib": 1024, "m": 1024**2, "mib": 1024**2}


def _arena(text: str) -> int | Literal["least"]:
    if text == "least":
        return "least"
    count = _bytes(text)
    if not count:
        raise argparse.ArgumentTypeError(f"{text!r} is neither {_SIZES}, nor 'least'")
    return count


def _flash(text: str) -> int:
    count = _bytes(text)
    if not count:
        raise argparse.ArgumentTypeError(f"{text!r} is not {_SIZES}")
    return count


_SIZES = "a number of bytes from 1 to 999999999, as 4096, 4k or 4KiB"


def _bytes(text: str) -> int:
    """The bytes of a number with a unit; 0 if it is none. As linkers understand it, k stands for 1024.

    >>> _bytes("100"), _bytes("4k"), _bytes("64KiB"), _bytes("1M"), _bytes("4kB")
    (100, 4096, 65536, 1048576, 0)
    """
    digits = text.rstrip(string.ascii_letters)
    unit = _UNITS.get(text[len(digits) :].lower(), 0)
    count = int(digits) * unit if digits.isascii() and digits.isdigit() and len(digits) < 10 else 0
    return count if count <= MOST_BYTES else 0


def _folder(text: str) -> Path:
    path = Path(text)
    if path.suffix in (".c", ".h") and not path.is_dir():
        what = f"{text!r} is not a folder's name: the files go into a folder, here if there is no -o"
        raise argparse.ArgumentTypeError(f"{what}; --name {path.stem} calls them {path.stem}.c and {path.stem}.h")
    return path


def _prefix(text: str) -> str:
    from qcgen.plan.names import is_prefix

    if not is_prefix(text):
        what = "is no C identifier that starts with a letter, does not end in '_' and is not a reserved word or header"
        raise argparse.ArgumentTypeError(f"{text!r} {what}")
    return text


def _constant(text: str) -> tuple[str, Array]:
    import numpy as np

    name, equals, path = text.partition("=")
    if not (name and equals and path):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=FILE.npy")
    try:
        array = np.load(path, allow_pickle=False)
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{path}: it cannot be read: {error.strerror or error}") from None
    except (ValueError, EOFError):
        raise argparse.ArgumentTypeError(f"{path}: it is no .npy file of a plain array") from None
    if not isinstance(array, np.ndarray):
        raise argparse.ArgumentTypeError(f"{path}: it holds several arrays")
    return name, array


def _dimension(text: str) -> tuple[str, int]:
    name, equals, value = text.rpartition("=")
    digits = value.isascii() and value.isdigit() and len(value) < 10
    if not (name and equals and digits and int(value)):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE with a positive number")
    return name, int(value)
