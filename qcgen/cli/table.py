"""Text tables with aligned columns, and numbers with units."""

from __future__ import annotations

from collections.abc import Sequence

from qcgen.errors import printable


def table(head: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str] = ()) -> str:
    """Rows under their heads, two spaces between columns; the columns whose heads are in ``right`` to the right.

    >>> print(table(("name", "size"), [("a", "9 B"), ("long", "1 000 B")], right=("size",)))
    name     size
    a         9 B
    long  1 000 B
    """
    lines = [list(head), *([printable(cell) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if title in right else cell.ljust(width)
            for title, cell, width in zip(head, line, widths, strict=True)
        ).rstrip()
        for line in lines
    )


def size(count: int) -> str:
    """A number of bytes, as in the generated C."""
    from qcgen.render.filters import size

    return size(count)


def number(value: int) -> str:
    """A number with its digits in threes, as in the generated C.

    >>> number(-1234567)
    '-1 234 567'
    """
    from qcgen.render.filters import thousands

    return thousands(value)


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """A number of things.

    >>> counted(1, "case"), counted(2000, "case")
    ('1 case', '2 000 cases')
    """
    return f"{number(count)} {noun if count == 1 else plural or noun + 's'}"


def percent(part: int, whole: int) -> str:
    """A share.

    >>> percent(1, 3)
    '33.3 %'
    """
    return f"{100 * part / whole:.1f} %"
