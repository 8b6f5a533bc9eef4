"""The kernels, in the order in which they are preferred; the first that serves an operator computes it."""

from qcgen.kernels.kernel import COMMON_NAMES, Constants, Kernel, Prepared, Setting
from qcgen.kernels.portable.conv import CONV

KERNELS: tuple[Kernel, ...] = (CONV,)

__all__ = ["COMMON_NAMES", "KERNELS", "Constants", "Kernel", "Prepared", "Setting"]
