"""The convolutions that families of kernels add to the common table in cases_FAMILY.py, and the cores they are for."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from cases import CASES, Case

SCALAR = ("cortex-m0", "cortex-m3", "rv32imc")
CORES = {
    "cases_arm_dsp": ("cortex-m4", "cortex-m7", "cortex-m33"),
    "cases_tiles": ("cortex-m4", "cortex-m7", "cortex-m33"),
    "cases_arm_mve": ("cortex-m55",),
    "cases_mve_depthwise": ("cortex-m55",),
    "cases_scalar": SCALAR,
    "cases_scalar_planes": SCALAR,
}
"""The cores that have the kernels, by the name of the file; each case runs on one of them, by turns."""


def own_cases(core: str) -> tuple[Case, ...]:
    """The cases of the core's families, by turns with the other cores that have them."""
    found: list[Case] = []
    for path in sorted(Path(__file__).parent.glob("cases_*.py")):
        cores = CORES[path.stem]
        if core in cores:
            values = (value for value in vars(import_module(path.stem)).values() if isinstance(value, tuple))
            own = [case for value in values for case in value if isinstance(case, Case)]
            found += own[cores.index(core) :: len(cores)]
    return tuple(case for case in dict.fromkeys(found) if case not in CASES)
