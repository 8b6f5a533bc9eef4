"""The head of a generated file: what it was made from, what each node became, what is proved of it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from qcgen.ir.plan import Call, Plan, SharedFunction
from qcgen.ir.program import (
    AveragePool,
    ChannelLookup,
    Conv,
    Dequantize,
    DivideAway,
    FloatOutput,
    GlobalAveragePool,
    InstanceNorm,
    IntegerBinary,
    IntegerLogSoftmax,
    IntegerLstm,
    IntegerSoftmax,
    IntegerUnary,
    Interpolate,
    LayerNorm,
    Lookup,
    Operator,
    OrionConv,
    QuantizedBinary,
    Reduce,
    RoundOnce,
    RoundTwice,
    Softmax,
    WideSoftmax,
    macs_of,
    run_time_scales,
)
from qcgen.kernels.pooling import PoolContext
from qcgen.kernels.portable.orion import OrionConvContext
from qcgen.kernels.portable.rows import RowsCall
from qcgen.render.c_text import WIDTH, one_line, thousands


def summary(plan: Plan) -> list[str]:
    """The table of nodes in the head of the file.

    Where names are so long that lines would be folded, it has no operators, which each function tells, and names last.
    """
    lines = [("no.", "node", "operator", "kernel", "multiply-adds", "constants", "scratch")]
    for number, call in enumerate(plan.calls):
        sizes = (
            thousands(macs_of(call.op)),
            f"{thousands(call.constant_bytes)} B",
            f"{thousands(call.scratch_bytes)} B",
        )
        lines.append((str(number), one_line(call.op.name), call.op.op_type, call.kernel, *sizes))
    wide = _aligned(lines)
    if max(map(len, wide)) <= WIDTH - len(" * "):
        return wide
    return _aligned([(number, kernel, *sizes, node) for number, node, _, kernel, *sizes in lines])


def _aligned(lines: Sequence[tuple[str, ...]]) -> list[str]:
    """Columns under their titles, those of numbers to the right."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return [
        "  ".join(
            cell.ljust(width) if title in ("node", "operator", "kernel") else cell.rjust(width)
            for title, cell, width in zip(lines[0], line, widths, strict=True)
        ).rstrip()
        for line in lines
    ]


def memory(plan: Plan) -> list[str]:
    """How the arena is used, for networks: its size, and where it lies between what is needed and what is wasted."""
    if len(plan.calls) < 2:
        return []
    bound = plan.arena_lower_bound
    fit = "no placement of them needs less"
    if bound < plan.arena_bytes:
        fit += f" than {thousands(bound)} B"
    moves = [
        f"moved    {one_line(move.tensor.name)}, {thousands(move.bytes)} B, {thousands(abs(move.by))} bytes "
        f"{'up' if move.is_up else 'down'} after it was computed, so that less is needed"
        for move in plan.moves
    ]
    arena = f"arena    {thousands(plan.arena_bytes)} B for tensors between nodes and for scratch"
    arena += f"; {fit}" if plan.slow is None else ""
    return [
        arena,
        *_slow(plan),
        *_state(plan),
        *moves,
        *(line for function in plan.shared for line in _shared(function)),
        *_dynamic(plan),
    ]


def _slow(plan: Plan) -> list[str]:
    """What lies in the slow memory of an arena in two."""
    if plan.slow is None:
        return []
    there = dict.fromkeys(one_line(each.name) or "scratch" for each in plan.buffers if each.is_slow)
    text = f"{thousands(plan.slow.bytes)} B in the slow memory: {', '.join(there)}"
    return _labelled("slow", f"{text}; the arena serves about {100 * plan.fast_share:.0f} % of all accesses")


def _state(plan: Plan) -> list[str]:
    """What stays from call to call."""
    if not plan.states:
        return []
    names = ", ".join(one_line(state.before.tensor.name) for state in plan.states)
    text = f"{thousands(sum(state.before.bytes for state in plan.states))} B that stay from call to call: {names}"
    moved = [f"{one_line(move.tensor.name)}, {thousands(move.bytes)} B" for move in plan.state_moves]
    return _labelled("state", f"{text}; moved there at the end: {', '.join(moved)}" if moved else text)


def _shared(function: SharedFunction) -> list[str]:
    """Which layers run through a function."""
    return _labelled("shared", f"{function.symbol} computes {', '.join(map(one_line, function.nodes))}")


def _dynamic(plan: Plan) -> list[str]:
    """What is known at run time only."""
    text = run_time_scales([call.op for call in plan.calls])
    return [] if text is None else _labelled("dynamic", text)


def _labelled(label: str, text: str) -> list[str]:
    lines = textwrap.wrap(text, WIDTH - 12, break_long_words=False, break_on_hyphens=False)
    return [f"{label if line is lines[0] else '':8} {line}" for line in lines]


PAIR_FORMS = {
    "line": "an affine form in integers",
    "split line": "an affine form in integers in two parts",
    "even window": "an affine form in integers, and the even code next to a step",
    "split even window": "an affine form in integers in two parts, and the even code next to a step",
    "exceptions": "an affine form in integers, and a table of the pairs that are not on it",
    "table": "a table of all pairs",
}
"""How the output of two codes is found, by the form in the certificate."""

MEAN_FORMS = {
    "line": "an affine form in integers over the sum of a window's codes",
    "guard band": "an affine form in integers over the sum of a window's codes, and float32 arithmetic next to a step",
    "soft-float": "the float32 operations of onnxruntime, tap by tap, in integers",
}
"""How the mean of a window is found, by the form in the certificate."""


@dataclass(frozen=True)
class Proof:
    """What is proved of a node: each sentence with its label, in lines."""

    node: str
    sentences: tuple[tuple[str, tuple[str, ...]], ...]


def certificate(call: Call, *, is_float_there: bool) -> Proof:
    """What is proved of a node, in sentences, and whether onnxruntime computes it in float."""
    sentences = [*_sums(call), *_outputs(call), *_overlap(call)]
    if is_float_there:
        text = "computes this node in float: next to a tie its code may be one more or less than the formula's"
        sentences.append(("onnxruntime", text))
    if isinstance(call.op, Dequantize) and call.op.in_float:
        sentences.append(("onnxruntime", "adds this node's products up in float: its last bits may be others"))
    wrapped = ((label, textwrap.wrap(text, WIDTH - 19, break_long_words=False)) for label, text in sentences)
    return Proof(one_line(call.op.name), tuple((label, tuple(lines)) for label, lines in wrapped))


def _overlap(call: Call) -> Iterator[tuple[str, str]]:
    """Why the output may lie over the input."""
    if call.overlap is not None:
        text = f"the output begins {overlap_place(call.overlap.distance)} and lies over it: each byte is read before"
        yield "memory", f"{text} it is written (in the kernel's order of {thousands(call.overlap.units)} steps)"


def overlap_place(distance: int) -> str:
    """Where an output begins that lies over the input."""
    if distance == 0:
        return "where the input does"
    return f"{thousands(abs(distance))} bytes {'before the input' if distance > 0 else 'behind the start of the input'}"


def _sums(call: Call) -> Iterator[tuple[str, str]]:
    """What is proved of the sums that a node takes."""
    if call.certificate.accumulator is None:
        return
    low, high = call.certificate.accumulator
    if call.returns_status:
        yield "accumulator", f"within [{low}, {high}], or the function returns 1: no sum overflows on the way"
    elif call.certificate.wraps:
        yield "accumulator", f"some input exceeds int32: sums wrap modulo 2^32, {_wrapping(call.op)}"
    else:
        label = "sum" if isinstance(call.op, AveragePool | GlobalAveragePool) else "accumulator"
        holds = "int32" if low >= -(2**31) and high < 2**31 else "int64"
        yield label, f"within [{low}, {high}] for every input: {holds} cannot overflow"


def _wrapping(op: Operator) -> str:
    if isinstance(op, Conv) and isinstance(op.epilogue, RoundTwice):
        return "while C++ has no result for TensorFlow Lite Micro's"
    return "as onnxruntime's do"


def _outputs(call: Call) -> Iterator[tuple[str, str]]:
    """Why a node's outputs are right; nothing is claimed where nothing was compared."""
    forms = call.certificate.requantize
    points = thousands(call.certificate.comparisons)
    match call.op:
        case Softmax():
            yield (
                "output",
                "the float32 sum of onnxruntime, one addition after the other, and exact quotients, in integers",
            )
        case IntegerSoftmax() | IntegerLogSoftmax():
            yield "output", "the fixed point of TensorFlow Lite, its exponentials from a table"
        case IntegerUnary() | IntegerLstm() | WideSoftmax():
            yield "output", "the integers of TensorFlow Lite, one rounding after the other"
        case Interpolate():
            whose = "onnxruntime" if call.op.truncates else "TensorFlow Lite"
            yield "output", f"the fixed point of {whose}, weights in units of 1 / 1024"
        case LayerNorm() if isinstance(call.context, RowsCall) and call.context.line:
            text = "fixed point, and next to a step of the codes the float32 operations of onnxruntime, in their order,"
            yield "output", f"{text} in integers"
        case LayerNorm() | InstanceNorm():
            how = "in integers" if call.op.x.dtype.is_quantized else "in float"
            yield "output", f"the float32 operations of onnxruntime, in their order, {how}"
        case Lookup(joined=(_, *_)):
            names = ", ".join(map(one_line, (*call.op.joined, call.op.name)))
            yield (
                "output",
                f"one table for {names}: all {len(call.op.table)} codes went through these nodes, one by one",
            )
        case FloatOutput(joined=(_, *_)):
            names = ", ".join(map(one_line, (*call.op.joined, call.op.name)))
            yield "output", f"one loop for {names}: the float32 operations of onnxruntime, one after the other"
        case ChannelLookup() if forms:
            text = "an affine form in integers for each channel: equal to the table made by onnxruntime's formulas"
            yield "output", f"{text} for all {points} codes"
        case QuantizedBinary() if forms and call.certificate.comparisons:
            how = PAIR_FORMS[next(iter(forms))]
            yield "output", f"{how}: equal to {_oracle(call.op)} for all {points} pairs of codes that can occur"
        case AveragePool() if forms and not call.certificate.comparisons:
            yield "output", MEAN_FORMS[next(iter(forms))]
        case AveragePool() if forms:
            text = (
                f"{MEAN_FORMS[next(iter(forms))]}: equal to {ORACLE} for every window (compared for all {points} sums)"
            )
            text += "; at the border as float32 arithmetic in integers" if _has_border(call) else ""
            yield "output", text
        case GlobalAveragePool() if forms and call.certificate.comparisons:
            yield "requantize", f"{next(iter(forms))}: {_equal(_oracle(call.op), 'sum', points)}"
        case Conv(epilogue=RoundOnce(is_up=True)):
            text = "sum times scale, a whole product in int64, rounded once, halves up, as TensorFlow Lite does"
            yield "requantize", text
        case Conv(epilogue=RoundOnce()) | GlobalAveragePool(requantize=RoundOnce()):
            text = (
                "sum times scale, a whole product in int64, rounded once, half to even; onnxruntime computes in float32"
            )
            yield "requantize", text
        case QuantizedBinary(by=IntegerBinary()) if not forms:
            yield "output", "the integers of TensorFlow Lite, one rounding after the other"
        case QuantizedBinary(is_wide=True):
            yield "output", "the float32 operations of onnxruntime, one after the other"
        case _ if forms and call.certificate.comparisons:
            total = sum(forms.values())
            counts = ", ".join(f"{form} {count} of {total}" for form, count in forms.items())
            oracle = _oracle(call.op)
            yield "requantize", f"{counts} channels: {_equal(oracle, 'accumulator', points)}"
            yield from _panics(call)


def _oracle(op: Operator) -> str:
    """Whose arithmetic the codes of sums are equal to."""
    match op:
        case OrionConv():
            return "Orion's fixed-point arithmetic"
        case Conv(epilogue=RoundTwice()) | GlobalAveragePool(requantize=RoundTwice()) | Reduce(requantize=RoundTwice()):
            return "TensorFlow Lite's two roundings"
        case Conv(epilogue=DivideAway()) | GlobalAveragePool(requantize=DivideAway()):
            return "TensorFlow Lite's rounded division"
        case QuantizedBinary(by=IntegerBinary()):
            return "TensorFlow Lite's integers"
        case _:
            return ORACLE


def _panics(call: Call) -> Iterator[tuple[str, str]]:
    """What a convolution in Orion's arithmetic tests at run time."""
    if isinstance(call.context, OrionConvContext) and call.context.panics is not None:
        text = "and returns 1 where one leaves 32 bits, as Orion panics there; no other number can leave them"
        yield "tests", f"{call.context.panics.tested}; {text}"


def _has_border(call: Call) -> bool:
    """Whether some window of an average pooling reaches beyond the image."""
    assert isinstance(call.context, PoolContext)
    return bool(call.context.any)


ORACLE = "onnxruntime's float32 arithmetic"


def _equal(oracle: str, argument: str, points: str) -> str:
    return f"equal to {oracle} for every reachable {argument} (compared at {points} points: both sides of every step)"
