"""What a layer spends flash on: the ways to compile it between --optimize size and speed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Form:
    """``optimize`` is "size" or "speed"; ``takes_tiles``: weights may be transformed for tiles of outputs."""

    name: str
    optimize: str
    takes_tiles: bool = True


SIZE = Form("size", "size")
PAIRED = Form("paired", "speed", takes_tiles=False)
SPEED = Form("speed", "speed")

FORMS = (SIZE, PAIRED, SPEED)
"""From the least flash to the most."""
