"""What ``import qcgen`` offers beside compile: artifacts verified, their instructions counted, the list of targets."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from qcgen.artifact import Artifact
from qcgen.chips import CHIPS, Chip
from qcgen.compiler import read
from qcgen.cores import EMULATED, RISCV_CORES, TARGETS, boards_of
from qcgen.emulate import Measurement, measure, random_feeds
from qcgen.exchange import CodeInPlace, WrongRecord
from qcgen.ir.types import Array
from qcgen.options import CompilerName, OracleName, in_python, require
from qcgen.verification import Verification
from qcgen.verification import verify as compare

if TYPE_CHECKING:
    from onnx import ModelProto


@dataclass(frozen=True)
class Supported:
    """A core that code is compiled for: ``features`` choose kernels, ``is_emulated`` says whether ``bench`` can run it.

    ``chips`` are those of the core that ``compile(board=...)`` takes, each with flash and RAM in bytes, and clock.
    """

    name: str
    description: str
    features: tuple[str, ...]
    is_emulated: bool
    chips: tuple[Chip, ...]


def targets() -> dict[str, Supported]:
    """What ``compile(target=...)`` takes: every core by its name, with its chips."""
    return {
        name: Supported(
            name=name,
            description=core.description,
            features=tuple(sorted(core.features)),
            is_emulated=name in EMULATED,
            chips=tuple(chip for chip in CHIPS.values() if chip.target == name),
        )
        for name, core in TARGETS.items()
    }


def verify(
    artifact: Artifact,
    *,
    host: bool = False,
    seed: int = 0,
    cases: int = 10,
    data: str | os.PathLike[str] | None = None,
    flags: str | Sequence[str] | None = None,
    compiler: CompilerName = "gcc",
    sums: bool = True,
    oracle: OracleName = "auto",
) -> Verification:
    """Builds the C, runs it and compares every output with the reference and with the model file, as ``qcgen verify``.

    The code runs on its target's emulated core, or on this machine for a target without one, or with ``host=True``.
    ``cases``: how many random inputs, of ``seed``; extremes and those that drive accumulators to their ends come on
    top, and with ``data`` the recordings of an .npz file. ``flags`` are the C compiler's, None: -O2. ``sums=False``
    leaves out what takes longest, the measuring of every coefficient. ``oracle`` runs the model file.
    The result's ``is_right`` is the verdict. Raises ToolMissing, EmulationFailed, and RecordingError for ``data``.
    """
    _require_artifact(artifact)
    require("compiler", compiler)
    require("oracle", oracle)
    with in_python():
        return compare(
            artifact,
            seed=seed,
            cases=cases,
            data=None if data is None else Path(data),
            flags=(flags,) if isinstance(flags, str) else flags,
            emulated=artifact.plan.options.target in EMULATED and not host,
            compiler=compiler,
            sums=sums,
            oracle=oracle,
        )


def bench(
    artifact: Artifact,
    feeds: Mapping[str, Array] | None = None,
    *,
    seed: int = 0,
    board: str | None = None,
    core: str | None = None,
    compiler: CompilerName = "gcc",
    flags: str | Sequence[str] = ("-O2",),
) -> Measurement:
    """Counts the instructions of an inference on an emulated core, node by node, and estimates cycles: ``qcgen bench``.

    ``feeds``: the inputs by name, in the shapes of the C function; random ones of ``seed`` if None. Waits for flash are
    estimated for all boards of the core, or for ``board``. ``core``: which core of rv32imc the cycles are of.
    Raises ToolMissing, EmulationFailed, and ValueError for a target without an emulated core.
    """
    _require_artifact(artifact)
    require("compiler", compiler)
    target = artifact.plan.options.target
    if target not in EMULATED:
        raise ValueError(f"there is no emulated core for {target}: compile with target= one of {', '.join(EMULATED)}")
    if core is not None and (core not in RISCV_CORES or target != "rv32imc"):
        raise ValueError(f"core must be one of {', '.join(RISCV_CORES)}, of target='rv32imc', not {core!r} of {target}")
    with in_python():
        return measure(
            artifact,
            random_feeds(artifact.plan, seed) if feeds is None else feeds,
            flags=(flags,) if isinstance(flags, str) else flags,
            compiler=compiler,
            boards=boards_of(target, board),
            table=None if core is None else RISCV_CORES[core],
        )


def weights(
    model: str | os.PathLike[str] | bytes | ModelProto,
    code: str | os.PathLike[str],
    *,
    dims: Mapping[str, int] | None = None,
    constants: Mapping[str, Array] | None = None,
    batch: int | None = None,
) -> Artifact:
    """A model compiled so that its ``block`` fits code of ``compile(weights=...)``, as ``qcgen weights``.

    ``code`` is the path of NAME_weights.json, the other parameters are those of ``compile``. Raises ModelRejected with
    what does not fit, ValueError if the file is another one.
    """
    with in_python():
        try:
            there = CodeInPlace(Path(code).read_text(encoding="utf-8"))
        except (WrongRecord, UnicodeDecodeError) as problem:
            raise ValueError(f"{code}: {problem}") from None
        source = Path(model).name if isinstance(model, str | os.PathLike) else "model.onnx"
        return there.block_of(read(model, dims, constants, there.options.outputs, batch), source)


def _require_artifact(artifact: object) -> None:
    if not isinstance(artifact, Artifact):
        raise TypeError(f"it takes what qcgen.compile returns, not {type(artifact).__name__}")
