"""The options, each declared once.

The command line, ``compile`` and ``verify``, qcgen.toml and the options in reports and generated files come from it.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal, get_args

CoreName = Literal[
    "portable", "host", "cortex-m0", "cortex-m23", "cortex-m3", "cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55",
    "cortex-m85", "rv32imc", "scalar32",
]  # fmt: skip
"""The targets (``qcgen.cores``)."""

SeriesName = Literal[
    "apollo3", "apollo4", "apollo510", "ch32v3", "cortex-m0+", "cortex-m0plus", "cortex-m1", "cortex-m33f",
    "cortex-m35p", "cortex-m4f", "cortex-m52", "cortex-m7f", "efr32mg24", "esp32", "esp32c", "esp32h", "esp32s2",
    "gd32f1", "gd32vf103", "imxrt10", "imxrt11", "k64f", "lpc55", "nrf51", "nrf52", "nrf53", "nrf54l", "nrf91",
    "ra6m1", "ra6m2", "ra6m3", "ra6m4", "ra6m5", "ra8", "rv32imac", "rv32imafc", "sam3x", "samd10", "samd20",
    "samd21", "samd51", "same51", "same53", "same54", "same70", "samv71", "stm32c0", "stm32f0", "stm32f1", "stm32f2",
    "stm32f3", "stm32f4", "stm32f7", "stm32g0", "stm32g4", "stm32h5", "stm32h7", "stm32l0", "stm32l1", "stm32l4",
    "stm32l5", "stm32n6", "stm32u0", "stm32u5", "stm32wb", "stm32wba", "stm32wl", "xtensa",
]  # fmt: skip
"""Cores and series that stand for a target (``qcgen.chips``)."""

ChipName = Literal[
    "esp32c3", "esp32c6", "esp32s3", "imxrt1062", "max78000", "nrf52832", "nrf52840", "nrf5340", "ra4m1", "rp2040",
    "rp2350", "rp2350-riscv", "samd21g18", "samd51j19", "stm32f072rb", "stm32f103c8", "stm32f401re", "stm32f407",
    "stm32f411re", "stm32f429zi", "stm32f446re", "stm32f746ng", "stm32f767zi", "stm32g071", "stm32g474re",
    "stm32h743", "stm32l432kc", "stm32l476rg", "stm32l4r5", "stm32u575zi", "stm32wb55rg",
]  # fmt: skip
"""The chips (``qcgen.chips``)."""

TargetName = CoreName | SeriesName | ChipName
"""What ``target`` takes, so that a type checker finds a misspelt name; tests hold it against the tables."""

LayoutName = Literal["model", "nhwc", "nchw"]
NumericsName = Literal["onnxruntime", "tflm", "orion-fp16x16", "orion-fp8x23"]
Aim = Literal["size", "speed"]
IOTypes = Literal["model", "quantized"]
PlaceOfIO = Literal["caller", "arena"]
PlaceOfState = Literal["arena", "caller"]
InputForm = Literal["whole", "rows"]
CompilerName = Literal["gcc", "clang"]
OracleName = Literal["auto", "onnxruntime", "onnx", "tflm", "own"]
"""The first value of each is the default."""


@dataclass(frozen=True)
class Switch:
    """Given or not; ``value`` is what it is if the command line gives it."""

    value: bool = True

    @property
    def default(self) -> bool:
        """What it is if it is not given."""
        return not self.value


@dataclass(frozen=True)
class OneOf:
    """One of some words."""

    words: tuple[str, ...]
    default: str | None = None


@dataclass(frozen=True)
class Count:
    """A number from ``least`` to 999999999."""

    least: int = 0
    default: int | None = None


@dataclass(frozen=True)
class Bytes:
    """A number of bytes above 0, which the command line takes with a unit; ``or_more``: or the word "least", or two
    such numbers with a plus between them.
    """

    or_more: bool = False
    default: None = None


@dataclass(frozen=True)
class Text:
    """A name, or what the command line makes something else of, such as a file."""

    default: str | None = None


@dataclass(frozen=True)
class Several:
    """Names."""

    default: tuple[str, ...] = ()


@dataclass(frozen=True)
class ByName:
    """Values by names: NAME=VALUE on the command line, a mapping in Python."""

    values: Literal["numbers", "names", "arrays"]
    default: tuple[tuple[str, Any], ...] = ()


OptionKind = Switch | OneOf | Count | Bytes | Text | Several | ByName


@dataclass(frozen=True)
class Option:
    """An option; ``name`` is Python's, ``flags`` are the command line's, the last of them the long one.

    ``metavar`` stands for its value in ``help``, which is written for argparse. ``is_repeated``: the command line takes
    it several times, for one thing each. ``excludes``: another option with the value that contradicts it, and why.
    """

    name: str
    kind: OptionKind
    flags: str
    metavar: str
    help: str
    is_repeated: bool = False
    is_required: bool = False
    excludes: tuple[str, object, str] | None = None

    @property
    def flag(self) -> str:
        """What the command line calls it."""
        return self.flags.split()[-1]

    def words(self, value: Any) -> list[str]:
        """The option with a value as words of a command line."""
        match value:
            case bool():
                return [self.flag]
            case Mapping():
                return self.words(tuple(value.items()))
            case tuple():
                texts = [each if isinstance(each, str) else "=".join(map(str, each)) for each in value]
                return [word for text in texts for word in (self.flag, text)]
            case _:
                return [self.flag, str(value)]

    def in_python(self, value: Any) -> str:
        """The option with a value as an argument of ``compile``; a number may be a word in capitals."""
        if isinstance(value, Mapping):
            pairs = (f'"{key}": {self._literal(each)}' for key, each in value.items())
            return f"{self.name}={{{', '.join(pairs)}}}"
        return f"{self.name}={self._literal(value)}"

    def _literal(self, value: object) -> str:
        is_number = isinstance(self.kind, Count | Bytes) or self.kind == ByName("numbers")
        is_text = isinstance(value, str) and not (is_number and value.isupper())
        return f'"{value}"' if is_text else str(value)


def one_of(words: Any) -> OneOf:
    """One of a Literal's words, by default the first."""
    return OneOf(get_args(words), get_args(words)[0])


# fmt: off
CODE = (
    Option("folder", Text("."), "-o", "DIR", "where compile writes (default: here)"),
    Option("name", Text(), "--name", "", "prefix of files and C symbols (default: from the file's name)"),
    Option("target", Text("portable"), "--target", "",
        f"{', '.join(get_args(CoreName))}; a chip or a series, such as stm32f4, stands for its core (default:"
        " %(default)s)"),
    Option("layout", one_of(LayoutName), "--layout", "",
        "order of axes of images at the C function's boundary (default: the model's own)"),
    Option("numerics", one_of(NumericsName), "--numerics", "",
        "the arithmetic meant (default: %(default)s, of .tflite files tflm)"),
    Option("optimize", one_of(Aim), "--optimize", "",
        "size: weights keep their 8 bits in flash; speed: more flash and RAM, fewer cycles (default: %(default)s)"),
    Option("constant_time", Switch(), "--constant-time", "",
        "for Cortex-M3, M4, M7, M33 and RV32IMC: code that takes as many instructions for every input; operators"
        " that have none are refused"),
)
PARTS = (
    Option("node", Text(), "--node", "NAME",
        "only this node, as a function of its own; may be repeated: then each becomes files PREFIX_NODE.c and .h",
        is_repeated=True),
    Option("outputs", Several(), "--output", "TENSOR",
        "compile up to this tensor, which becomes an output in place of the model's own; may be repeated"),
    Option("dims", ByName("numbers"), "--dim", "NAME=VALUE",
        "fix a symbolic dimension, or one without a name, such as image.2 of the input image; may be repeated"),
    Option("batch", Count(1), "--batch", "N",
        "what the leading dimension of inputs becomes where the model leaves it open (default: 1)"),
    Option("rename", ByName("names"), "--rename", "NAME=NEW",
        "what an input or output is called in C; may be repeated (default: as in the model, made an identifier)"),
    Option("constants", ByName("arrays"), "--constant", "NAME=FILE.npy",
        "make an input a constant of the model, with the elements of an array; may be repeated"),
)
MEMORY = (
    Option("io", one_of(IOTypes), "--io", "",
        "quantized: without the conversions from and to float at the boundary of a network; the C function takes and"
        " gives the integers, and the header their scales (default: %(default)s)"),
    Option("arena", Bytes(or_more=True), "--arena", "BYTES|least|FAST+SLOW",
        "fit the arena into so many bytes, such as 4096 or 4k (k and KiB are 1024), with as few extra instructions as"
        " possible: layers are computed row by row; least: as few bytes as can be; FAST+SLOW, such as 64k+256k:"
        " an arena in two memories, what is used most in the fast one (default: whole tensors). With"
        " --optimize speed on Cortex-M4 what is left of BYTES holds copies of weights, since flash is often slow;"
        " without --arena it grows for them where that saves 5 %% of the estimated cycles"),
    Option("flash", Bytes(), "--flash", "BYTES",
        "the fastest code that, with its constants, fits into so many bytes of flash, such as 64k: each layer gets"
        " what gains most for a byte (default: as --optimize says)",
        excludes=("optimize", "speed", "it chooses itself what is compiled for speed")),
    Option("weights", Text(), "--weights", "FILE.bin",
        "tables and numbers of the model in a block by itself, which is written to this file: it can be placed, loaded"
        " and exchanged without the code; qcgen weights makes blocks of other models that fit it"),
    Option("io_memory", one_of(PlaceOfIO), "--io-memory", "",
        "arena: inputs and outputs lie in the arena, and may be overwritten by what is computed; the header tells"
        " where (default: %(default)s: the C function gets pointers)"),
    Option("state", one_of(PlaceOfState), "--state", "",
        "caller: what a network keeps from call to call lies in memory of its own, so that other networks may share its"
        " arena (default: %(default)s)"),
    Option("input", one_of(InputForm), "--input", "",
        "rows: the caller pushes one row of the image after the other, which is never there as a whole; the first"
        " layers must run row by row (default: %(default)s)"),
    Option("status", Switch(), "--status", "",
        "the C function returns a number: 0, or what NAME_HOOK gave behind a node, which ended the run"),
)
CHECKS = (
    Option("simplify", Switch(value=False), "--no-simplify", "", "keep what is proved to be without effect"),
    Option("strict", Switch(), "--strict", "",
        "refuse nodes that compute in float; conversions from and to it may stay"),
    Option("json", Switch(), "--json", "", "print a machine-readable report instead of text"),
)
DETAIL = (
    Option("quiet", Switch(), "-q --quiet", "", "print the last lines only, which sum up"),
    Option("verbose", Switch(), "-v --verbose", "", "print what is proved, all kernels rejected, all columns, too"),
)
FORMATS = ("cmake", "meson", "zephyr", "esp-idf", "platformio", "arduino", "cmsis-pack")
"""Whose metadata a package can have."""

BANNER = Option("banner", Text(), "--banner", "FILE",
    "text for the head of each C file, such as a copyright or a line SPDX-License-Identifier")
FORCE = Option("force", Switch(), "--force", "", "overwrite files that qcgen did not generate, too")
OF_COMPILE = (
    Option("board", Text(), "--board", "CHIP",
        "say whether the network fits a chip such as stm32f407, in percent of flash and RAM, and how long an inference"
        " takes; its core is the target if none is named; qcgen targets lists the chips"),
    Option("certificate", Switch(), "--certificate", "",
        "write PREFIX.cert.json, too: what was proved, for others to check"),
    Option("report", OneOf(("json", "html", "stack")), "--report", "",
        "write the report to PREFIX_report.json or PREFIX_report.html, too: a page for a browser; stack: write"
        " PREFIX_stack.h with the bytes of stack that a call needs at most; may be repeated", is_repeated=True),
    Option("self_test", Switch(), "--self-test", "",
        "write PREFIX_test.h and PREFIX_test.c, too: a function that says on the core which node computes something"
        " else than the reference", excludes=("input", "rows", "it brings an input of its own")),
    Option("test_slices", Switch(), "--test-slices", "",
        "--self-test that checks tables some bytes at a time, so that a watchdog can be fed: PREFIX_test_slice checks"
        " the next ones, and may be called by itself", excludes=("input", "rows", "it brings an input of its own")),
    Option("vectors", Count(0, 0), "--vectors", "N",
        "write PREFIX_vectors.h, too: N inputs and the outputs that they must give, for tests of yours"),
    Option("data", Text(), "--data", "FILE.npz",
        "the inputs of --self-test and --vectors, recorded as for verify (default: random), or with --bake the"
        " constants; where it has an array 'labels', the accuracy of the C is reported"),
    Option("bake", Switch(), "--bake", "",
        "make the inputs that --data names constants of the model, with its elements"),
    Option("check", Switch(), "--check", "",
        "write nothing: print how the files that lie there differ from those that would be written, exit with 1 if any"
        " does; for continuous integration"),
    BANNER,
    FORCE,
)
COMPILER = Option("compiler", one_of(CompilerName), "--compiler", "", "for an emulated core (default: %(default)s)")
FLAGS = Option("flags", Text(), "--cflags", "FLAGS",
    "flags for the C compiler, in one argument (default: -O2, with --target host -O3 -march=native); CC names"
    " another compiler")
SEED = Option("seed", Count(0, 0), "--seed", "", "of the random inputs (default: %(default)s)")
OF_VERIFY = (
    Option("each", Switch(), "--each", "", "verify every convolution of the model by itself"),
    SEED,
    Option("cases", Count(0, 10), "--cases", "", "number of random inputs (default: %(default)s)"),
    FLAGS,
    COMPILER,
    Option("sums", Switch(value=False), "--no-sums", "", "measure no sums, drive no steps"),
    Option("oracle", one_of(OracleName), "--oracle", "",
        "who judges the outputs, too, by the model file: onnxruntime, bit for bit; onnx, its reference evaluator,"
        " within one code; tflm, for .tflite files, every tensor bit for bit; own: nobody (default: the first of these"
        " that is installed and can)"),
    Option("host", Switch(), "--host", "", "run code for any target on this machine, in its portable meaning"),
    Option("data", Text(), "--data", "FILE.npz",
        "compare with recordings, too: arrays called like inputs and, if they were recorded, outputs, of one case or"
        " of several along the first axis; in<k>.INPUT and out<k>.OUTPUT, or node<k>.NODE.x and .y, are a case each,"
        " shaped as in the model"),
    Option("serial", Text(), "--serial", "PORT",
        "a board with a firmware of qcgen example runs the code: /dev/ttyACM0, COM3, socket://HOST:PORT"),
    Option("baud", Count(0, 115200), "--baud", "", "speed of the serial port (default: %(default)s)"),
    Option("timeout", Count(0, 60), "--timeout", "SECONDS",
        "how long the board may take for one run of the network (default: %(default)s)"),
)
# fmt: on

CODE_OPTIONS = (
    *"name target layout numerics optimize node outputs io arena flash io_memory".split(),
    *"state input status rename simplify weights constant_time".split(),
)
"""Those that choose the code and name no file: a firmware tells them, and may tell no others."""

GROUPS = {
    ("what the C is made for", "--target cortex-m4 --layout nhwc -o firmware"): CODE,
    ("parts of the model", "--dim N=1 --output logits --rename input_1=image"): PARTS,
    ("memory", "--io quantized --arena 16k"): MEMORY,
    ("checks and report", "--strict --json"): CHECKS,
}
"""The options of all commands that compile, by a title and an example."""

OPTIONS = {row.name: row for rows in (OF_VERIFY, OF_COMPILE, *GROUPS.values()) for row in rows}
"""Every option that Python has or a text names, by Python's name; commands have a few more of their own."""

_PYTHON = ContextVar("python", default=False)


@contextmanager
def in_python() -> Iterator[None]:
    """Texts that are made within the block spell options as Python does, not as the command line does."""
    token = _PYTHON.set(True)
    try:
        yield
    finally:
        _PYTHON.reset(token)


def spelt(*names: str, **values: object) -> str:
    """Options, by their names in Python, as the user writes them, alone or with values.

    >>> spelt("flash"), spelt(arena="least"), spelt(dims={"N": 1, "H": "SIZE"})
    ('--flash', '--arena least', '--dim N=1 --dim H=SIZE')
    >>> with in_python():
    ...     spelt("flash"), spelt(arena="least"), spelt(dims={"N": 1, "H": "SIZE"})
    ('flash', 'arena="least"', 'dims={"N": 1, "H": SIZE}')
    """
    if _PYTHON.get():
        return ", ".join([*names, *(OPTIONS[name].in_python(value) for name, value in values.items())])
    words = [word for name, value in values.items() for word in OPTIONS[name].words(value)]
    return " ".join([*(OPTIONS[name].flag for name in names), *words])


def contradiction(given: Mapping[str, object]) -> str | None:
    """What is wrong with options together, by their names; the one at fault stands in front. None if nothing."""
    for option in filter(None, map(OPTIONS.get, given)):
        other, value, why = option.excludes or ("", None, "")
        if given[option.name] != option.kind.default and other in given and given[other] == value:
            return f"{spelt(option.name)}: {why}: leave out {spelt(**{other: value})}"
    return None


def require(name: str, value: object) -> None:
    """Raises ValueError unless an option may have this value in Python."""
    if why := _why_not(OPTIONS[name].kind, value):
        raise ValueError(f"{name} must be {why}")


def _why_not(kind: OptionKind, value: object) -> str | None:
    """What a value must be; None if it is."""
    if value is None and kind.default in (None, ()):
        return None
    match kind:
        case OneOf(words) if value not in words:
            return f"one of {', '.join(words)}, not {value!r}"
        case Count() if not isinstance(value, Integral):
            return f"a number or None, not {value!r}"
        case Bytes(or_more) if not (_is_size(value) or (or_more and _is_text_of_size(value))):
            more = ", 'least', two of them such as '65536+262144'" if or_more else ""
            return f"a number of bytes above 0{more} or None, not {value!r}"
        case Text() if not isinstance(value, str):
            return f"a name, not {value!r}"
        case Several() if not isinstance(value, str | Iterable):
            return f"a name or several, not {value!r}"
        case ByName(values):
            return _why_no_mapping(values, value)
        case _:
            return None


def block_name(text: str) -> str:
    """The name of a block's file; ValueError unless it is one and ends with .bin.

    >>> block_name("ww.bin")
    'ww.bin'
    """
    if not text.endswith(".bin") or len(text) == len(".bin") or set(text) & set("/\\"):
        raise ValueError(f"name a file that is written beside the C and ends with .bin, not {text!r}")
    return text


def two_memories(arena: object) -> tuple[int, int] | None:
    """The bytes of an arena's fast part and of its slow one; None if it is in one memory.

    >>> two_memories("65536+262144"), two_memories("least"), two_memories(65536)
    ((65536, 262144), None, None)
    """
    parts = arena.split("+") if isinstance(arena, str) else []
    if len(parts) != 2 or not all(part.isascii() and part.isdigit() and int(part) > 0 for part in parts):
        return None
    return int(parts[0]), int(parts[1])


_UNITS = {"": 1, "k": 1024, "kib": 1024, "m": 1024**2, "mib": 1024**2}

MOST_BYTES = 999_999_999
"""The largest size that the text of an option may name."""


def parse_size(text: str, *, or_more: bool) -> int | str:
    """The text of a number of bytes; with ``or_more`` also "least", and two with a plus between them, without units.

    >>> parse_size("4k", or_more=False), parse_size("64k+256k", or_more=True), parse_size("least", or_more=True)
    (4096, '65536+262144', 'least')
    """
    if or_more and text == "least":
        return "least"
    counts = [_bytes(part) for part in text.split("+")]
    if not all(counts) or len(counts) > 1 + or_more:
        sizes = "a number of bytes from 1 to 999999999, as 4096, 4k or 4KiB"
        raise ValueError(
            f"{text!r} is neither {sizes}, nor 'least', nor two of them, as 64k+256k"
            if or_more
            else f"{text!r} is not {sizes}"
        )
    return counts[0] if len(counts) == 1 else "+".join(map(str, counts))


def _bytes(text: str) -> int:
    """The bytes of a number with a unit; 0 if it is none. As linkers understand it, k stands for 1024.

    >>> _bytes("100"), _bytes("4k"), _bytes("64KiB"), _bytes("1M"), _bytes("4kB")
    (100, 4096, 65536, 1048576, 0)
    """
    digits = text.rstrip(string.ascii_letters)
    unit = _UNITS.get(text[len(digits) :].lower(), 0)
    count = int(digits) * unit if digits.isascii() and digits.isdigit() and len(digits) < 10 else 0
    return count if count <= MOST_BYTES else 0


def _is_text_of_size(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(parse_size(value, or_more=True))
    except ValueError:
        return False


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _why_no_mapping(values: str, given: object) -> str | None:
    import numpy as np

    kind = {"numbers": Integral, "names": str, "arrays": np.ndarray}[values]
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        return f"a mapping by names, not {given!r}"
    wrong = (f"{values} by names: that of {n!r} is {each!r}" for n, each in given.items() if not isinstance(each, kind))
    return next(wrong, None)
