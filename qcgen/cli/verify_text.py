"""Verifications as text for people."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qcgen.cli.report_text import forms, forms_text
from qcgen.cli.terminal import columns, counted, number, table
from qcgen.errors import printable, shortened

if TYPE_CHECKING:
    from qcgen.report import NodeReport
    from qcgen.verification import Judgement, Outcome, Verification
    from qcgen.verification.on_board import BoardVerification, Identity


@dataclass(frozen=True)
class Verified:
    """A function that was verified: a whole model (``node`` is None), or one of its nodes."""

    model: str
    node: str | None
    reports: tuple[NodeReport, ...]
    verification: Verification


def title(node: str | None, nodes: Sequence[NodeReport]) -> str:
    """What a function is called: its node, or the number of its nodes if it is a network."""
    if node is None:
        return f"the whole network, {counted(len(nodes), 'node')}"
    width = columns()
    return printable(node) if width is None else shortened(printable(node), width // 2)


def line(subject: Verified, width: int) -> str:
    """One function in one line, titles padded to ``width``; further lines if outputs differ."""
    verification = subject.verification
    name = title(subject.node, subject.reports).ljust(width)
    text = f"  {name}  {differ(verification)}  ({counted(verification.cases, 'case')})"
    return (
        text
        + _first(verification, "\n    ")
        + _wrong_values(verification, "\n    ")
        + _overruled(verification, "\n    ")
    )


def detail(subject: Verified) -> str:
    """One function with its criterion, the compiler's command and every group of cases."""
    verification = subject.verification
    outcomes = [_outcome_row(outcome) for outcome in verification.outcomes]
    parts = [
        f"{printable(subject.model)}, {title(subject.node, subject.reports)}",
        f"criterion: {verification.criterion}",
        f"reference: the arithmetic of {verification.reference}",
        f"built with: {shlex.join(verification.command)}",
        *_core([verification]),
        *_unrun([verification]),
        table(("inputs", "cases", "result"), outcomes, right=("cases",)),
        *_reached([verification]),
        *_sums([verification]),
        *_steps([verification]),
        *judges([verification.judge]),
    ]
    text = "\n".join(parts) + _first(verification, "\n") + _wrong_values(verification, "\n")
    return text + _overruled(verification, "\n")


def _outcome_row(outcome: Outcome) -> tuple[str, str, str]:
    return outcome.group, number(outcome.cases), differ(outcome)


def differ(result: Outcome | Verification) -> str:
    """How many outputs differ, and in how many cases there are none."""
    panics = f"; Orion panics in {counted(result.panics, 'case')}" if result.panics else ""
    return f"{number(result.differing)} of {number(result.outputs)} outputs differ{panics}"


def _first(verification: Verification, before: str) -> str:
    """Where outputs differ first, and why: "" if none do."""
    first, cause = verification.first, verification.cause
    if first is None or cause is None:
        return ""
    text = f"{before}first difference: {printable(str(first))}{before}cause: {printable(cause.text)}"
    return text if cause.first is None else f"{text}: {printable(str(cause.first))}"


def _wrong_values(verification: Verification, before: str) -> str:
    """The first sum and the first code beside a step that are wrong: "" if none is."""
    sums, steps = verification.sums and verification.sums.wrong, verification.steps and verification.steps.wrong
    wrong = (("first wrong sum", sums), ("first wrong code", steps))
    return "".join(f"{before}{what}: {printable(str(value))}" for what, value in wrong if value)


def _overruled(verification: Verification, before: str) -> str:
    """Where the judge says something else first: "" if it does not."""
    judge = verification.judge
    if judge.first is None:
        return ""
    return f"{before}first difference from {judge.oracle}: {printable(str(judge.first))}"


def judges(judgements: Iterable[Judgement]) -> list[str]:
    """Who judged by the model file, by which criterion, and what came of it; and why others did not."""
    every = list(judgements)
    lines = [f"note: {note}" for note in dict.fromkeys(note for each in every for note in each.notes)]
    for name, criterion in dict.fromkeys((each.name, each.criterion) for each in every):
        alike = [each for each in every if (each.name, each.criterion) == (name, criterion)]
        outputs, differing, unjudged = (
            sum(getattr(each, what) for each in alike) for what in ("outputs", "differing", "unjudged")
        )
        lines.append(f"judge: {name}")
        if criterion:
            lines.append(f"judge: {number(differing)} of {number(outputs)} outputs differ; criterion: {criterion}")
        if unjudged:
            lines.append(f"judge: {counted(unjudged, 'case')} not judged: it gave no outputs")
    return lines


def totals(verified: Sequence[Verified]) -> str:
    """All outputs together, and the channels by requantization form."""
    results = [subject.verification for subject in verified]
    outputs = sum(result.outputs for result in results)
    differing = sum(result.differing for result in results)
    cases = sum(result.cases for result in results)
    nodes = [node for subject in verified for node in subject.reports]
    work = f"{counted(len(nodes), 'node')}, {counted(cases, 'case')}"
    lines = [] if len(results) == 1 else _common(results)
    lines.append(f"total: {number(differing)} of {number(outputs)} outputs differ ({work})")
    counts = forms(nodes)
    if counts:
        lines.append(f"requantization of {counted(sum(counts.values()), 'channel')}: {forms_text(counts)}")
    return "\n".join(lines)


PASS = "PASS"


def verdict(is_right: bool, judgements: Iterable[Judgement]) -> str:
    """The last word of a verification, which passes if this is PASS."""
    silent = next((each.oracle for each in judgements if each.is_silent), None)
    if not is_right or silent is None:
        return PASS if is_right else "FAIL"
    return f"NOT JUDGED: {silent} compared no output; they equal the reference"


def _common(results: Sequence[Verification]) -> list[str]:
    """What is the same for several functions: criteria, the first one's command, the ends reached by all together."""
    return [
        *(f"criterion: {criterion}" for criterion in dict.fromkeys(result.criterion for result in results)),
        *(f"reference: the arithmetic of {name}" for name in dict.fromkeys(result.reference for result in results)),
        f"built with: {shlex.join(results[0].command)}, and so on",
        *_core(results),
        *_unrun(results),
        *_reached(results),
        *_sums(results),
        *_steps(results),
        *judges(result.judge for result in results),
    ]


def _core(results: Sequence[Verification]) -> list[str]:
    """Where the code ran, if not on this machine."""
    return [f"run on: an emulated {core}" for core in dict.fromkeys(result.core for result in results) if core]


def _unrun(results: Sequence[Verification]) -> list[str]:
    """Which instructions did not run."""
    return [f"note: {unrun}" for unrun in dict.fromkeys(result.unrun for result in results) if unrun]


def _reached(results: Sequence[Verification]) -> list[str]:
    channels = sum(result.reached.channels for result in results)
    of = sum(result.reached.of for result in results)
    if not of:
        return []
    of_these = " of convolutions that read the input" if any(result.is_network for result in results) else ""
    return [f"both ends of the accumulator's interval reached: {number(channels)} of {number(of)} channels{of_these}"]


def _sums(results: Sequence[Verification]) -> list[str]:
    """What was measured of the sums of layers."""
    every = [result.sums for result in results if result.sums]
    if not any(sums.layers for sums in every):
        return []
    coefficients, of, starts, sides, sides_of = (
        sum(sums.total(what) for sums in every) for what in ("coefficients", "of", "starts", "sides", "sides_of")
    )
    layers = [layer for sums in every for layer in sums.layers]
    wrong = sum(layer.wrong is not None for layer in layers)
    lines = [
        f"sums of {counted(len(layers), 'layer')}: {number(wrong)} wrong; measured {number(coefficients)} of"
        f" {number(of)} coefficients and {number(starts)} starts, in every bit"
    ]
    if sides_of:
        lines.append(f"sums driven to {number(sides)} of {number(sides_of)} sides of the output codes' steps")
    return lines


def _steps(results: Sequence[Verification]) -> list[str]:
    """What was found beside the steps of nodes other than those layers."""
    every = [result.steps for result in results if result.steps and result.steps.nodes]
    if not every:
        return []
    nodes = [node for steps in every for node in steps.nodes]
    inputs, sides, sides_of = (sum(steps.total(what) for steps in every) for what in ("inputs", "sides", "sides_of"))
    wrong = sum(node.wrong is not None for node in nodes)
    text = f"steps of {counted(len(nodes), 'other node')}: {number(wrong)} wrong on {counted(inputs, 'input')}"
    return [f"{text}; driven to {number(sides)} of {number(sides_of)} sides" if sides_of else text]


# Verifications on a board.


@dataclass(frozen=True)
class OnBoard:
    """A model whose code ran on the board."""

    model: str
    identity: Identity
    verification: BoardVerification


def board_detail(port: str, subject: OnBoard) -> str:
    """A verification for people."""
    verification, nodes = subject.verification, len(subject.verification.times)
    rows = [(each.group, number(each.cases), differ(each)) for each in verification.outcomes]
    parts = [
        f"{printable(subject.model)} on the board at {printable(port)}, {counted(nodes, 'node')}",
        f"firmware: {printable(subject.identity.options)}",
        f"reference: the arithmetic of {verification.reference}",
        table(("inputs", "cases", "result"), rows, right=("cases",)),
        *_skipped(verification),
        _times(verification),
        *_differences(verification),
        *judges([verification.judge]),
        f"total: {number(verification.differing)} of {number(verification.outputs)} outputs differ"
        f" ({counted(verification.cases, 'case')})",
    ]
    return "\n".join(parts)


def _skipped(verification: BoardVerification) -> list[str]:
    if not verification.skipped:
        return []
    names = ", ".join(map(printable, verification.skipped))
    return [f"not compared, as either of two codes is right: {names}"]


def _times(verification: BoardVerification) -> str:
    total = sum(each.ticks for each in verification.times)
    rows = [
        (each.node, number(each.ticks), f"{each.ticks / total:.1%}" if total else "-") for each in verification.times
    ]
    rows.append(("all", number(total), ""))
    return table(("node", "ticks", "share"), rows, right=("ticks", "share"), names=("node",))


def _differences(verification: BoardVerification) -> list[str]:
    """What differs, the first node or output of each kind; or how many hashes were the reference's."""
    wrong, first, nodes = verification.wrong, verification.first, len(verification.times)
    found = []
    if first is not None:
        found.append(f"first difference: {printable(str(first))}")
    if wrong is not None:
        where = f"of {wrong.group} case {wrong.case}"
        found.append(f"first node that differs: {printable(wrong.node)} ({wrong.operator}), {where}")
    else:
        hashed = verification.hashed
        rest = "" if hashed == nodes else f"; of {counted(nodes - hashed, 'float node')} only the tables"
        found.append(f"hashes: none differs; compared are the tables and outputs of {counted(hashed, 'node')}{rest}")
    return found
