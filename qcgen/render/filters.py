"""How values are written in C."""

from __future__ import annotations

import textwrap
from dataclasses import replace

import numpy as np

from qcgen.ir.context import LayerField
from qcgen.ir.plan import Argument, Fill, InArena, Place, RowsAt, Table, Turn
from qcgen.ir.types import Array

WIDTH = 118  # of a line of generated C
_PRODUCT = "\0*\0"  # a times sign between characters at which no line is broken


def indent(text: str, by: int | str, first: bool = False) -> str:
    """Indents by a number of spaces or by a text, the first line too if `first`; lines with nothing stay so.

    Jinja's own filter puts spaces before an empty text: they would stand before the line behind it.

    >>> indent("a;\\nb;\\n", 4, True), indent("a;\\nb;", 4), indent("", 4, True)
    ('    a;\\n    b;\\n', 'a;\\n    b;', '')
    """
    prefix = by if isinstance(by, str) else " " * by
    indented = textwrap.indent(text, prefix)
    return indented if first else indented.removeprefix(prefix)


def comment(text: str) -> str:
    """A C comment, one line or several; a product stays in one of them, since lines start with the same sign.

    >>> comment("Adds.")
    '/* Adds. */'
    """
    text = one_line(text)
    if len(text) <= WIDTH - 6:
        return f"/* {text} */"
    lines = textwrap.wrap(text.replace(" * ", _PRODUCT), WIDTH - 3)
    return "\n".join(["/*", *(f" * {line.replace(_PRODUCT, ' * ')}" for line in lines), " */"])


def one_line(text: str) -> str:
    """Text that cannot end a comment, a line or a preprocessor directive, whatever a model's names hold.

    >>> one_line('a*/b')
    'a* /b'
    """
    printable = "".join(c if c.isprintable() and c.isascii() else "?" for c in text)
    return printable.replace("*/", "* /").replace("/*", "/ *").replace("??", "? ?").rstrip("\\")


def int32(value: int | LayerField) -> str:
    """A number as a C expression of type int32_t; C has no literal for the smallest one. Raises AssertionError.

    >>> int32(-2147483648), int32(-5), int32(7)
    ('(-2147483647 - 1)', '(-5)', '7')
    """
    if isinstance(value, LayerField):
        return value
    if not -(2**31) <= value < 2**31:
        raise AssertionError(f"{value} is not an int32_t")
    if value == -(2**31):
        return "(-2147483647 - 1)"
    return f"({value})" if value < 0 else str(value)


def int64(value: int | LayerField) -> str:
    """A number above -2^63 as a C expression of type int64_t. Raises AssertionError.

    >>> int64(-5)
    'INT64_C(-5)'
    """
    if isinstance(value, LayerField):
        return value
    if not -(2**63) < value < 2**63:
        raise AssertionError(f"{value} is not an int64_t that C has a literal for")
    return f"INT64_C({value})"


def uint32(value: int | LayerField) -> str:
    """A number as a C expression of type uint32_t.

    >>> uint32(5)
    'UINT32_C(5)'
    """
    return value if isinstance(value, LayerField) else f"UINT32_C({value})"


def real(value: float | LayerField) -> str:
    """A float32 as a C expression that reads back to the same number; infinity and NaN are in <math.h>.

    >>> real(0.5), real(3.0), real(1e-20)
    ('0.5f', '3.0f', '1e-20f')
    """
    if isinstance(value, LayerField):
        return value
    number = np.float32(value)
    if np.isnan(number):
        return "NAN"
    if np.isinf(number):
        return "INFINITY" if number > 0 else "-INFINITY"
    return _real(str(number))


def size(count: int) -> str:
    """A number of bytes.

    >>> size(12345)
    '12 345 B'
    """
    return f"{thousands(count)} B"


def thousands(value: int) -> str:
    """A number with its digits in threes.

    >>> thousands(1234567)
    '1 234 567'
    """
    return f"{value:,}".replace(",", " ")


def place(where: Place) -> str:
    """The C expression of a place: a parameter, or somewhere in the arena.

    >>> place(InArena(0)), place(InArena(64))
    ('arena', '(void *)(bytes + 64)')
    """
    if isinstance(where, InArena):
        return f"(void *)(bytes + {where.offset})" if where.offset else "arena"
    start = f"(void *){where.symbol}" if where.is_block else where.symbol
    return f"(void *)((uint8_t *){where.symbol} + {where.offset})" if where.offset else start


def rows_at(where: RowsAt) -> str:
    """The C expression of a row in memory.

    >>> rows_at(RowsAt(InArena(64), 12, "to")), rows_at(RowsAt(InArena(0), 12, 2))
    ('(void *)(bytes + 64 + to * 12)', '(void *)(bytes + 24)')
    >>> rows_at(RowsAt(Argument("x"), 9, "start"))
    'x + start * 9'
    >>> rows_at(RowsAt(Argument("x"), 12, "start", element_bytes=4))
    'x + start * 3'
    >>> rows_at(RowsAt(Argument("y"), 9, "to", is_cast=True))
    '(void *)(y + to * 9)'
    """
    if where.is_cast:
        row = rows_at(replace(where, is_cast=False))
        return row if row.startswith("(void *)") else f"(void *)({row})"
    if isinstance(where.row, int):
        return place(replace(where.place, offset=where.place.offset + where.row * where.row_bytes))
    step = f"{where.row} * {where.row_bytes}"
    elements = f"{where.row} * {where.row_bytes // where.element_bytes}"
    match where.place:
        case InArena(0):
            return f"(void *)(bytes + {step})"
        case InArena(offset):
            return f"(void *)(bytes + {offset} + {step})"
        case Argument(symbol, 0, False):
            return f"{symbol} + {elements}"
        case Argument(symbol, offset):
            return f"(void *)((uint8_t *){symbol} + {offset} + {step})"


def code_of(fill: Fill) -> str:
    """The C expression of the code that fills memory.

    >>> code_of(Fill("", RowsAt(InArena(0), 1, 0), 1, 7)), code_of(Fill("", RowsAt(InArena(0), 1, 0), 1, InArena(4)))
    ('7', '*(const uint8_t *)(bytes + 4)')
    """
    if isinstance(fill.code, int):
        return str(fill.code)
    at = place(fill.code)
    return f"*(const uint8_t *){at.removeprefix('(void *)')}"


def arguments(turn: Turn) -> str:
    """What a turn's call gets: its rows, then scratch memory."""
    assert turn.call is not None, "a row is copied without a call"
    scratch = turn.call.arguments[len(turn.rows) :]
    return ", ".join([*map(rows_at, turn.rows), *map(place, scratch)])


def extent(table: Table) -> str:
    """The size of a table's declaration, its dimensions kept apart.

    >>> import numpy as np
    >>> extent(Table("w", "w", "int8_t", np.zeros((8, 36)), ""))
    '8 * 36'
    """
    return " * ".join(str(size) for size in table.values.shape)


def rows(table: Table) -> str:
    """The numbers of a table in lines; a blank line after each row of a table of two dimensions.

    Each row is written by one format: networks have millions of weights.
    """
    values = table.values.reshape(table.values.shape[0], -1) if table.values.ndim > 1 else table.values.reshape(1, -1)
    if table.c_type in ("float", "double", "int64_t") or (table.c_type == "int32_t" and values.min() == -(2**31)):
        cells: list[list[str]] | list[list[int]] = [_literals(row, table.c_type) for row in values]
        kind, column = "s", max(len(str(text)) for row in cells for text in row)
    else:
        cells, kind = values.tolist(), "d"
        column = max(len(str(int(end))) for end in (values.min(), values.max()))
    per_line = max(1, (WIDTH - 4) // (column + 2))
    if values.shape[0] > 1 and values.shape[1] > per_line:
        per_line = _even(values.shape[1], per_line)
    lines = [per_line] * (values.shape[1] // per_line) + ([rest] if (rest := values.shape[1] % per_line) else [])
    block = "\n".join("    " + ", ".join([f"%{column}{kind}"] * count) + "," for count in lines)
    return ("\n" if len(lines) == 1 else "\n\n").join([block % tuple(row) for row in cells])


def _even(length: int, most: int) -> int:
    """The largest divisor of a row's length that is at most ``most`` and more than half of it, else ``most``."""
    return next((n for n in range(most, most // 2, -1) if length % n == 0), most)


def _literals(values: Array, c_type: str) -> list[str]:
    """Numbers that are more than their digits in C."""
    if c_type == "float":
        # str of a float32 has the digits that it needs; the rest is as in ``real``.
        texts = map(str, values.astype(np.float32))
        return [_real(text) for text in texts] if np.isfinite(values).all() else [real(value) for value in values]
    if c_type == "double":
        return [repr(float(value)) for value in values]
    if c_type == "int64_t":
        return [int64(value) for value in values.tolist()]
    return [int32(value) if value == -(2**31) else str(value) for value in values.tolist()]


def _real(text: str) -> str:
    return f"{text}f" if "." in text or "e" in text else f"{text}.0f"
