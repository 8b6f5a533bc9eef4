"""What runs on each emulated core at every level of every compiler: all cases at one level, a share at the others."""

from __future__ import annotations

import math
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import test_kernels_arm_mve as mve
import test_kernels_arm_mve_depthwise as mve_depthwise
import test_kernels_scalar_depthwise as planes
import test_kernels_tiles as tiles
from batch import Unit, family_unit, unit
from cases import CASES, S8, U8, U8S8, Case, quantized
from cases_mve_depthwise import same
from cases_scalar import SHAPES
from emulated import wrong_outputs
from every_case import own_cases
from network_cases import UNITS
from network_units import Unit as OperatorUnit
from subjects import Subject, network, of_unit, on_core, operator

from qcgen.cores import EMULATED, TARGETS

DIGITS = Path(__file__).parent / "data" / "digits"
NETWORKS = ("digits_qop_s8", "digits_qop_u8", "digits_qdq_s8", "digits_qdq_u8")

LEVELS = ("-O0", "-O1", "-Os", "-O2", "-O3")
EVERY_CASE = ("gcc", "-O2")
"""The compiler and the level at which every case runs."""

COMPILERS = ("gcc", "clang", "recent clang")
"""The recent clang is that of the PyPI package ziglang."""

OTHERS = tuple(pair for pair in product(COMPILERS, LEVELS) if pair != EVERY_CASE)
"""At these the cases of each kernel run by turns: every second one at one of them, and at each of them at least one."""

STRICTEST = "cortex-m0"
"""The core that takes no unaligned word. Portable kernels are the same C for all cores: this one runs half of their
units, and the other cores share the rest."""

PORTABLE_TURNS = 3
"""Portable kernels run at every compiler's levels on STRICTEST, at every third of these levels on other cores."""

LIKE_OTHERS = {"cortex-m7": 1, "cortex-m33": 3, "cortex-m85": 2, "cortex-m23": 0, "scalar32": 1}
"""Cores that get the C of another one, or nearly so: each runs one in four cases, from here on."""

SWEEP = tuple(
    quantized(
        f"sweep_{h}_by_{w}",
        (1, (10, 4, 17, 20, 5)[(h + w) % 5], 7 if h != 9 else 3, 9),
        ((10, 4, 17, 20, 5)[(h + w) % 5], 1, h, w),
        (S8, U8, U8S8)[(h + 2 * w) % 3],
        group=(10, 4, 17, 20, 5)[(h + w) % 5],
        pads=same((h, w)),
        strides=[1, 1] if (h + w) % 4 else [2, 2],
    )
    for h in range(1, 10)
    for w in range(1, 10)
)
"""Depthwise convolutions of all heights and widths of kernels from 1 to 9."""


def chosen(core: str) -> list[Subject]:
    """The common table and the cases of the core's families, by the kernels chosen; other operators; networks."""
    others = [
        operator(replace(each, target=core), core)
        for number, each in numbered(UNITS)
        if core == core_of(number) or not each.kernel.name.startswith("portable/")
    ]
    cases = CASES[LIKE_OTHERS[core] :: 4] if core in LIKE_OTHERS else CASES
    convolved = on_core((*cases, *own_cases(core)), core)
    return convolved + others + [network(DIGITS / f"{model}.onnx", core) for model in NETWORKS]


def numbered(units: Iterable[OperatorUnit]) -> Iterator[tuple[int, OperatorUnit]]:
    """Units, each with its number among those of its kernel."""
    met: Counter[str] = Counter()
    for each in units:
        yield met[each.kernel.name], each
        met[each.kernel.name] += 1


def core_of(number: int) -> str:
    """The core that runs this one of the units of a portable kernel: every second one STRICTEST, others by turns."""
    others = [core for core in EMULATED if core != STRICTEST]
    return others[number // 2 % len(others)] if number % 2 else STRICTEST


def of_families(core: str) -> list[Subject]:
    """The cases of families of kernels that one core or some have, whatever they cost beside others."""
    if core == "cortex-m55":
        units = mve.served()
        units += mve_depthwise.served()
    elif core == "cortex-m4":
        units = [tiles.tiles_unit(case) for case in tiles.TILES]
    elif core in planes.CORES:
        units = [each for case in planes.OWN for each in planes.units_of(case, core)]
        return [*map(of_unit, units), *on_core(SHAPES, core)]
    else:
        units = []
    return [of_unit(each) for each in units]


def sweep(core: str) -> list[Subject]:
    """All sizes of depthwise kernels, by the core's own kernels for both aims and by the portable ones."""
    cases = SWEEP[LIKE_OTHERS[core] :: 4] if core in LIKE_OTHERS else SWEEP
    found = [of_unit(each) for case in cases for each in _swept(case, core)]
    return [each for i, each in enumerate(found) if core == STRICTEST or i % 9 == 0 or not is_portable(each)]


def _swept(case: Case, core: str) -> Iterator[Unit]:
    family = {"mve": "arm_mve", "scalar": "scalar"}
    [name] = [own for feature, own in family.items() if feature in TARGETS[core].features] or [""]
    for aim in ("size", "speed"):
        yield family_unit(case, aim, core, name) if name else unit(case, "nhwc", aim, core)
    yield unit(case, "nchw", "size", core)
    yield unit(case, "nhwc", "size")


@cache
def groups(core: str) -> tuple[tuple[Subject, ...], ...]:
    """All subjects of a core, in groups within which names differ; the same C once."""
    found = []
    for subjects in (chosen(core), of_families(core), sweep(core)):
        found.append(tuple({each.name: each for each in subjects}.values()))
    return tuple(found)


def share(subjects: Iterable[Subject], turn: int) -> list[Subject]:
    """The subjects of each kernel whose turn it is, one at least."""
    by_kernel: dict[str, list[Subject]] = defaultdict(list)
    for each in subjects:
        by_kernel[" ".join(sorted({call.kernel for call in each.artifact.plan.calls}))].append(each)
    found = []
    for own in by_kernel.values():
        found += own[turn :: 2 * len(OTHERS)] or [own[turn % len(own)]]
    return found


BREAKS_CLANG = ("dsp_add_first_constant_last",)
"""Subjects on which clang 14 itself crashes at -O3 for cores with Helium, in its pass "MVE gather/scatter lowering"."""


def at_level(core: str, compiler: str, level: str) -> list[list[Subject]]:
    """The subjects of each group that run at a compiler's level: all, or those whose turn it is."""
    if (compiler, level) == EVERY_CASE:
        return [list(subjects) for subjects in groups(core)]
    turn = OTHERS.index((compiler, level))
    broken = BREAKS_CLANG if (compiler, level) == ("clang", "-O3") else ()
    all_kernels = core == STRICTEST or (turn + list(EMULATED).index(core)) % PORTABLE_TURNS == 0
    return [
        [each for each in share(subjects, turn) if each.name not in broken and (all_kernels or not is_portable(each))]
        for subjects in groups(core)
    ]


def is_portable(subject: Subject) -> bool:
    """Whether the subject is portable C alone, the same for every core."""
    return all(call.kernel.startswith("portable/") for call in subject.artifact.plan.calls)


CODE = {"-O0": 12288, "-O3": 8192}
"""Bytes of a model, roughly, besides its constants; 5120 at other levels."""


def dealt(subjects: Sequence[Subject], rom: int, level: str) -> list[Sequence[Subject]]:
    """The subjects in as few images as a memory of ``rom`` bytes allows, but one for each processor at least."""
    code = CODE.get(level, 5120)
    total = sum(code + sum(call.constant_bytes for call in each.artifact.plan.calls) for each in subjects)
    parts = max(os.cpu_count() or 1, math.ceil(total / (0.8 * rom)))
    return [part for start in range(parts) if (part := subjects[start::parts])]


def wrong_at_level(core: str, compiler: str, level: str, folder: Path) -> list[str]:
    """What is wrong with the outputs on the core of all subjects that run at the level."""
    machine = TARGETS[core].machine
    assert machine is not None
    parts = [part for each in at_level(core, compiler, level) for part in dealt(each, machine.rom.bytes, level)]

    def wrong(number: int) -> list[str]:
        return wrong_outputs(core, parts[number], folder / str(number), compiler.split()[-1], (level,))

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return [text for texts in pool.map(wrong, range(len(parts))) for text in texts]


def recent_clang(folder: Path) -> str:
    """A folder with a program ``clang`` that is the one of the PyPI package ziglang."""
    headers = Path(find_spec("ziglang").origin or "").parent / "lib" / "include"
    program = folder / "clang"
    # Its own command line, not that of "zig cc", which adds sanitizers and a target of its own. The linker of binutils
    # 2.40 fails over clang 22's debugging information for RISC-V.
    zig = headers.parents[1] / "zig"
    program.write_text(f'#!/bin/sh\nexec "{zig}" clang -isystem "{headers}" "$@" -g0\n')
    program.chmod(0o755)
    return str(folder)


def main() -> None:
    """Prints how many cases run on each core at each level."""
    for core in sys.argv[1:] or EMULATED:
        counts = {
            f"{compiler} {level}": sum(map(len, at_level(core, compiler, level)))
            for compiler, level in (EVERY_CASE, *OTHERS)
        }
        print(core, ", ".join(f"{name}: {count}" for name, count in counts.items()))


if __name__ == "__main__":
    main()
