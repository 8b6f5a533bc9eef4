"""Where images and the elements of outputs lie in memory, as templates show it."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from qcgen.ir.context import Context
from qcgen.ir.program import ConvGeometry
from qcgen.ir.types import Layout


@dataclass(frozen=True)
class Images(Context):
    """The distances between the images of a batch, in elements."""

    x_image: int  # from one image of x to the next
    y_image: int  # from one image of y to the next


@dataclass(frozen=True)
class OutputSteps(Context):
    """The distances between outputs, in elements."""

    y_pixel: int  # from one pixel to the next
    y_channel: int  # from one channel of a pixel to the next


def images(g: ConvGeometry) -> Images:
    """Of a convolution or pooling."""
    return Images(g.in_channels * prod(g.input), g.out_channels * prod(g.output))


def output_steps(g: ConvGeometry, layout: Layout) -> OutputSteps:
    """Of an output in ``layout``."""
    return OutputSteps(g.out_channels, 1) if layout is Layout.CHANNELS_LAST else OutputSteps(1, prod(g.output))
