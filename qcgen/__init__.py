"""qcgen compiles quantized ONNX models to standalone C for microcontrollers, bit for bit."""

from qcgen.artifact import Artifact
from qcgen.compiler import compile
from qcgen.errors import ModelRejected, Problem
from qcgen.version import __version__

__all__ = ["Artifact", "ModelRejected", "Problem", "__version__", "compile"]
