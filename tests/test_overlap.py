"""Outputs over inputs: right at the distance that a kernel's order allows, wrong one step nearer."""

import ctypes
from collections import defaultdict
from itertools import product

import numpy as np
import pytest
from batch import Unit, call, inputs, require, to_boundary, unit
from cases import CASES
from every_case import own_cases

from qcgen.build import STRICT_FLAGS

CORES = {"cortex-m55": 8, "cortex-m4": 5, "cortex-m3": 3, "cortex-m0": 2, "portable": 6}
"""How many cases of each of its kernels a target adds."""

KERNELS = (
    *(f"arm_dsp/{name}" for name in ("conv", "dense", "pointwise", "short_window", "winograd")),
    *("arm_dsp/depthwise", "arm_dsp/depthwise_direct", "arm_dsp/depthwise_rows", "arm_mve/conv", "arm_mve/depthwise"),
    *("scalar/conv", "scalar/depthwise", "scalar/winograd"),
    *("portable/conv", "portable/pointwise", "portable/depthwise_nhwc"),
)
"""Those that tell their order."""

ALWAYS = {"depthwise_batch_of_3", "ties_depthwise", "dsp_parted_12_by_50_ties", "dsp_parted_15_by_50"}
"""Cases that are never left out: in most others scalar/depthwise and arm_dsp/depthwise read all of a small image before
they write.
"""

NO_TIGHT_BOUND = {"portable/depthwise_nhwc"}
"""Its function for a pixel promises the compiler that input and output lie apart, for all channels of the pixel."""


@pytest.fixture(scope="module")
def units(everything) -> dict[str, list[Unit]]:
    """Some cases of every kernel that tells its order, as compiled for the cores that have it."""
    found: dict[str, list[Unit]] = defaultdict(list)
    for core, most in CORES.items():
        fresh: dict[str, list[Unit]] = defaultdict(list)
        every = [*own_cases(core), *CASES]
        step = max(1, len(every) // (80 if everything else 30))
        cases = dict.fromkeys([*every[::step], *(case for case in every if case.name in ALWAYS)])
        for case, aim in product(cases, ("size", "speed")):
            if case.numerics != "onnxruntime":
                continue
            each = unit(case, "nhwc", aim, core)
            [planned] = each.artifact.plan.calls[-1:]
            useful = planned.access is not None and planned.access.distance < _bytes(each, "outputs")
            if useful and len(each.artifact.plan.calls) == 1 and planned.access.units > 1:
                fresh[planned.kernel].append(each)
        for kernel, units in fresh.items():
            found[kernel] += units[:: max(1, len(units) // most)][:most]
    return found


def _bytes(each: Unit, direction: str) -> int:
    [port] = getattr(each.artifact.plan, direction)
    return port.tensor.size * port.tensor.dtype.bytes


@pytest.fixture(scope="module")
def library(units, tmp_path_factory, everything):
    """One shared library of all units."""
    require("gcc")
    folder = tmp_path_factory.mktemp("overlap")
    built = [each for group in units.values() for each in group]
    for each in built:
        each.artifact.write(folder)
    (folder / "all.c").write_text("".join(f'#include "{each.name}.c"\n' for each in built))
    call(["gcc", *STRICT_FLAGS, "-O2" if everything else "-O0", "-shared", "-fPIC", "-o", "all.so", "all.c"], folder)
    return ctypes.CDLL(str(folder / "all.so"))


def run(library, each: Unit, x: np.ndarray, distance: int) -> bytes:
    """The output that begins ``distance`` bytes before the input."""
    sizes = x.nbytes, _bytes(each, "outputs")
    memory = np.zeros(2 * sum(sizes) + abs(distance) + 8, np.uint8)
    arena = np.zeros(each.artifact.plan.arena_bytes // 8 + 1, np.uint64)
    x_at = sizes[1] + max(distance, 0) + -(memory.ctypes.data + sizes[1] + max(distance, 0)) % 8
    memory[x_at : x_at + sizes[0]] = np.frombuffer(x.tobytes(), np.uint8)
    places = (memory.ctypes.data + x_at, memory.ctypes.data + x_at - distance, arena.ctypes.data)
    getattr(library, f"{each.name}_run")(*map(ctypes.c_void_p, places))
    return memory[x_at - distance : x_at - distance + sizes[1]].tobytes()


def differs(library, each: Unit, distance: int) -> bool:
    """Whether some output is another one if it lies so over the input instead of apart from it."""
    apart = _bytes(each, "outputs")
    images = to_boundary(each, inputs(each.case))
    return any(run(library, each, x, distance) != run(library, each, x, apart) for x in images)


@pytest.mark.parametrize("kernel", KERNELS)
def test_outputs_over_inputs_are_those_apart_from_them(kernel, units, library):
    assert units[kernel]
    for each in units[kernel]:
        access = each.artifact.plan.calls[0].access
        wrong = [d for d in (access.distance, access.distance + access.multiple) if differs(library, each, d)]
        assert not wrong, f"{each.name}: wrong at {wrong}"


@pytest.mark.parametrize("kernel", sorted(set(KERNELS) - NO_TIGHT_BOUND))
def test_one_step_nearer_something_is_overwritten(kernel, units, library):
    tight = [
        differs(library, each, access.distance - access.multiple)
        for each in units[kernel]
        for access in [each.artifact.plan.calls[0].access]
        if access.distance - access.multiple > -_bytes(each, "inputs")
    ]
    assert 2 * sum(tight) >= len(tight) > 0, f"{sum(tight)} of {len(tight)}"
