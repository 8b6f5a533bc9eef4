"""Fixed-point requantization that is proved equal to onnxruntime's float32 arithmetic."""

from qcgen.requantize.choose import choose, line_in_64_bits
from qcgen.requantize.fixed_point import FORMS, FixedPoint
from qcgen.requantize.staircase import Staircase, staircase

__all__ = ["FORMS", "FixedPoint", "Staircase", "choose", "line_in_64_bits", "staircase"]
