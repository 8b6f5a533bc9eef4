"""Generated code, run on the host or on an emulated core, held against the reference and against recorded outputs."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from qcgen.artifact import Artifact
from qcgen.build import LoadedModel, build, build_command
from qcgen.emulate import Trial, cross_build, emulate
from qcgen.ir.plan import Port
from qcgen.ir.program import Conv, FloatActivation, Program
from qcgen.ir.types import Array, DType, Layout
from qcgen.plan.layout import boundary_layout
from qcgen.reference import evaluate_operator
from qcgen.reference.tolerance import RELATIVE, tolerance
from qcgen.verify.compare import Difference, Outcome, add
from qcgen.verify.inputs import Case, Reached, end_cases, generated_cases
from qcgen.verify.recordings import RecordingError, recorded_cases

__all__ = ["Difference", "Outcome", "RecordingError", "Verification", "verify"]


@dataclass(frozen=True)
class Verification:
    """What was compared, by which ``criterion``, of code built with ``command``, and what came of it.

    ``outcomes`` one for each group of cases; ``reached`` the channels driven to both ends of their accumulator;
    ``core`` the emulated core that the code ran on, None if it ran on this machine.
    """

    criterion: str
    command: tuple[str, ...]
    outcomes: tuple[Outcome, ...]
    reached: Reached
    core: str | None = None

    @property
    def cases(self) -> int:
        """The number of inputs tried."""
        return sum(outcome.cases for outcome in self.outcomes)

    @property
    def outputs(self) -> int:
        """The number of outputs compared."""
        return sum(outcome.outputs for outcome in self.outcomes)

    @property
    def differing(self) -> int:
        """The number of outputs that differ from what they must be."""
        return sum(outcome.differing for outcome in self.outcomes)

    @property
    def first(self) -> Difference | None:
        """The first difference, None if there is none."""
        return next((outcome.first for outcome in self.outcomes if outcome.first), None)


def verify(
    artifact: Artifact,
    *,
    seed: int = 0,
    cases: int = 10,
    data: Path | None = None,
    flags: Sequence[str] = ("-O2",),
    emulated: bool = False,
    compiler: str = "gcc",
) -> Verification:
    """Builds the code and compares it on ``cases`` random inputs, extremes, and recordings in ``data``.

    It runs on this machine or, if ``emulated``, on its target's emulated core, built with ``compiler``, gcc or clang.
    Raises ToolMissing without a C compiler or if it fails, RecordingError for recordings that do not fit the model,
    EmulationFailed if the code does not come to its end on the core.
    """
    recorded = [] if data is None else recorded_cases(data, artifact.program)
    driven, reached = end_cases(artifact.program)
    every = [*generated_cases(artifact.program, seed, cases), *driven, *recorded]
    feeds = [_boundary_feeds(artifact, case) for case in every]
    with tempfile.TemporaryDirectory(prefix="qcgen-") as folder:
        if emulated:
            command, results = _run_on_core(artifact, feeds, flags, Path(folder), compiler)
        else:
            command, results = _run_here(artifact, feeds, flags, Path(folder))
    outcomes: dict[str, Outcome] = {}
    for case, result in zip(every, results, strict=True):
        expected, tolerances = _judgement(artifact.program, case)
        got = _model_outputs(artifact, result)
        outcomes[case.group] = add(outcomes.get(case.group, Outcome(case.group)), expected, got, tolerances)
    core = artifact.plan.options.target if emulated else None
    return Verification(_criterion(artifact.program), command, tuple(outcomes.values()), reached, core)


Results = list[Mapping[str, Array]]
"""For each case its outputs by tensor name, in the shapes of the C function's boundary."""


def _run_here(
    artifact: Artifact, feeds: Sequence[Mapping[str, Array]], flags: Sequence[str], folder: Path
) -> tuple[tuple[str, ...], Results]:
    """The command that built the code for this machine, and what it gives."""
    loaded = LoadedModel(artifact.plan, build(artifact.files, flags, folder))
    names = [port.tensor.name for port in artifact.plan.outputs]
    results: Results = [dict(zip(names, loaded.run(names, each), strict=True)) for each in feeds]
    return tuple(build_command(artifact.files, flags)), results


def _run_on_core(
    artifact: Artifact, feeds: Sequence[Mapping[str, Array]], flags: Sequence[str], folder: Path, compiler: str
) -> tuple[tuple[str, ...], Results]:
    """The same for the target's emulated core; buffers are aligned well and badly by turns."""
    image = cross_build(artifact.plan.options.target, [artifact], flags, folder, compiler)
    trials = [Trial(each, is_shifted=index % 2 == 1, garbage=index % 256) for index, each in enumerate(feeds)]
    return image.command, [outcome.outputs for outcome in emulate(image, trials)]


def _boundary_feeds(artifact: Artifact, case: Case) -> Mapping[str, Array]:
    """The inputs of a case as the C function takes them."""
    layout = artifact.plan.options.layout
    return {port.tensor.name: _to_boundary(port, case.feeds[port.tensor.name], layout) for port in artifact.plan.inputs}


def _model_outputs(artifact: Artifact, outputs: Mapping[str, Array]) -> Mapping[str, Array]:
    """What the C function gave, in the model's own shapes."""
    layout = artifact.plan.options.layout
    return {port.tensor.name: _from_boundary(port, outputs[port.tensor.name], layout) for port in artifact.plan.outputs}


def _to_boundary(port: Port, array: Array, option: str) -> Array:
    """An array in the model's own shape as the C function takes it."""
    wanted = boundary_layout(port.tensor, option)
    if wanted is port.tensor.layout:
        return array
    return np.ascontiguousarray(
        np.moveaxis(array, 1, -1) if wanted is Layout.CHANNELS_LAST else np.moveaxis(array, -1, 1)
    )


def _from_boundary(port: Port, array: Array, option: str) -> Array:
    """An array that the C function gave in the model's own shape."""
    held = boundary_layout(port.tensor, option)
    if held is port.tensor.layout:
        return array
    return np.moveaxis(array, -1, 1) if held is Layout.CHANNELS_LAST else np.moveaxis(array, 1, -1)


def _judgement(program: Program, case: Case) -> tuple[dict[str, Array], dict[str, Array]]:
    """The outputs that are expected, and how far each may be missed."""
    values: dict[str, Array] = dict(case.feeds)
    allowed: dict[str, Array] = {}
    for op in program.operators:
        values[op.y.name] = evaluate_operator(op, values[op.x.name])
        allowed[op.y.name] = tolerance(op, values[op.x.name], values[op.y.name])
    names = [tensor.name for tensor in program.outputs]
    if case.expected is None:
        return {name: values[name] for name in names}, allowed
    # Recorded float outputs have rounding errors of their own.
    return {name: case.expected[name] for name in names}, {name: 2 * allowed[name] for name in names}


def _criterion(program: Program) -> str:
    if all(tensor.dtype is not DType.FLOAT32 for tensor in program.outputs):
        return "every output equals the reference, bit for bit"
    epilogues = [op.epilogue for op in program.operators if isinstance(op, Conv)]
    is_plain = all(not isinstance(epilogue, FloatActivation) or not epilogue.kind for epilogue in epilogues)
    terms = "sum |x| |w| + |bias|" if is_plain else "slope of the activation * (sum |x| |w| + |bias|)"
    relative = np.format_float_scientific(RELATIVE, trim="-", exp_digits=1)
    bound = f"|y - reference| <= {relative} * max({terms}, |reference|)"
    return f"{bound}, the reference in float64; twice that for recorded outputs"
