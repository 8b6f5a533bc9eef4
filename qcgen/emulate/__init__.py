"""Generated code on an emulated core: cross-compiled, run under QEMU, its instructions counted."""

from qcgen.cross import COMPILERS, missing_tools, temporary_folder
from qcgen.emulate.counts import APART, Cost, Measurement, NodeCost, measure
from qcgen.emulate.cycles import CYCLES
from qcgen.emulate.image import Image, cross_build
from qcgen.emulate.machine import EmulatedOutcome, Trial, emulate, random_feeds

__all__ = [
    "APART",
    "COMPILERS",
    "CYCLES",
    "Cost",
    "EmulatedOutcome",
    "Image",
    "Measurement",
    "NodeCost",
    "Trial",
    "cross_build",
    "emulate",
    "measure",
    "missing_tools",
    "random_feeds",
    "temporary_folder",
]
