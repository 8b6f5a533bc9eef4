"""qcgen compiles quantized ONNX models to standalone C for microcontrollers, bit for bit."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from qcgen.errors import ModelRejected, Problem
from qcgen.version import __version__

if TYPE_CHECKING:
    from qcgen.artifact import Artifact
    from qcgen.compiler import compile

__all__ = ["Artifact", "ModelRejected", "Problem", "__version__", "compile"]

_LAZY = {"Artifact": "qcgen.artifact", "compile": "qcgen.compiler"}


def __getattr__(name: str) -> object:
    # onnx and numpy take a third of a second to import: the command line answers usage questions without them.
    if name not in _LAZY:
        raise AttributeError(f"module 'qcgen' has no attribute {name!r}")
    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value
