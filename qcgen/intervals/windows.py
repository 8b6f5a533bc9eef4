"""Which taps of a window lie inside the image, for every kind of window that an operator has."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from qcgen.ir.program import ConvGeometry, Tensor
from qcgen.ir.types import Layout

Bools = npt.NDArray[np.bool_]


def window_patterns(g: ConvGeometry) -> Bools:
    """The distinct windows (P, K), K taps in the order of the weights: whether each tap lies inside the image.

    A convolution whose windows never meet padding has one pattern, all true.
    """
    patterns = np.ones((1, 1), np.bool_)
    for axis in range(g.rank):
        starts = np.arange(g.output[axis])[:, None] * g.strides[axis] - g.pads_begin[axis]
        places = starts + np.arange(g.kernel[axis]) * g.dilations[axis]
        inside = np.unique((places >= 0) & (places < g.input[axis]), axis=0)
        both = patterns[:, None, :, None] & inside[None, :, None, :]
        patterns = both.reshape(len(patterns) * len(inside), -1)
    return patterns


def image_channel_axis(tensor: Tensor) -> int:
    """The axis of the channels of what a convolution or a pooling reads or writes; of matrices it is the last."""
    return 1 if tensor.layout is Layout.CHANNELS_FIRST else len(tensor.shape) - 1
