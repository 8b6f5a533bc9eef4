"""A firmware on a board, held against the reference: outputs, and a hash of what each node wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from qcgen.artifact import Artifact
from qcgen.errors import BoardFailed, OrionPanic
from qcgen.ir.plan import Plan
from qcgen.ir.types import Array
from qcgen.progress import report_progress
from qcgen.reference import evaluate_all
from qcgen.reference.tolerance import tolerances
from qcgen.render import header_id
from qcgen.self_test import same_everywhere, self_test
from qcgen.verification.compare import Compared, Outcome, add, add_returned, leaves_a_choice, reference_text
from qcgen.verification.firmware import Firmware, Identity
from qcgen.verification.inputs import Case, generated_cases
from qcgen.verification.judge import AUTOMATIC, Judge, Judgement, judge_of
from qcgen.verification.link import Link
from qcgen.verification.recordings import recorded_cases
from qcgen.version import __version__


@dataclass(frozen=True)
class WrongNode:
    """The first node whose tables or output on the board are not the reference's, with which input."""

    node: str
    operator: str
    group: str
    case: int


@dataclass(frozen=True)
class NodeTime:
    """How long a node took, in ticks of the board's clock."""

    node: str
    ticks: int


@dataclass(frozen=True)
class BoardVerification(Compared):
    """What a board computed, compared with ``reference``: ``outcomes`` one for each group of inputs.

    ``judge`` is what the model file gives on the same inputs.

    ``wrong`` is the first node that differs, of the first input for which one does; ``times`` are of the first input.
    ``hashed`` of the nodes have their output compared, all of them their tables. ``skipped`` are outputs that depend on
    how float32 numbers were rounded before they were quantized: either code is right, so they are not compared.
    """

    reference: str
    judge: Judgement
    outcomes: tuple[Outcome, ...]
    wrong: WrongNode | None
    times: tuple[NodeTime, ...]
    hashed: int
    skipped: tuple[str, ...]

    @property
    def is_right(self) -> bool:
        """Whether every output and every hash is the reference's, and every output the judge's."""
        return self.wrong is None and not self.differing and not self.judge.differing


def require_same(link: Link, model: str, sha256: str, identities: Sequence[Identity]) -> list[Identity]:
    """The networks of the firmware that were made of the model by this qcgen; BoardFailed if there is none."""
    of_model = [each for each in identities if each.sha256 == sha256]
    if not of_model:
        held = ", ".join(f"{each.name} (sha256 {each.sha256[:12]}...)" for each in identities)
        raise BoardFailed(f"{link.name}: its firmware holds {held}, not {model} (sha256 {sha256[:12]}...)")
    same = [each for each in of_model if each.version == __version__]
    if not same:
        made = f"qcgen {of_model[0].version} made its firmware, this is {__version__}"
        raise BoardFailed(f"{link.name}: {made}: make it anew with qcgen example")
    return same


def made_otherwise(link: Link, identity: Identity, model: str) -> BoardFailed:
    """What to say of a network whose files are not those that this qcgen makes of a file called ``model``."""
    how = f"{identity.options}, from a file called {model}"
    return BoardFailed(f"{link.name}: its firmware is not what this qcgen makes with {how}: make it anew")


def verify_on_board(
    link: Link,
    identity: Identity,
    artifact: Artifact,
    *,
    seed: int = 0,
    cases: int = 10,
    data: Path | None = None,
    patience: float = 60.0,
    oracle: str = AUTOMATIC,
) -> BoardVerification:
    """Sends random inputs, extremes and recordings to the board, and compares what it gives with the reference.

    ``oracle`` runs the model file on the same inputs, as in ``qcgen.verification.verify``.

    ``artifact``, which has a self-test, is what the firmware must have been made of: BoardFailed if it was not, if the
    board is silent or takes more than ``patience`` seconds for a run; RecordingError for recordings that do not fit.
    """
    if identity.id != header_id(artifact.plan, artifact.files):
        raise made_otherwise(link, identity, artifact.plan.model)
    recorded = [] if data is None else recorded_cases(data, artifact.program)
    every = [*generated_cases(artifact.program, seed, cases), *recorded]
    firmware = Firmware(link, identity.index, artifact.plan, patience)
    judge = judge_of(artifact, oracle, [case.feeds for case in every])
    return _verified(artifact, firmware, every, judge)


def _verified(artifact: Artifact, firmware: Firmware, cases: Sequence[Case], judge: Judge) -> BoardVerification:
    plan, compared = artifact.plan, _compared_outputs(artifact)
    outcomes: dict[str, Outcome] = {}
    wrong: WrongNode | None = None
    hashed = 0
    report_progress("the board runs for times")
    timed = firmware.run(cases[0].feeds, with_hashes=False)
    for number, case in enumerate(cases, start=1):
        report_progress(f"the board runs input {number} of {len(cases)}")
        got = firmware.run(case.feeds, with_hashes=True)
        before = outcomes.get(case.group, Outcome(case.group))
        try:
            test = self_test(artifact.planned, plan, case.feeds)
        except OrionPanic:
            outcomes[case.group] = add_returned(before, int(case.expected is None), got.status)
            continue
        if got.status:
            outcomes[case.group] = add_returned(before, 0, got.status)
            continue
        values = evaluate_all(artifact.program, case.feeds)
        outcomes[case.group] = _added(before, artifact, case, got.outputs, values, compared)
        judge.hear(case.group, before.cases, case.feeds, {name: got.outputs[name] for name in compared}, values)
        wrong = wrong or _wrong_node(plan, case.group, before.cases, test.hashes, got.hashes)
        hashed = len(test.written)
    times = tuple(NodeTime(call.op.name, ticks) for call, ticks in zip(plan.calls, timed.ticks, strict=True))
    skipped = tuple(tensor.name for tensor in artifact.program.outputs if tensor.name not in compared)
    reference = reference_text(artifact.program, plan.options.numerics)
    return BoardVerification(reference, judge.judgement, tuple(outcomes.values()), wrong, times, hashed, skipped)


def _compared_outputs(artifact: Artifact) -> list[str]:
    """The outputs that have one right value, or one within a tolerance."""
    program = artifact.program
    known = same_everywhere(program)
    return [each.name for each in program.outputs if each.name in known or not leaves_a_choice(program)]


def _added(
    before: Outcome,
    artifact: Artifact,
    case: Case,
    got: Mapping[str, Array],
    values: Mapping[str, Array],
    compared: Sequence[str],
) -> Outcome:
    allowed = tolerances(artifact.program, values, is_alike=case.expected is None)
    # Recorded float outputs have rounding errors of their own.
    factor, right = (1, values) if case.expected is None else (2, case.expected)
    return add(before, {name: right[name] for name in compared}, got, {n: factor * allowed[n] for n in compared})


def _wrong_node(plan: Plan, group: str, case: int, expected: Sequence[int], hashes: Sequence[int]) -> WrongNode | None:
    """The first node with another hash than the reference's."""
    for call, right, got in zip(plan.calls, expected, hashes, strict=True):
        if got != right:
            return WrongNode(call.op.name, call.op.op_type, group, case)
    return None
