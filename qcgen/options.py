"""The words that options take, each list once, for the command line, Python and type checkers; options in Python."""

from __future__ import annotations

import re
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
Boundary = Literal["model", "quantized"]
PlaceOfIO = Literal["caller", "arena"]
InputForm = Literal["whole", "rows"]
CompilerName = Literal["gcc", "clang"]
OracleName = Literal["auto", "onnxruntime", "onnx", "tflm", "own"]
"""The first value of each is the default."""


def require_word(option: str, value: object, words: Any) -> None:
    """Raises ValueError unless the value is one of a Literal's words."""
    if value not in get_args(words):
        raise ValueError(f"{option} must be one of {', '.join(get_args(words))}, not {value!r}")


_FLAGS = {
    "outputs": "--output",
    "dims": "--dim",
    "constants": "--constant",
    "flags": "--cflags",
    "simplify": "--no-simplify",
    "folder": "-o",
}
"""The options of Python that the command line calls otherwise."""


def flag_of(name: str) -> str:
    """What the command line calls an option of Python."""
    return _FLAGS.get(name, f"--{name.replace('_', '-')}")


_NAMES = "name target layout numerics optimize node batch rename io arena flash io_memory input board oracle seed data"
_PYTHON = {flag_of(name): name for name in (*_FLAGS, *_NAMES.split(), "compiler", "host")}
_PYTHON |= {flag_of("simplify"): "simplify=False", "--strict": "strict=True", "--force": "force=True"}
"""Options of the command line that texts of problems name, and what they are called in Python."""

_WORDS = "|".join(
    word
    for kind in (LayoutName, NumericsName, Aim, Boundary, PlaceOfIO, InputForm, OracleName)
    for word in get_args(kind)
)
_OPTION = re.compile(
    rf"python -m [^;,]*|(?<![\w-])(--?[a-z]+(?:-[a-z]+)*)(?: ([^\s=]+=\w+|\d+|least|[A-Z]+\b|(?:{_WORDS})\b))?"
)


def in_python(text: str) -> str:
    """The text of a problem with the options in it as Python spells them; other commands stay as they are.

    >>> in_python("add --dim batch=1 --dim H=SIZE, use --io-memory arena, or leave --flash out")
    'add dims={"batch": 1, "H": SIZE}, use io_memory="arena", or leave flash out'
    """
    return _OPTION.sub(_as_python, text).replace("} dims={", ", ")


def _as_python(found: re.Match[str]) -> str:
    name, value = _PYTHON.get(found[1]), found[2]
    if name is None:
        return found[0]
    if value is None or "=" in name:
        return name if value is None else f"{name} {value}"
    key, is_pair, inner = value.rpartition("=")
    if is_pair:
        shown = inner if name == "dims" else f'"{inner}"'
        return f'{name}={{"{key}": {shown}}}'
    is_number = value.isdigit() or value in ("N", "BYTES")
    return f"{name}={value}" if is_number else f'{name}="{value}"'
