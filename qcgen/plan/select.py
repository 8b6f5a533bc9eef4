"""What computes each operator: the first kernel that serves it on the target, and the form on which it spends flash."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from qcgen.ir.plan import Rejected
from qcgen.ir.program import Operator
from qcgen.kernels import Kernel, Setting, TileWeights


@dataclass(frozen=True)
class Selection:
    """The chosen kernel, and why those before it in the list were not chosen."""

    kernel: Kernel
    rejected: tuple[Rejected, ...]


def select(op: Operator, setting: Setting, kernels: Sequence[Kernel], wanted: str = "") -> Selection:
    """The first kernel whose needs the target meets and that finds no reason against the operator.

    Kernels that need other features than the target has are not mentioned: nothing can be done about them. ``wanted``:
    the name of one that comes before all others.
    """
    rejected: list[Rejected] = []
    for kernel in sorted(kernels, key=lambda each: each.name != wanted):
        if not kernel.needs <= setting.features:
            continue
        reason = kernel.why_not(op, setting)
        if reason is None:
            return Selection(kernel, tuple(rejected))
        rejected.append(Rejected(kernel.name, reason))
    raise AssertionError(f"no kernel accepts {op.name}")


# What a layer spends flash on: the ways to compile it between --optimize size and speed.


@dataclass(frozen=True)
class Form:
    """``optimize`` is "size" or "speed".

    ``tile_weights``: where those lie that are transformed for tiles of outputs, in RAM with so much ``tile_scratch``.
    """

    name: str
    optimize: str
    tile_weights: TileWeights = TileWeights.NONE
    tile_scratch: int = 0


SIZE = Form("size", "size")
PAIRED = Form("paired", "speed")
TRANSFORMING = Form("transforming", "speed", TileWeights.IN_RAM, 24 * 1024)
TRANSFORMING_MORE = Form("transforming more", "speed", TileWeights.IN_RAM, 48 * 1024)
SPEED = Form("speed", "speed", TileWeights.IN_FLASH)

FORMS = (SIZE, PAIRED, TRANSFORMING, TRANSFORMING_MORE, SPEED)
"""From the least flash to the most, for most layers."""
