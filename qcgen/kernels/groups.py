"""The loops over the axes that stay where others go."""

from __future__ import annotations

from qcgen.ir.program import Tensor
from qcgen.kernels.kernel import Setting
from qcgen.kernels.loop_nest import Dimension, LoopNest, loop_nest, strides


def kept_nest(x: Tensor, y: Tensor, axes: tuple[int, ...], setting: Setting) -> LoopNest:
    """The loops over the axes of x but ``axes``, which y has with one element each, or lacks."""
    x_steps, y_steps = strides(x.shape, setting.xs[0]), strides(y.shape, setting.y)
    kept = [axis for axis in range(len(x.shape)) if axis not in axes]
    places = kept if len(y.shape) == len(x.shape) else range(len(kept))
    pairs = zip(kept, places, strict=True)
    return loop_nest([Dimension(x.shape[i], {"x": x_steps[i], "y": y_steps[j]}) for i, j in pairs], ("x", "y"), {})
