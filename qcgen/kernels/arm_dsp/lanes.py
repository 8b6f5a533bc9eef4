"""Windows that are summed at the same time, and where their outputs go."""

from __future__ import annotations

from dataclasses import dataclass

from qcgen.ir.context import LayerField


@dataclass(frozen=True)
class Lane:
    """A window of those that are summed at the same time, and the names of its sums and pairs in C."""

    sum: str
    pair: str
    is_second: bool


LANES = (Lane("a", "x", False), Lane("b", "z", True))
ONE_LANE = (Lane("a", "x", False),)


@dataclass(frozen=True)
class Outputs:
    """How outputs lie in memory, in elements.

    ``channel``: from one channel to the next. ``next``: from a pixel to the one that is computed at the same time, None
    if there is none, LayerField if it is the layer's own.
    """

    c_type: str
    channel: int
    next: int | LayerField | None

    @property
    def is_planar(self) -> bool:
        """Whether other pixels lie between the channels of one."""
        return self.channel != 1


def place(base: str, count: int, step: str) -> str:
    """A pointer ``count`` steps behind ``base``, in C.

    >>> [place("out", i, "CHANNELS") for i in range(3)]
    ['out', 'out + CHANNELS', 'out + 2 * CHANNELS']
    """
    if count == 0:
        return base
    return f"{base} + {step}" if count == 1 else f"{base} + {count} * {step}"
