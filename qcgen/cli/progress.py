"""Work that takes long says on a terminal what it is at."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from qcgen.cli.table import terminal_columns
from qcgen.errors import printable
from qcgen.progress import told

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
