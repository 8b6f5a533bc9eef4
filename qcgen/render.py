"""Plan to text: the templates, filled in."""

from __future__ import annotations

import textwrap
from functools import cache
from importlib.resources import files
from pathlib import Path

import jinja2

from qcgen.ir.plan import Argument, Call, Place, Plan, Table
from qcgen.ir.program import OrionConv
from qcgen.plan.names import SUPPORT_NAMES
from qcgen.version import __version__

WIDTH = 118  # of a line of generated C


def render(plan: Plan) -> dict[str, str]:
    """The generated files by name: NAME.h and NAME.c. Same plan, same bytes."""
    support = [name for name in SUPPORT_NAMES if any(name in call.support for call in plan.calls)]
    context = {
        "plan": plan,
        "prefix": plan.prefix,
        "PREFIX": plan.prefix.upper(),
        "version": __version__,
        "options": options_text(plan),
        "bodies": [_body(plan, call) for call in plan.calls],
        "support": support,
        "summary": _summary(plan),
        "certificates": [_certificate(call) for call in plan.calls],
        "uses_arena": any(call.scratch_bytes for call in plan.calls),
        "uses_string": any(call.context.get("uses_string") for call in plan.calls),
        "uses_math": any(call.context.get("uses_math") for call in plan.calls),
    }
    return {
        f"{plan.prefix}.h": environment().get_template("model.h.jinja").render(context),
        f"{plan.prefix}.c": environment().get_template("model.c.jinja").render(context),
    }


def options_text(plan: Plan) -> str:
    """The options as the user would write them."""
    options = plan.options
    text = f"--target {options.target} --layout {options.layout} --optimize {options.optimize}"
    text += f" --numerics {options.numerics}"
    return f"{text} --node {_one_line(plan.node)}" if plan.node else text


@cache  # it keeps the templates that it has read
def environment() -> jinja2.Environment:
    """The template engine: names that are not given are errors, values reach C through the filters below."""
    engine = jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates()),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # C, not HTML
    )
    engine.filters.update(
        comment=comment, int32=int32, int64=int64, rows=rows, extent=extent, thousands=thousands, place=place
    )
    engine.filters.update(one_line=_one_line, real=real)
    return engine


def templates() -> Path:
    """The folder of the templates: inside the installed package, or beside it in a checkout."""
    package = Path(str(files("qcgen")))
    installed = package / "_templates"
    return installed if installed.is_dir() else package.parent / "templates"


def _body(plan: Plan, call: Call) -> str:
    """A node's functions, without its tables."""
    template = environment().get_template(call.template)
    return template.render(
        call.context,
        prefix=plan.prefix,
        symbol=call.symbol,
        tables={table.role: table.symbol for table in call.tables},
        op=call.op,
    )


def comment(text: str) -> str:
    """A C comment, one line or several.

    >>> comment("Adds.")
    '/* Adds. */'
    """
    text = _one_line(text)
    if len(text) <= WIDTH - 6:
        return f"/* {text} */"
    return "\n".join(["/*", *(f" * {line}" for line in textwrap.wrap(text, WIDTH - 3)), " */"])


def _one_line(text: str) -> str:
    """Text that cannot end a comment, a line or a preprocessor directive, whatever a model's names hold.

    >>> _one_line('a*/b')
    'a* /b'
    """
    printable = "".join(c if c.isprintable() and c.isascii() else "?" for c in text)
    return printable.replace("*/", "* /").replace("/*", "/ *").replace("??", "? ?").rstrip("\\")


def int32(value: int) -> str:
    """A number as a C expression of type int32_t; C has no literal for the smallest one.

    >>> int32(-2147483648), int32(-5), int32(7)
    ('(-2147483647 - 1)', '(-5)', '7')
    """
    if value == -(2**31):
        return "(-2147483647 - 1)"
    return f"({value})" if value < 0 else str(value)


def int64(value: int) -> str:
    """A number above -2^63 as a C expression of type int64_t.

    >>> int64(-5)
    'INT64_C(-5)'
    """
    return f"INT64_C({value})"


def real(value: float) -> str:
    """A float32 as a C expression that reads back to the same number; infinity is in <math.h>.

    >>> real(0.5), real(3.0), real(1e-20)
    ('0.5f', '3.0f', '1e-20f')
    """
    import numpy as np

    number = np.float32(value)
    if np.isinf(number):
        return "INFINITY" if number > 0 else "-INFINITY"
    text = str(number)
    return f"{text}f" if any(c in text for c in ".e") else f"{text}.0f"


def thousands(value: int) -> str:
    """A number with its digits in threes.

    >>> thousands(1234567)
    '1 234 567'
    """
    return f"{value:,}".replace(",", " ")


def place(where: Place) -> str:
    """The C expression of a place: a parameter, or somewhere in the arena."""
    if isinstance(where, Argument):
        return where.symbol
    return f"(void *)((uint8_t *)arena + {where.offset})" if where.offset else "arena"


def extent(table: Table) -> str:
    """The size of a table's declaration, its dimensions kept apart.

    >>> import numpy as np
    >>> extent(Table("w", "w", "int8_t", np.zeros((8, 36)), ""))
    '8 * 36'
    """
    return " * ".join(str(size) for size in table.values.shape)


def rows(table: Table) -> str:
    """The numbers of a table in lines; a blank line after each row of a table of two dimensions."""
    values = table.values.reshape(table.values.shape[0], -1) if table.values.ndim > 1 else table.values.reshape(1, -1)
    flat = [[_literal(value, table.c_type) for value in row] for row in values.tolist()]
    column = max(len(text) for row in flat for text in row)
    per_line = max(1, (WIDTH - 4) // (column + 2))
    if values.shape[0] > 1 and values.shape[1] > per_line:
        per_line = _even(values.shape[1], per_line)
    short = values.shape[0] > 1 and values.shape[1] <= per_line
    blocks = [
        "\n".join(
            "    " + ", ".join(text.rjust(column) for text in row[start : start + per_line]) + ","
            for start in range(0, len(row), per_line)
        )
        for row in flat
    ]
    return ("\n" if short else "\n\n").join(blocks)


def _even(length: int, most: int) -> int:
    """The largest divisor of a row's length that is at most ``most`` and more than half of it, else ``most``."""
    return next((n for n in range(most, most // 2, -1) if length % n == 0), most)


def _literal(value: float, c_type: str) -> str:
    match c_type:
        case "float":
            return real(value)
        case "int64_t":
            return int64(int(value))
        case "int32_t":
            return int32(int(value)).strip("()") if value != -(2**31) else int32(int(value))
        case _:
            return str(int(value))


def _summary(plan: Plan) -> list[str]:
    """The table of nodes in the head of the file."""
    head = ("node", "operator", "kernel", "multiply-adds", "constants", "scratch")
    lines = [head]
    for call in plan.calls:
        sizes = (
            thousands(call.op.geometry.macs),
            f"{thousands(call.constant_bytes)} B",
            f"{thousands(call.scratch_bytes)} B",
        )
        lines.append((_one_line(call.op.name), call.op.op_type, call.kernel, *sizes))
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return [
        "  ".join(
            cell.ljust(width) if column < 3 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def _certificate(call: Call) -> dict[str, object]:
    """What is proved of a node, in sentences."""
    certificate = call.certificate
    sentences = []
    if certificate.accumulator is not None:
        low, high = certificate.accumulator
        if certificate.wraps:
            sentences.append(("accumulator", "some input exceeds int32: sums wrap modulo 2^32, as onnxruntime's do"))
        else:
            sentences.append(
                ("accumulator", f"within [{low}, {high}] for every input: int32 cannot overflow"),
            )
    if certificate.requantize:
        total = sum(certificate.requantize.values())
        forms = ", ".join(f"{form} {count} of {total}" for form, count in certificate.requantize.items())
        text = (
            f"{forms} channels: equal to {_judge(call)} for every reachable accumulator"
            f" (compared at {thousands(certificate.comparisons)} points: both sides of every step)"
        )
        sentences.append(("requantize", text))
    wrapped = [(label, textwrap.wrap(text, WIDTH - 19, break_long_words=False)) for label, text in sentences]
    return {"node": _one_line(call.op.name), "sentences": wrapped}


def _judge(call: Call) -> str:
    return "Orion's fixed-point arithmetic" if isinstance(call.op, OrionConv) else "onnxruntime's float32 arithmetic"
