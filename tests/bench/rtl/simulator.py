"""Simulators of cores, built from their packages of PyPI by Verilator, and what a call of a model takes on them.

Memory answers in the next cycle, instructions and data have ports of their own: no waits but those of the core itself.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import patch

from qcgen.artifact import Artifact
from qcgen.cores import TARGETS
from qcgen.emulate import COUNTED_FLAGS, EmulatedOutcome, Trial, cross_build, emulate
from qcgen.ir.types import Array

HERE = Path(__file__).parent
BUILT = HERE.parents[2] / "build" / "rtl"
TARGET = TARGETS["rv32imc"]
CALLS = 5
"""Instructions of the two calls that read the counters (start.c) which are counted with what lies between them."""


@dataclass(frozen=True)
class Core:
    """A core in a ``package`` of PyPI; ``sources`` gives Verilator's arguments from the folder of its SystemVerilog
    and one to write to.
    """

    package: str
    sources: Callable[[Path, Path], Sequence[str]]


@dataclass(frozen=True)
class Run:
    """A call of a model: ``cycles`` and retired ``instructions``; the reading of the counters adds some cycles."""

    outcome: EmulatedOutcome
    cycles: int
    instructions: int


def _ibex(root: Path, _folder: Path) -> list[str]:
    primitives = root / "vendor/lowrisc_ip/ip/prim/rtl"
    packages = [str(primitives / f"prim_{name}_pkg.sv") for name in "util mubi cipher count secded ram_1p".split()]
    includes = [primitives, root / "vendor/lowrisc_ip/dv/sv/dv_utils"]
    found = ["-y", str(root / "rtl"), "-y", str(primitives), *(f"+incdir+{path}" for path in includes)]
    return [*found, *packages, str(root / "rtl/ibex_pkg.sv"), str(HERE / "ibex.sv")]


def _cv32e40p(root: Path, folder: Path) -> list[str]:
    rtl = root / "rtl"
    # Verilator refuses an array of which constants are assigned in one process and registers in another, and computes
    # it wrongly if told to go on: constants become registers, too.
    text = (rtl / "cv32e40p_cs_registers.sv").read_text(encoding="utf-8")
    text, count = re.subn(r"assign (\w+_q\[.*?) = 'b0;", r"always_ff @(posedge clk) \1 <= 'b0;", text)
    assert count == 5, "another version of CV32E40P"
    changed = folder / "cv32e40p_cs_registers.sv"
    changed.write_text(text, encoding="utf-8")
    first = [*(f"include/cv32e40p_{name}_pkg.sv" for name in ("apu_core", "fpu")), "include/cv32e40p_pkg.sv"]
    files = [str(rtl / name) for name in (*first, "cv32e40p_register_file_ff.sv")]
    return ["-y", str(rtl), f"+incdir+{rtl / 'include'}", *files, str(changed), str(HERE / "cv32e40p.sv")]


CORES = {
    "ibex": Core("pythondata_cpu_ibex", _ibex),
    "ibex-small": Core("pythondata_cpu_ibex", lambda *folders: ["-DSMALL", *_ibex(*folders)]),
    "cv32e40p": Core("pythondata_cpu_cv32e40p", _cv32e40p),
}
"""By the name that ``qcgen bench --core`` takes."""


def missing() -> tuple[str, ...]:
    """What is not installed of Verilator and the cores' packages, by the names of tests/tools.py."""
    modules = {core.package for core in CORES.values()}
    tools = [] if shutil.which("verilator") else ["verilator"]
    return (*tools, *sorted(name for name in modules if find_spec(name) is None))


def run(
    core: str, artifact: Artifact, feeds: Mapping[str, Array], flags: Sequence[str] = ("-O3",), compiler: str = "gcc"
) -> Run:
    """Builds a model as ``qcgen bench`` does and calls it once with ``feeds`` in the shapes of the C function.

    Raises EmulationFailed if the code faults or writes beside its buffers.
    """
    assert TARGET.machine is not None
    machine = replace(TARGET.machine, emulator=str(simulator(core)), startup=str(HERE / "start.c"))
    with tempfile.TemporaryDirectory() as name, patch.dict(TARGETS, {TARGET.name: replace(TARGET, machine=machine)}):
        folder = Path(name)
        image = cross_build(TARGET.name, [artifact], (*flags, *COUNTED_FLAGS[compiler]), folder, compiler)
        [outcome] = emulate(image, [Trial(feeds)], timeout=600)
        begin, end = ([int(word) for word in line.split()] for line in (folder / "counts.txt").read_text().splitlines())
    return Run(outcome, end[0] - begin[0], end[1] - begin[1] - CALLS)


@cache
def simulator(name: str) -> Path:
    """The program that simulates a core, built in build/rtl unless it is there."""
    core = CORES[name]
    own = b"".join(path.read_bytes() for path in sorted(HERE.iterdir()) if path.is_file())
    key = hashlib.sha256(own + version(core.package.replace("_", "-")).encode()).hexdigest()[:16]
    built = BUILT / f"{name}-{key}"
    if not built.exists():
        BUILT.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=BUILT) as folder:
            _build(core, Path(folder)).replace(built)
    return built


def _build(core: Core, folder: Path) -> Path:
    found = find_spec(core.package)
    assert found, f"{core.package} is not installed"
    assert found.origin
    root = Path(found.origin).parent / "system_verilog"
    # The cores' own code has warnings; what it cannot translate remains an error.
    options = ["--cc", "--exe", "--build", "-O3", "-Wno-fatal", "-CFLAGS", "-O2", "--top-module", "core"]
    files = [*core.sources(root, folder), str(HERE / "simulate.cpp")]
    command = ["verilator", *options, "--Mdir", str(folder), "-o", "simulate", *files]
    result = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    if result.returncode:
        raise RuntimeError(f"verilator failed:\n{result.stderr[-3000:]}")
    return folder / "simulate"
