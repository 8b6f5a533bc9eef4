"""Every kernel of every core at every level of gcc and clang: right outputs, and no warning under the strict flags."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import chain
from pathlib import Path

import pytest
from batch import call
from emulated import require_core
from gallery import ENTRIES, GENERATED
from levels import (
    COMPILERS,
    DIGITS,
    EVERY_CASE,
    LEVELS,
    LIKE_OTHERS,
    NETWORKS,
    OTHERS,
    PORTABLE_TURNS,
    STRICTEST,
    at_level,
    core_of,
    groups,
    numbered,
    recent_clang,
    share,
    wrong_at_level,
)
from network_cases import UNITS
from subjects import Subject, network
from tools import require_modules

from qcgen.cores import EMULATED, TARGETS
from qcgen.cross import compile_command
from qcgen.emulate.image import c_library

pytestmark = pytest.mark.emulated

CORES = [pytest.param(core, marks=pytest.mark.xdist_group(core)) for core in EMULATED]
"""One process runs all tests of a core, which share what they compile; others run those of other cores meanwhile."""

PORTABLE_C = ("cortex-m0", "cortex-m4", "cortex-m55", "rv32imc")
"""Cores with an instruction set each: Thumb's first, its second, Helium, and RISC-V."""


@cache
def files(core: str) -> dict[str, str]:
    """The files of the gallery for the core, and the digits networks compiled for it, by name; portable ones, too, on
    one core of each instruction set: they are the same C on all."""
    targets = ("portable", core) if core in PORTABLE_C else (core,)
    names = [entry.name for entry in ENTRIES if entry.options.get("target", "portable") in targets]
    found = {f"{name}.c": (GENERATED / f"{name}.c").read_text() for name in names}
    found |= {path.name: path.read_text() for path in GENERATED.glob("*.h")}
    for model in NETWORKS:
        found |= network(DIGITS / f"{model}.onnx", core).artifact.files
    return found


def compile_strictly(core: str, compiler: str, level: str, folder: Path) -> None:
    """Fails if the compiler says a word about a file for the core at the level."""
    require_core(core, compiler, counting=False)
    for name, text in files(core).items():
        (folder / name).write_text(text)
    sources = [name for name in files(core) if name.endswith(".c")]
    command = compile_command(TARGETS[core], (level,), compiler)
    call([*command, *c_library(TARGETS[core], compiler), *sources], folder)


@pytest.fixture
def compiler(request, tmp_path_factory, monkeypatch):
    """One of COMPILERS, by its name in the command; the recent clang comes first in PATH."""
    if request.param == "recent clang":
        require_modules("ziglang")
        folder = recent_clang(tmp_path_factory.mktemp("clang"))
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return request.param


PAIRS = [
    pytest.param(core, compiler, marks=pytest.mark.xdist_group(core))
    for i, core in enumerate(EMULATED)
    for j, compiler in enumerate(COMPILERS)
    if core not in LIKE_OTHERS or i % len(COMPILERS) == j
]
"""Cores and the compilers that build for them at every level: cores that get the C of another one take turns."""


def at_all(core: str, compiler: str, folder: Path) -> None:
    """Compiles at every level, as many at a time as there are processors."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for level in LEVELS:
            (folder / level).mkdir()
        list(pool.map(lambda level: compile_strictly(core, compiler, level, folder / level), LEVELS))


@pytest.mark.parametrize("compiler", COMPILERS, indirect=True)
@pytest.mark.parametrize("core", CORES)
def test_they_take_the_strict_flags_at_every_level(core, compiler, tmp_path):
    at_all(core, compiler.split()[-1], tmp_path)


@pytest.mark.parametrize("core", CORES)
def test_every_case_of_a_core_gives_the_references_outputs_on_it(core, tmp_path):
    assert_right_at(core, *EVERY_CASE, tmp_path)


@pytest.mark.parametrize(("core", "compiler"), PAIRS, indirect=["compiler"])
def test_a_share_of_the_cases_does_so_at_every_other_level(core, compiler, tmp_path):
    for level in (level for name, level in OTHERS if name == compiler):
        assert_right_at(core, compiler, level, tmp_path)


def assert_right_at(core: str, compiler: str, level: str, folder: Path) -> None:
    require_core(core, compiler.split()[-1], counting=False)
    own = folder / level
    own.mkdir()
    wrong = wrong_at_level(core, compiler, level, own)
    assert not wrong, f"{core}, {compiler} {level}:\n" + "\n".join(wrong)


@pytest.mark.parametrize(
    "core", [pytest.param(core, marks=pytest.mark.xdist_group(core)) for core in ("cortex-m3", STRICTEST)]
)
def test_every_kernel_of_a_core_has_a_case_at_every_level(core):
    turns = range(len(OTHERS))
    met = Counter(kernel for pair in OTHERS for kernel in _kernels(chain(*at_level(core, *pair))))
    for subjects in groups(core):
        kernels = _kernels(subjects)
        few = {kernel: met[kernel] for kernel in kernels if met[kernel] < len(OTHERS)}
        assert all(kernel.startswith("portable/") for kernel in few)
        assert not few or (core != STRICTEST and min(few.values()) >= len(OTHERS) // PORTABLE_TURNS)
        assert all(_kernels(share(subjects, turn)) >= kernels for turn in turns)
        assert all(len(share(subjects, turn)) <= len(subjects) / len(OTHERS) + 2 * len(kernels) for turn in turns)


def test_every_unit_of_a_portable_kernel_runs_on_some_core():
    kernels = Counter(unit.kernel.name for unit in UNITS)
    run = Counter(unit.kernel.name for core in EMULATED for number, unit in numbered(UNITS) if core == core_of(number))
    assert run == kernels


def _kernels(subjects: Iterable[Subject]) -> set[str]:
    return {call.kernel for each in subjects for call in each.artifact.plan.calls}
