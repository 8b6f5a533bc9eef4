"""Generated code, run on the host or on an emulated core, held against the reference and against recorded outputs."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from qcgen.artifact import Artifact
from qcgen.errors import OrionPanic
from qcgen.ir.program import Conv, FloatActivation, Program
from qcgen.ir.types import Array
from qcgen.progress import report_progress
from qcgen.reference import evaluate_all
from qcgen.reference.tolerance import NETWORK, RELATIVE, exact, tolerances
from qcgen.verification.cases import (
    Case,
    Reached,
    RecordingError,
    border_cases,
    end_cases,
    generated_cases,
    recorded_cases,
)
from qcgen.verification.compare import (
    Cause,
    Compared,
    Difference,
    Outcome,
    Probe,
    add,
    add_returned,
    followed,
    leaves_a_choice,
    locate,
    reference_text,
)
from qcgen.verification.judge import AUTOMATIC, Judgement, judge_of
from qcgen.verification.nodes import Nodes, WrongValue
from qcgen.verification.running import Builder, Running, not_run, usual_flags
from qcgen.verification.steps import DrivenSteps, NodeSteps, drive_steps
from qcgen.verification.sums import LayerSums, MeasuredSums, measure

__all__ = [
    "Cause",
    "Difference",
    "DrivenSteps",
    "Judgement",
    "LayerSums",
    "MeasuredSums",
    "NodeSteps",
    "Outcome",
    "RecordingError",
    "Verification",
    "WrongValue",
    "verify",
]


@dataclass(frozen=True, repr=False)
class Verification(Compared):
    """What was compared with which ``reference``, by which ``criterion``, and what came of it.

    ``command`` built the code; ``outcomes`` one for each group of cases; ``reached`` the channels driven to both ends
    of their accumulator; ``cause`` of the first difference, None if there is none; ``is_network``: there are several
    operators; ``judge`` is what the model file gives on the same inputs. ``core`` the emulated core that the code ran
    on, None if it ran on this machine; ``sums`` what was measured of the layers' sums, and ``steps`` what was found
    beside the steps of other nodes, None if nobody asked. ``unrun`` says which instructions of the code were not run,
    "" if all were.
    """

    criterion: str
    reference: str
    command: tuple[str, ...]
    outcomes: tuple[Outcome, ...]
    reached: Reached
    cause: Cause | None
    is_network: bool
    judge: Judgement
    core: str | None = None
    sums: MeasuredSums | None = None
    steps: DrivenSteps | None = None
    unrun: str = ""

    def __repr__(self) -> str:
        verdict = "right" if self.is_right else "WRONG"
        what = f"{self.differing} of {self.outputs} outputs differ in {self.cases} cases"
        return f"<qcgen.Verification on {self.core or 'this machine'}: {verdict}; {what}>"

    @property
    def is_right(self) -> bool:
        """Whether nothing that was looked at is wrong."""
        is_wrong = any(each and each.wrong for each in (self.sums, self.steps))
        return not (self.differing or self.judge.differing or is_wrong)


def verify(
    artifact: Artifact,
    *,
    seed: int = 0,
    cases: int = 10,
    data: Path | None = None,
    flags: Sequence[str] | None = None,
    emulated: bool = False,
    compiler: str = "gcc",
    sums: bool = True,
    oracle: str = AUTOMATIC,
) -> Verification:
    """Builds the code and compares it on ``cases`` random inputs, extremes, and recordings in ``data``.

    ``oracle`` runs the model file on the same inputs: "onnxruntime", "onnx" (its reference evaluator), "tflm" (of
    .tflite files), "own" (none but qcgen's reference, with which the code is compared in any case), or "auto", the
    first of these that can judge.

    With ``sums``, every coefficient of every layer's integer sums is measured besides, and every other output step is
    driven to both sides of the steps of its codes, in nodes called by themselves.
    ``flags`` are those of the C compiler: -O2, for --target host -O3 and this machine's own instructions, if None.
    The code runs on this machine or, if ``emulated``, on its target's emulated core, built with ``compiler``, gcc or
    clang. Raises ToolMissing without a C compiler, if it fails, or without the judge asked for, RecordingError
    for recordings that do not fit the model, EmulationFailed if the code does not come to its end on the core.
    """
    options = artifact.plan.options
    flags = usual_flags(options.target, emulated) if flags is None else flags
    recorded = [] if data is None else recorded_cases(data, artifact.program)
    driven, reached = end_cases(artifact.program)
    generated = [*generated_cases(artifact.program, seed, cases), *driven]
    border = border_cases(artifact.program, generated) if artifact.plan.can_panic else ()
    every = [*generated, *border, *recorded]
    emulated_core = options.target if emulated else None
    outcomes: dict[str, Outcome] = {}
    cause = None
    with tempfile.TemporaryDirectory(prefix="qcgen-") as folder:
        builder, places = Builder(flags, emulated_core, compiler), Path(folder)
        code, probe = Running(artifact, builder, places / "code"), Probe(artifact, builder, places / "probe")
        nodes = Nodes(artifact, builder, places / "nodes")
        report_progress("building and running the code")
        results = code.run([case.feeds for case in every])
        judge = judge_of(artifact, oracle, [case.feeds for case in every])
        for case, got in zip(every, results, strict=True):
            report_progress(f"comparing with the reference: {case.group}")
            before = outcomes.get(case.group, Outcome(case.group))
            after, values = _compared(before, artifact.program, case, got, probe)
            outcomes[case.group] = after
            if got is not None and values is not None:
                judge.hear(case.group, before.cases, case.feeds, got, values)
            if cause is None and after.differing:
                cause = locate(artifact, case, before.cases, got, probe, nodes)
        measured = measure(nodes, Nodes(artifact, builder, places / "words", shows_words=True), seed) if sums else None
        steps = drive_steps(nodes, seed) if sums else None
    criterion, is_network = _criterion(artifact.program), len(artifact.program.operators) > 1
    groups = tuple(outcomes.values())
    reference = reference_text(artifact.program, options.numerics)
    found = (criterion, reference, code.command, groups, reached, cause, is_network, judge.judgement, emulated_core)
    return Verification(*found, measured, steps, not_run(artifact.plan, builder))


def _compared(
    before: Outcome, program: Program, case: Case, got: Mapping[str, Array] | None, probe: Probe
) -> tuple[Outcome, Mapping[str, Array] | None]:
    """The outcome with one more case, judged by the reference or by what was recorded; and the reference's tensors.

    Where Orion panics there are no outputs, and none can have been recorded.
    """
    try:
        values = evaluate_all(program, case.feeds)
    except OrionPanic:
        return add_returned(before, int(case.expected is None), int(got is None)), None
    if got is None:
        return add_returned(before, 0, 1), None
    after = _against(before, program, values, got)
    if after.differing > before.differing and leaves_a_choice(program):
        values = followed(program, case.feeds, probe.computed(case.feeds))
        after = _against(before, program, values, got)
    if case.expected is not None:
        # Recorded float outputs have rounding errors of their own.
        allowed = {name: 2 * bound for name, bound in tolerances(program, values, is_alike=False).items()}
        after = add(before, case.expected, got, allowed)
    return after, values


def _against(before: Outcome, program: Program, values: Mapping[str, Array], got: Mapping[str, Array]) -> Outcome:
    """The outcome with one more case, where the reference's tensors are ``values``."""
    return add(
        before, {tensor.name: values[tensor.name] for tensor in program.outputs}, got, tolerances(program, values)
    )


def _criterion(program: Program) -> str:
    choice = "; where numbers computed in float32 are quantized, either code next to a tie is right"
    also = choice if leaves_a_choice(program) else ""
    if exact(program).issuperset(tensor.name for tensor in program.outputs):
        return f"every output equals the reference, bit for bit{also}"
    if len(program.operators) > 1 or not isinstance(program.operators[0], Conv):
        bound = f"{_text(NETWORK)} * max(1, |reference|, |terms of a sum|)"
        return f"|y - reference| <= {bound} for outputs that are computed in float32; all others bit for bit{also}"
    epilogue = program.operators[0].epilogue
    is_plain = not isinstance(epilogue, FloatActivation) or not epilogue.kind
    terms = "sum |x| |w| + |bias|" if is_plain else "slope of the activation * (sum |x| |w| + |bias|)"
    bound = f"|y - reference| <= {_text(RELATIVE)} * max({terms}, |reference|)"
    return f"{bound}, the reference in float64; twice that for recorded outputs"


def _text(bound: float) -> str:
    return np.format_float_scientific(bound, trim="-", exp_digits=1)
