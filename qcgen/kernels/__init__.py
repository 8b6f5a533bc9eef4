"""The kernels, in the order in which they are preferred; the first that serves an operator computes it."""

from qcgen.kernels.kernel import COMMON_NAMES, Constants, Kernel, Prepared, Scratch, Setting
from qcgen.kernels.portable.conv import CONV
from qcgen.kernels.portable.conv_float import CONV_FLOAT
from qcgen.kernels.portable.depthwise import DEPTHWISE_NCHW, DEPTHWISE_NHWC
from qcgen.kernels.portable.orion import ORION_CONV
from qcgen.kernels.portable.pointwise import POINTWISE

KERNELS: tuple[Kernel, ...] = (POINTWISE, DEPTHWISE_NHWC, DEPTHWISE_NCHW, CONV, CONV_FLOAT, ORION_CONV)

__all__ = ["COMMON_NAMES", "KERNELS", "Constants", "Kernel", "Prepared", "Scratch", "Setting"]
