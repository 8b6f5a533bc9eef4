"""What a layer spends flash on: the ways to compile it between --optimize size and speed."""

from __future__ import annotations

from dataclasses import dataclass

from qcgen.kernels import TileWeights


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
