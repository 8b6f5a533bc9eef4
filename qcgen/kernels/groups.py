"""The loops over the axes that stay where others go."""

from __future__ import annotations

from qcgen.ir.program import Tensor
from qcgen.kernels.kernel import Setting
from qcgen.kernels.loop_nest import Dimension, LoopNest, loop_nest, strides


def kept_nest(x: Tensor, y: Tensor, axes: tuple[int, ...], setting: Setting, tables: tuple[str, ...] = ()) -> LoopNest:
    """The loops over the axes of x but ``axes``, which y has with one element each, or lacks.

    ``tables`` have an element for each of y, in the order of its memory.
    """
    x_steps, y_steps = strides(x.shape, setting.xs[0]), strides(y.shape, setting.y)
    kept = [axis for axis in range(len(x.shape)) if axis not in axes]
    places = kept if len(y.shape) == len(x.shape) else range(len(kept))
    pairs = zip(kept, places, strict=True)
    steps = [(x.shape[i], x_steps[i], y_steps[j]) for i, j in pairs]
    found = [Dimension(size, {"x": own, **dict.fromkeys(("y", *tables), step)}) for size, own, step in steps]
    return loop_nest(found, ("x", "y", *tables), {})
