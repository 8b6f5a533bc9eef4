"""What long work is at, told to whoever listens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_LISTENER: ContextVar[Callable[[str], None] | None] = ContextVar("listener", default=None)


@contextmanager
def told(listener: Callable[[str], None]) -> Iterator[None]:
    """Within the block ``listener`` gets what ``doing`` is called with."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def doing(what: str) -> None:
    """Tells what begins; nothing happens if nobody listens."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(what)
