"""Fixed-point requantization that is proved equal to onnxruntime's float32 arithmetic."""

from qcgen.requantize.choose import choose
from qcgen.requantize.fixed_point import FORMS, FixedPoint
from qcgen.requantize.staircase import Staircase, staircase

__all__ = ["FORMS", "FixedPoint", "Staircase", "choose", "staircase"]
