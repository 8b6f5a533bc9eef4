"""qcgen compiles quantized ONNX and TensorFlow Lite models to standalone C for microcontrollers, bit for bit.

    import qcgen

    artifact = qcgen.compile("kws.onnx", board="stm32f407", layout="nhwc", io="quantized")
    artifact.write("firmware/kws")  # kws.h, kws.c
    print(artifact.report.flash_bytes, artifact.report.ram_bytes, artifact.report.board)

    session = artifact.load()  # built with this machine's C compiler; as onnxruntime's session
    [x] = session.get_inputs()
    [y] = session.run(None, {x.name: array})

    assert qcgen.verify(artifact).is_right  # against the reference and onnxruntime, on the emulated core
    print(qcgen.bench(artifact).cycles)  # one inference, counted on the emulated core
    print(*qcgen.targets())  # portable host cortex-m0 ...

compile takes a path, bytes or a ModelProto, and raises ModelRejected with every problem that was found, each with the
node, what is wrong and what to do. Options are those of the command line: docs/python.md has them all, and the fields
of a report. Artifacts and reports can be pickled: docs/sweeps.md compiles thousands.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from qcgen.errors import EmulationFailed, ModelRejected, Problem, ToolMissing
from qcgen.version import __version__

if TYPE_CHECKING:
    from qcgen.api import bench, targets, verify, weights
    from qcgen.artifact import Artifact
    from qcgen.compiler import compile
else:  # a type checker shall find misspelt names
    _LAZY = {"Artifact": "qcgen.artifact", "compile": "qcgen.compiler"}
    _LAZY |= dict.fromkeys(("bench", "targets", "verify", "weights"), "qcgen.api")

    def __getattr__(name: str) -> object:
        # onnx and numpy take a third of a second to import: the command line answers usage questions without them.
        if name not in _LAZY:
            raise AttributeError(f"module 'qcgen' has no attribute {name!r}")
        value = getattr(import_module(_LAZY[name]), name)
        globals()[name] = value
        return value


__all__ = [
    "Artifact",
    "EmulationFailed",
    "ModelRejected",
    "Problem",
    "ToolMissing",
    "__version__",
    "bench",
    "compile",
    "targets",
    "verify",
    "weights",
]


def __dir__() -> list[str]:
    return __all__
