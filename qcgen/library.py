"""The library: C functions of ``templates/library/``, of which a generated file gets those that it uses.

Its files are C as compilers take it. Names there begin with ``qcgen_`` or ``QCGEN_``; a generated file has its own
prefix in that place. A file is a preamble, which is not copied, then pieces: functions and what belongs to them, with
blank lines between.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path

FILES = (
    "compiler.h",
    "integers.h",
    "soft_float.h",
    "truncation.h",
    "float32.h",
    "activations.h",
    "pairs.h",
    "dynamic.h",
    "recurrent.h",
    "dynamic_lstm.h",
    "layer_norm.h",
    "instance_norm.h",
    "float_norms.h",
    "spatial.h",
    "window_sums.h",
    "products.h",
    "float_conv.h",
    "softmax.h",
    "float_softmax.h",
    "integer_softmax.h",
    "dsp.h",
    "integer_lstm.h",
    "dsp_windows.h",
    "dsp_sums.h",
    "dsp_dense.h",
    "dsp_depthwise.h",
    "dsp_planes.h",
    "means.h",
    "dsp_means.h",
    "dsp_plane_sums.h",
    "dsp_products.h",
    "dsp_winograd.h",
    "helium.h",
    "mve_blocks.h",
    "mve_windows.h",
    "mve_products.h",
    "mve_rows.h",
    "mve_depthwise.h",
    "pools.h",
    "code_pools.h",
    "mve_pools.h",
    "bilinear.h",
    "places.h",
    "scalar.h",
    "channelwise.h",
    "scalar_sums.h",
    "scalar_dense.h",
    "scalar_windows.h",
    "scalar_winograd.h",
    "scalar_depthwise.h",
    "dot.h",
)
"""In the order in which their pieces stand in a generated file: none calls a later one."""

_OF_BYTES = (
    *("layer_norm.h", "instance_norm.h", "softmax.h", "integer_softmax.h", "dsp_windows.h", "dsp_dense.h"),
    *("dsp_planes.h", "scalar_dense.h", "scalar_windows.h", "scalar_winograd.h", "scalar_depthwise.h", "mve_rows.h"),
    *("pairs.h", "pools.h", "code_pools.h", "bilinear.h", "places.h", "means.h", "dsp_means.h", "dsp_winograd.h"),
)
"""Those whose functions take int8_t, as names with _s8 say: there are the same for uint8_t."""

_OF_CODES = ("pools.h", "code_pools.h", "means.h", "places.h")
"""The same for int16_t and uint16_t, too."""

_OF_FLOATS = ("truncation.h", "float_conv.h")
"""Those whose functions take float, as names with _float say: there are the same for double."""

_SIGNED = re.compile(r"\bint8_t\b|_s8\b")
_SINGLE = re.compile(r"(?:\b|_)float\b")
_SUM = re.compile(r"\bint32_t (?=qcgen_wsums_)|\bint (?=weight\b)|\buint8_t (?=\*)|_u8(?=_s32)|_s32\b")
_TAPS = {"u8": "uint8_t", "s8": "int8_t", "u16": "uint16_t", "s16": "int16_t", "wide": "qcgen_wsums_wide_tap"}
_SUMS = {"s32": "int32_t", "u32": "uint32_t", "s64": "int64_t"}


def _of_sums(kind: str, size: str) -> dict[str, str]:
    """What stands for taps of 8 bits and sums of 32 in functions for those of such a ``kind`` and ``size``."""
    weight = "int32_t " if kind.endswith("16") else "int "
    return {"uint8_t ": f"{_TAPS[kind]} ", "int ": weight, "_u8": f"_{kind}"} | {
        "int32_t ": f"{_SUMS[size]} ",
        "_s32": f"_{size}",
    }


_TWINS = (
    (_OF_BYTES, _SIGNED, {"int8_t": "uint8_t", "_s8": "_u8"}),
    (_OF_CODES, _SIGNED, {"int8_t": "int16_t", "_s8": "_s16"}),
    (_OF_CODES, _SIGNED, {"int8_t": "uint16_t", "_s8": "_u16"}),
    (("pools.h", "places.h"), _SIGNED, {"int8_t": "float", "_s8": "_float"}),
    (_OF_FLOATS, _SINGLE, {"float": "double", "_float": "_double"}),
    *((("window_sums.h",), _SUM, _of_sums(kind, size)) for kind in _TAPS for size in _SUMS),
)
"""Files, what of their text stands for another type, and for which."""

_ISAS = {"THUMB1": "armv6-m", "ARMV7_M": "armv7-m", "RV32M": "rv32m"}
"""The instruction sets whose assembly stands behind ``#if QCGEN_IS_...``."""

_CONDITION = re.compile(r"#(?:el)?if QCGEN_IS_(\w+)")

_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_OWN = re.compile(r"\b(qcgen|QCGEN)_")
_NAME = re.compile(r"\b(?:qcgen|QCGEN)_(\w+)")
_DEFINED = re.compile(
    r"^(?:[^\s#/*{}].*?\bqcgen_(\w+)\(|\} qcgen_(\w+);|struct qcgen_(\w+) \{|typedef .*\bqcgen_(\w+)[;\[]"
    r"|#define QCGEN_(\w+))",
    re.MULTILINE,
)

_ASSUMED = {"right_shift_is_arithmetic": re.compile(">>"), "double_has_64_bits": re.compile(r"\bdouble \*")}
"""What a text assumes of the compiler if it has this, by the name of the piece that checks it."""

_HEADERS = {
    "math.h": re.compile(
        r"\b(?:INFINITY|NAN|(?:ceil|cos|exp|expm1|fabs|floor|fma|log|log1p|pow|rint|round|sin|sqrt|tanh)f\()"
    ),
    "stddef.h": re.compile(r"\bNULL[,)]"),
    "string.h": re.compile(r"\bmem(?:cpy|move|set)\("),
}


def templates() -> Path:
    """The folder of the templates: inside the installed package, or beside it in a checkout."""
    package = Path(str(files("qcgen")))
    installed = package / "_templates"
    return installed if installed.is_dir() else package.parent / "templates"


def without_comments(text: str) -> str:
    """C without what its comments say."""
    return _COMMENT.sub("", text)


def standard_headers(texts: Iterable[str]) -> list[str]:
    """The headers of the standard library that declare what texts use, besides <stdint.h>."""
    return [name for name, pattern in _HEADERS.items() if any(map(pattern.search, texts))]


def with_twins(name: str, text: str) -> str:
    """The text of a file with the functions for other types that it stands for."""
    _, body = text.split("\n\n", 1)
    others = (_renamed(body, own, by) for names, own, by in _TWINS if name in names)
    return "\n".join([text, *others])


def _renamed(text: str, own: re.Pattern[str], by: Mapping[str, str]) -> str:
    return own.sub(lambda found: by[found[0]], text)


def for_isa(text: str, isa: str) -> str:
    """The text of a file without the assembly of other instruction sets than ``isa``, "" for none."""
    found: list[str] = []
    around: list[_Branches] = []
    for line in text.splitlines(keepends=True):
        if line.startswith("#if"):
            around.append(_Branches())
        if line.startswith("#endif") and not around.pop().is_written:
            continue
        if line.startswith(("#if", "#el")):
            *outer, own = around
            condition = _CONDITION.match(line)
            own.is_kept = condition is None or _ISAS[condition[1]] == isa
            if not own.is_written and line.startswith("#el"):
                line = line.replace("#elif", "#if")
                if line.startswith("#else"):
                    continue
            own.is_written |= own.is_kept and all(each.is_kept for each in outer)
        if all(each.is_kept for each in around):
            found.append(line)
    return "".join(found)


@cache
def reserved() -> frozenset[str]:
    """What nodes cannot be named, in front of an underscore or alone: names of the library's functions and macros."""
    texts = (with_twins(name, (templates() / "library" / name).read_text(encoding="ascii")) for name in FILES)
    return frozenset(name.strip("_") for text in texts for name in _NAME.findall(text))


@dataclass
class _Branches:
    """Those of an #if: whether the one that is read is kept, and whether the #if is written."""

    is_kept: bool = True
    is_written: bool = False


def named(text: str, prefix: str) -> str:
    """A text of the library with a model's prefix."""
    return _OWN.sub(lambda own: f"{prefix.upper() if own[1].isupper() else prefix}_", text)


@dataclass(frozen=True)
class Piece:
    """A function, or what belongs together: its text, the names that it defines and those that it uses."""

    text: str

    @cached_property
    def defined(self) -> frozenset[str]:
        """Names without their prefix: functions, types, and macros in capitals."""
        return frozenset(next(filter(None, found)) for found in _DEFINED.findall(self.text))

    @cached_property
    def used(self) -> frozenset[str]:
        """The same of other pieces: those that the code names, not those that only its comments name."""
        return frozenset(_NAME.findall(without_comments(self.text))) - self.defined

    def named(self, prefix: str) -> str:
        """The text with a model's prefix."""
        return named(self.text, prefix)


class Library:
    """The pieces of the library's files, whose texts are given in order."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.pieces = tuple(dict.fromkeys(Piece(text) for each in texts for text in _pieces(each)))
        self._definers = {name: piece for piece in self.pieces for name in piece.defined}

    def needed(self, texts: Sequence[str], prefix: str, names: Iterable[str] = ()) -> list[str]:
        """The pieces that texts of a model call, or that define ``names``, with those that they need, in order.

        Raises KeyError for one of ``names`` that the library does not have.
        """
        spelt = re.compile(rf"\b(?:{re.escape(prefix)}|{re.escape(prefix.upper())})_(\w+)")
        wanted = {name for text in texts for name in spelt.findall(without_comments(text))}
        found = {self._definers[name] for name in names}
        wanted |= {name for piece in found for name in piece.used}
        while wanted:
            piece = self._definers.get(wanted.pop())
            if piece is not None and piece not in found:
                found.add(piece)
                wanted |= piece.used
        whole = [*texts, *(piece.text for piece in found)]
        found |= {self._definers[name] for name, pattern in _ASSUMED.items() if any(map(pattern.search, whole))}
        return [piece.named(prefix) for piece in self.pieces if piece in found]


def _pieces(text: str) -> list[str]:
    """The pieces of a file, each with a newline at its end; a comment alone belongs to the piece behind it."""
    _, *paragraphs = re.split(r"\n\n+", text[text.index("#pragma once") :].rstrip())
    found: list[str] = []
    is_inside = True
    for paragraph in paragraphs:
        if is_inside and found:
            found[-1] += f"\n\n{paragraph}"
        else:
            found.append(paragraph)
        lines = found[-1].splitlines()
        opened = sum(line.startswith("#if") or (line[0] != " " and line.endswith("{")) for line in filter(None, lines))
        closed = sum(line.startswith(("#endif", "}")) for line in lines)
        is_inside = opened > closed or lines[-1].endswith("*/")
    return [f"{piece}\n" for piece in found]
