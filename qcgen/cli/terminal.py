"""Text that fits the terminal: tables with aligned columns, sentences, numbers with units, and what work is at."""

from __future__ import annotations

import os
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from qcgen.errors import printable, shortened
from qcgen.progress import told

LEAST_NAME, LEAST_PROSE = 12, 24
"""How narrow columns of names and of prose may become, in characters."""


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Sequence[str] = (),
    names: Sequence[str] = (),
    width: int | None = None,
) -> str:
    """Rows under their heads, two spaces between columns; the columns whose heads are in ``right`` to the right.

    Lines are at most ``width`` characters long, by default as wide as the terminal: columns whose heads are in
    ``names`` lose the middle of what is too long, the last column goes on below, and columns for which there is no
    room follow in a table of their own, beside the first column again. Where the output is not a terminal and no width
    is given, everything is whole.

    >>> print(table(("name", "size"), [("a", "9 B"), ("long", "1 000 B")], right=("size",)))
    name     size
    a         9 B
    long  1 000 B
    >>> print(table(("name", "size"), [("model/conv2d/kernel", "1 000 B")], ("size",), ("name",), width=21))
    name             size
    model/…ernel  1 000 B
    """
    lines = [list(head), *([printable(cell) for cell in row] for row in rows)]
    natural = [max(len(line[column]) for line in lines) for column in range(len(head))]
    is_right = [title in right for title in head]
    room = columns() if width is None else width
    if room is None or sum(natural) + 2 * (len(head) - 1) <= room:
        return _aligned(lines, natural, is_right)
    least = [min(own, LEAST_NAME) if title in names else own for title, own in zip(head, natural, strict=True)]
    is_prose = head[-1] not in (*right, *names)
    if is_prose:
        least[-1] = min(natural[-1], LEAST_PROSE)
    blocks = []
    for chosen in _blocks(least, room):
        widths = _widened([least[column] for column in chosen], [natural[column] for column in chosen], room)
        own = [[line[column] for column in chosen] for line in lines]
        cells = _folded(own, widths) if is_prose and chosen[-1] == len(head) - 1 else own
        short = [[shortened(cell, width) for cell, width in zip(line, widths, strict=True)] for line in cells]
        blocks.append(_aligned(short, widths, [is_right[column] for column in chosen]))
    return "\n\n".join(blocks)


def _blocks(widths: Sequence[int], room: int) -> list[list[int]]:
    """The columns that stand beside each other, the first one in every block."""
    blocks = [[0]]
    for column in range(1, len(widths)):
        beside = sum(widths[each] + 2 for each in blocks[-1])
        if beside + widths[column] > room and len(blocks[-1]) > 1:
            blocks.append([0])
        blocks[-1].append(column)
    return blocks


def _widened(least: Sequence[int], natural: Sequence[int], room: int) -> list[int]:
    """The widths of columns that share the room: what is left over goes to the narrowest that lack something."""
    widths = list(least)
    left = room - sum(widths) - 2 * (len(widths) - 1)
    while left > 0 and (lacking := [each for each in range(len(widths)) if widths[each] < natural[each]]):
        widths[min(lacking, key=widths.__getitem__)] += 1
        left -= 1
    return widths


def _folded(lines: Sequence[Sequence[str]], widths: Sequence[int]) -> list[list[str]]:
    """The last column broken between words, into lines whose other cells are empty."""
    folded = []
    for *cells, last in lines:
        first, *more = textwrap.wrap(last, widths[-1], break_on_hyphens=False) or [""]
        folded += [[*cells, first], *([*[""] * len(cells), each] for each in more)]
    return folded


def _aligned(lines: Sequence[Sequence[str]], widths: Sequence[int], is_right: Sequence[bool]) -> str:
    return "\n".join(
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, is_right, strict=True)
        ).rstrip()
        for line in lines
    )


def columns() -> int | None:
    """The width of the terminal that standard output is; None if it is none."""
    return terminal_columns(sys.stdout) if sys.stdout and sys.stdout.isatty() else None


def terminal_columns(stream: TextIO) -> int:
    """The width of the terminal that a stream is; 80 if it does not tell."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except OSError:
        return 80


def fitted(text: str) -> str:
    """Text whose longer lines are broken between words, so that the terminal breaks none."""
    room = columns()
    if room is None:
        return text
    lines = (
        [line] if len(line) <= room else textwrap.wrap(line, room, subsequent_indent="  ", break_on_hyphens=False)
        for line in text.split("\n")
    )
    return "\n".join(each for own in lines for each in own)


def size(count: int) -> str:
    """A number of bytes, as in the generated C."""
    from qcgen.render.c_text import size

    return size(count)


def number(value: int) -> str:
    """A number with its digits in threes, as in the generated C.

    >>> number(-1234567)
    '-1 234 567'
    """
    from qcgen.render.c_text import thousands

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


# Work that takes long says on a terminal what it is at.

PATIENCE = 1.5
"""Seconds for which nothing is shown."""

PERIOD = 0.1
"""Seconds between two changes of the line."""


@contextmanager
def shown() -> Iterator[None]:
    """Within the block a line on standard error says what is being done, if that is a terminal; then it vanishes."""
    if not sys.stderr.isatty():
        yield
        return
    line = _Line()
    try:
        with told(line.show):
            yield
    finally:
        line.clear()


class _Line:
    """The line of the terminal on which the cursor stands."""

    def __init__(self) -> None:
        self._next = time.monotonic() + PATIENCE
        self._is_there = False

    def show(self, what: str) -> None:
        """Replaces the line, unless it is too early."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next, self._is_there = now + PERIOD, True
        print(f"\r\x1b[K{printable(what)[: terminal_columns(sys.stderr) - 1]}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Leaves an empty line, if there is something on it."""
        if self._is_there:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
