"""The convolutions that families of kernels add to the common table in cases_FAMILY.py, and the cores they are for."""

from __future__ import annotations

from importlib import import_module

from cases import CASES, Case

CORES = {
    "cases_arm_dsp": ("cortex-m4", "cortex-m7", "cortex-m33"),
    "cases_tiles": ("cortex-m4", "cortex-m7", "cortex-m33"),
}
"""The cores that have the kernels, by the name of the file; each case runs on one of them, by turns.

The cases of the other families run on all of their cores in test_kernels_FAMILY.py.
"""


def own_cases(core: str) -> tuple[Case, ...]:
    """The cases of the core's families, by turns with the other cores that have them."""
    found: list[Case] = []
    for module, cores in CORES.items():
        if core in cores:
            values = (value for value in vars(import_module(module)).values() if isinstance(value, tuple))
            own = [case for value in values for case in value if isinstance(case, Case)]
            found += own[cores.index(core) :: len(cores)]
    return tuple(case for case in dict.fromkeys(found) if case not in CASES)
