"""Where in the arena everything lies."""

from __future__ import annotations

from collections.abc import Sequence

from qcgen.kernels import Scratch


def stack(buffers: Sequence[Scratch]) -> tuple[tuple[int, ...], int]:
    """Offsets of buffers that are alive at the same time, and the bytes they take together."""
    offsets, end = [], 0
    for buffer in buffers:
        offsets.append(end + -end % buffer.align)
        end = offsets[-1] + buffer.bytes
    return tuple(offsets), end
