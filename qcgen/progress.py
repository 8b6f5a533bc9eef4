"""What long work is doing, reported to a listener."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_LISTENER: ContextVar[Callable[[str], None] | None] = ContextVar("listener", default=None)


@contextmanager
def told(listener: Callable[[str], None]) -> Iterator[None]:
    """Within the block ``listener`` gets each text that ``report_progress`` is called with."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def report_progress(what: str) -> None:
    """Reports what begins; nothing happens without a listener."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(what)
