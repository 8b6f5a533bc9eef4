"""Generated code on an emulated core: cross-compiled, run under QEMU, its instructions counted."""

from qcgen.cross import COMPILERS, missing_tools, temporary_folder
from qcgen.emulate.bounds import BOUNDED, Bound, NodeBound, bound
from qcgen.emulate.counts import COUNTED_FLAGS, CYCLES, Cost, Measurement, NodeCost, measure
from qcgen.emulate.image import EmulatedOutcome, Image, Trial, cross_build, emulate, end_feeds, random_feeds

__all__ = [
    "BOUNDED",
    "COMPILERS",
    "COUNTED_FLAGS",
    "CYCLES",
    "Bound",
    "Cost",
    "EmulatedOutcome",
    "Image",
    "Measurement",
    "NodeBound",
    "NodeCost",
    "Trial",
    "bound",
    "cross_build",
    "emulate",
    "end_feeds",
    "measure",
    "missing_tools",
    "random_feeds",
    "temporary_folder",
]
