"""How values and texts are written in C: numbers that fit their types, comments, lines folded to a page's width."""

from __future__ import annotations

import re
import textwrap
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from qcgen.ir.context import LayerField, Struct
from qcgen.ir.plan import C_BYTES, Argument, Fill, InArena, Place, Plan, RowsAt, Table, Turn
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
    """A number as a C expression of type int64_t; C has no literal for the smallest one. Raises AssertionError.

    >>> int64(-5), int64(-9223372036854775808)
    ('INT64_C(-5)', '(-INT64_C(9223372036854775807) - 1)')
    """
    if isinstance(value, LayerField):
        return value
    if not -(2**63) <= value < 2**63:
        raise AssertionError(f"{value} is not an int64_t")
    return f"INT64_C({value})" if value > -(2**63) else f"(-INT64_C({2**63 - 1}) - 1)"


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
        return "-NAN" if np.signbit(number) else "NAN"
    if np.isinf(number):
        return "INFINITY" if number > 0 else "-INFINITY"
    return _real(str(number))


def literal(value: float | LayerField) -> str:
    """A number as a C expression: an int of type int32_t, or a float32.

    >>> literal(-5), literal(0.5)
    ('(-5)', '0.5f')
    """
    return int32(value) if isinstance(value, int) else real(value)


def fitted(head: str, arguments: str, tail: str = "", room: int = 120) -> str:
    """A declaration or a call in one line of ``room`` columns, else with its arguments in the next.

    >>> fitted("int f", "int x", ";"), fitted("int f", "int x", room=10)
    ('int f(int x);\\n', 'int f(\\n    int x)\\n')
    """
    line = f"{head}({arguments}){tail}"
    return f"{line}\n" if len(line) <= room else f"{head}(\n    {arguments}){tail}\n"


def times(count: int | str, unit: str = "") -> str:
    """A multiple without a factor of 1.

    >>> times(2, "STEP"), times(1, "STEP"), times(0, "STEP"), times(3)
    ('2 * STEP', 'STEP', '0', '3')
    """
    return str(count) if not unit or not count else unit if count == 1 else f"{count} * {unit}"


def plus(count: int | str, unit: str = "") -> str:
    """A multiple that is added, nothing if there is none."""
    return f" + {times(count, unit)}" if count else ""


def element(where: str) -> str:
    """What a place points to.

    >>> element("out + COLUMN"), element("out + 1 * COLUMN"), element("out")
    ('out[COLUMN]', 'out[COLUMN]', 'out[0]')
    """
    base, _, index = where.partition(" + ")
    return f"{base}[{index.removeprefix('1 * ') or 0}]"


def struct(values: Struct, tables: Mapping[str, str]) -> str:
    """The fields of a layer as a struct of the library; numbers may be in tables of one element."""
    found = {role: tables[role] for role in values.tables}
    found |= {name: f"{tables[name]}[0]" if name in tables else str(x) for name, x in values.numbers.items()}
    found |= {name: f"0x{word:08x}" for name, word in values.words.items()}
    found |= {name: real(number) for name, number in values.floats.items()}
    found |= {name: f"{{ {', '.join(map(str, numbers))} }}" for name, numbers in values.arrays.items()}
    found |= values.own
    return "".join(f".{name} = {value}, " for name, value in found.items()).rstrip()


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
    has_literals = table.c_type == "float" or C_BYTES[table.c_type] == 8
    if has_literals or (table.c_type == "int32_t" and values.min() == -(2**31)):
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
        return [repr(float(value)) if np.isfinite(value) else real(value) for value in values]
    if c_type == "uint64_t":
        return [f"UINT64_C({value})" for value in values]
    if c_type == "int64_t":
        return [int64(value) for value in values.tolist()]
    return [int32(value) if value == -(2**31) else str(value) for value in values.tolist()]


def _real(text: str) -> str:
    return f"{text}f" if "." in text or "e" in text else f"{text}.0f"


# Lines of C that names or numbers of a model made too long, folded to the width of a page.

PAGE = 120  # columns of a line that is folded

_BREAKS = (
    re.compile(r", |; |(?= (?:\|\||&&|\?|:) )"),
    re.compile(r"(?<=[ +])= |(?= (?:[-+&<>]|[<>=]=) )"),
)
"""Where a line may end: behind a comma or a semicolon, before an operator; if there is none, before those that bind
more closely."""

_LAST_RESORTS = (re.compile(r"(?<=\w\()"), re.compile(r"(?= [\w*])"))

_LONE_COMMENT = re.compile(r"( *)/\* (.*) \*/")
_COMMENT_BEHIND = re.compile(r"(.*[;{,]|#define .*\S) /\* (.*) \*/")
_MACRO = re.compile(r"(#define \w+) (\S.*)")
_INSIDE_COMMENT = re.compile(r"( *\* +)(.*)")
_LABEL = re.compile(r"\w+  +(?=\S)")
_OPENED = re.compile(r" *[A-Za-z(].*\((?:.*,)?$")
_APART = re.compile(r'^#|"|/\*')  # what stands on a line of its own, and strings


def folded(text: str) -> str:
    """C whose lines fit, where they can be broken: between arguments and operands, as far outside as can be.

    A comment behind code moves in front of it. Assembly and macros with parameters stay as they are: a model does not
    make them longer.

    >>> print(folded("static void f(" + "const int8_t *restrict a_long_name_of_a_pointer, " * 3 + "int32_t n)"))
    static void f(const int8_t *restrict a_long_name_of_a_pointer, const int8_t *restrict a_long_name_of_a_pointer,
        const int8_t *restrict a_long_name_of_a_pointer, int32_t n)
    """
    given = text.split("\n")
    if max(map(len, given)) <= PAGE:
        return text
    lines: list[str] = []
    in_comment = False
    rest = deque(given)
    while rest:
        line = rest.popleft()
        if _OPENED.match(line) and not in_comment and not _APART.search(line):
            line = _whole(line, rest)
        is_macro = line.endswith("\\") or (lines and lines[-1].endswith("\\"))
        if len(line) <= PAGE or is_macro:
            lines.append(line)
        elif in_comment:
            lines += _folded_comment_line(line, rest)
        elif match := _LONE_COMMENT.fullmatch(line):
            lines += _folded_comment(*match.groups())
        else:
            lines += [line] if line.lstrip().startswith("/*") else _folded_code(line)
        if "/*" in line or "*/" in line:
            in_comment = line.rfind("/*") > line.rfind("*/") or (in_comment and "*/" not in line)
    return "\n".join(lines)


def _whole(line: str, rest: deque[str]) -> str:
    """A signature or a call whose lines are taken from the ``rest`` if one of them does not fit; else the line."""
    depth, more = _depth(line), list[str]()
    while depth > 0 and len(more) < len(rest) and not _APART.search(rest[len(more)]):
        more.append(rest[len(more)])
        depth += _depth(more[-1])
        if depth > 0 and not more[-1].endswith((",", "(")):
            return line
    if depth or max(map(len, (line, *more))) <= PAGE:
        return line
    return " ".join((line, *(rest.popleft().lstrip() for _ in more))).replace("( ", "(")


def _folded_comment(indent: str, text: str) -> list[str]:
    leader = f"{indent} * "
    return [f"{indent}/*", *textwrap.wrap(text, PAGE, initial_indent=leader, subsequent_indent=leader), f"{indent} */"]


def _folded_comment_line(line: str, rest: deque[str]) -> list[str]:
    """A line inside a comment; what follows in its paragraph is taken from the ``rest`` and flows behind it."""
    match = _INSIDE_COMMENT.fullmatch(line)
    if match is None:
        return [line]
    leader, text = match.groups()
    label = _LABEL.match(text)
    behind = leader + " " * len(label[0]) if label else leader
    while (more := _INSIDE_COMMENT.fullmatch(rest[0])) and more[1] == behind and not _LABEL.match(more[2]):
        text = f"{text} {more[2]}"
        rest.popleft()
    return textwrap.wrap(text, PAGE, initial_indent=leader, subsequent_indent=behind, break_long_words=False)


def _folded_code(line: str) -> list[str]:
    lines, rest = [], line
    indent = len(line) - len(line.lstrip())
    if match := _COMMENT_BEHIND.fullmatch(line):
        code, text = match.groups()
        return folded(f"{' ' * indent}/* {text} */\n{code}").split("\n")
    if match := _MACRO.fullmatch(line):
        return [f"{match[1]} \\", f"    {match[2]}"]
    if line.startswith("#") or '"' in line:  # a string has commas of its own
        return [line]
    if line[-1] in ";{)" or _depth(line) > 0:  # not a line of a list, whose items stay below each other
        indent += 4
    while len(rest) > PAGE and (end := _break(rest, indent)):
        lines.append(rest[:end].rstrip())
        rest = " " * indent + rest[end:].lstrip()
    return [*lines, rest]


def _break(line: str, indent: int) -> int | None:
    """Where to break: of the places within the width that the fewest parentheses enclose, the last one.

    After `=` only if all that follows fits on a line of this indentation.
    """
    start = len(line) - len(line.lstrip())
    found = []
    for rank, pattern in enumerate(_BREAKS):
        for match in pattern.finditer(line, start):
            end = match.end()
            fits = len(line[:end].rstrip()) <= PAGE
            if fits and (match[0] != "= " or indent + len(line) - end <= PAGE):
                found.append((_depth(line[:end]), rank, -end))
    if found:
        return -min(found)[2]
    ends = [[match.end() for match in pattern.finditer(line, start)] for pattern in _LAST_RESORTS]
    return next((max(within) for each in ends if (within := [end for end in each if end <= PAGE])), None)


def _depth(text: str) -> int:
    return sum(text.count(c) for c in "([{") - sum(text.count(c) for c in ")]}")


def require_values_fit(plan: Plan) -> None:
    """Raises AssertionError, a defect of qcgen, for a table or a layer's own number that its C type cannot hold."""
    for call in plan.calls:
        types = {field.name: field.c_type for field in call.shared.fields} if call.shared else {}
        own = [Table(name, name, types[name], np.array([value]), "") for name, value in call.numbers.items()]
        for table in (*call.tables, *own):
            _require_fit(table, f"node {call.op.name!r} ({call.op.op_type})")
    for table in plan.initial_tables:
        _require_fit(table, "a state")
    for stream in plan.streams:
        _require_fit(stream.order, f"the rows of {stream.symbol}")


def _require_fit(table: Table, where: str) -> None:
    beyond = next(_beyond(table), None)
    if beyond is not None:
        raise AssertionError(f"{where}: {table.symbol} holds {beyond}, which does not fit {table.c_type}")


def _beyond(table: Table) -> Iterator[object]:
    """The values that the type cannot hold: of integers those out of its range, of float those that become infinite."""
    values = np.asarray(table.values)
    if table.c_type == "double":
        return
    if table.c_type == "float":
        finite = values[np.isfinite(values)]
        yield from finite[np.abs(finite) > np.finfo(np.float32).max]
        return
    bits, is_unsigned = 8 * C_BYTES[table.c_type], table.c_type.startswith("u")
    low, high = (0, 2**bits - 1) if is_unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    ends = (int(values.min()), int(values.max())) if values.size else ()
    yield from (end for end in ends if not low <= end <= high)
