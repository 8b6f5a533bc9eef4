"""What of a network is slower or larger than it need be: layers in float, portable kernels, elements that only move.

And what is refused of it: layers in float, and those that take more instructions for some inputs than for others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from qcgen.chips import Chip, Fit, fit
from qcgen.cores import TARGETS, Target
from qcgen.errors import ModelRejected, Problem
from qcgen.estimate import code_bytes
from qcgen.ir.plan import Call, Plan
from qcgen.ir.program import (
    Conv,
    Convert,
    Dequantize,
    FloatUnary,
    Movement,
    Operator,
    Program,
    Quantize,
    Recurrent,
    Reshape,
    Transpose,
    inputs_of,
    macs_of,
    run_time_scales,
)
from qcgen.kernels.portable.rows import BY_DIVISION, RowsCall
from qcgen.options import spelt
from qcgen.plan.prices import cycles, cycles_of_moves
from qcgen.report import Fallback

BEHIND = "a QuantizeLinear is missing behind "

NAMED = 3
"""How many nodes a line names; the others are counted."""


@dataclass(frozen=True)
class Costs:
    """What each node takes, by its name: bytes of flash and cycles; ``flash`` and ``cycles`` are those of all.

    ``moves``: the cycles of tensors that are moved between two layers. ``is_measured``: else they are estimates.
    """

    by_node: Mapping[str, tuple[float, float]]
    flash: float
    cycles: float
    moves: float
    is_measured: bool = False


def is_float_layer(op: Operator) -> bool:
    """Whether an operator computes with floats; conversions from and to float are not meant."""
    return not isinstance(op, Quantize | Convert | Movement) and any(x.dtype.is_float for x in inputs_of(op))


def refuse_float(program: Program) -> None:
    """Raises ModelRejected with every operator that computes with floats."""
    missing = _missing(program)
    problems = [
        Problem(
            f"node {op.name!r} ({op.op_type})",
            f"it computes in float, which {spelt(strict=True)} refuses",
            missing.get(op.name) or "quantize this node, too, or leave it out of the model",
        )
        for op in program.operators
        if is_float_layer(op)
    ]
    if problems:
        raise ModelRejected(problems)


def fallbacks(program: Program, plan: Plan, costs: Costs | None = None) -> tuple[Fallback, ...]:
    """What a network's layers fall back to, with its share of the costs; nothing for what is a single node.

    ``program`` is the one that was planned; ``costs`` are estimated if none are given.
    """
    if plan.node is not None:
        return ()
    costs = costs or estimated(plan)
    found = (_in_float(program, plan, costs), _in_portable_kernels(plan, costs), _moving(plan, costs))
    return tuple(each for each in found if each is not None)


def estimated(plan: Plan) -> Costs:
    """Estimates without a compiler, those by which --flash chooses."""
    target = plan.options.target
    *own, rest = code_bytes(plan)
    nodes: dict[str, tuple[float, float]] = {}
    for call, code in zip(plan.calls, own, strict=True):
        nodes[call.op.name] = (call.constant_bytes + code, cycles(call, target))
    moves = cycles_of_moves((*plan.moves, *plan.state_moves))
    return Costs(
        nodes, rest + sum(flash for flash, _ in nodes.values()), moves + sum(each for _, each in nodes.values()), moves
    )


def on_chip(plan: Plan, chip: Chip, flash: int | None, ram: int) -> Fit:
    """What a network takes of a chip; ``flash`` is that of constants and code, None if the code was not measured."""
    costs = estimated(plan)
    return fit(chip, round(costs.flash) if flash is None else flash, ram, costs.cycles)


def _in_float(program: Program, plan: Plan, costs: Costs) -> Fallback | None:
    layers = [call.op for call in plan.calls if is_float_layer(call.op)]
    if not layers:
        return None
    weighted = [op for op in layers if macs_of(op) and not _multiplies_codes(op)]
    every = [call.op for call in plan.calls if macs_of(call.op)]
    names = dict.fromkeys(op.name for op in layers)
    if weighted:
        what = f"{len(weighted)} of {_counted(len(every), 'weight layer')} {_runs(weighted)} in float"
    else:
        what = f"{_counted(len(names), 'node')} {_runs(layers)} in float ({_names(names)})"
    if not any(isinstance(op, Quantize) for op in program.operators) and len(weighted) == len(every) > 0:
        advice = "the model is not quantized: qcgen quantize does it; docs/quantizing.md"
    elif weighted:
        missing = _missing(program)
        causes = dict.fromkeys(missing[op.name] for op in weighted if op.name in missing)
        advice = "; ".join([*_listed(causes), "docs/quantizing.md"])
    else:
        advice = run_time_scales([call.op for call in plan.calls]) or ""
    around = [call.op for call in plan.calls if _converts_inside(call.op, program)]
    return _fallback("float", what, [*layers, *around], costs, advice)


def _multiplies_codes(op: Operator) -> bool:
    """Whether its products are those of integers, whatever becomes of their sums."""
    return isinstance(op, Recurrent) and op.scale is not None


def _in_portable_kernels(plan: Plan, costs: Costs) -> Fallback | None:
    """Where the core has kernels of its own."""
    if not TARGETS[plan.options.target].is_small:
        return None
    calls = [call for call in plan.calls if _is_portable(call)]
    if not calls:
        return None
    kernels = ", ".join(dict.fromkeys(call.kernel.removeprefix("portable/") for call in calls))
    what = f"{len(calls)} of {_counted(len(plan.calls), 'node')} {_runs(calls)} through portable kernels ({kernels})"
    advice = "qcgen inspect tells why" if any(isinstance(call.op, Conv) for call in calls) else ""
    return _fallback("portable", what, [call.op for call in calls], costs, advice)


def _is_portable(call: Call) -> bool:
    """Whether it computes codes by a portable kernel; floats and movement have lines of their own."""
    is_float = any(tensor.dtype.is_float for tensor in (*inputs_of(call.op), call.op.y))
    return call.kernel.startswith("portable/") and not is_float and not isinstance(call.op, Movement)


def _moving(plan: Plan, costs: Costs) -> Fallback | None:
    ops = [call.op for call in plan.calls if isinstance(call.op, Movement)]
    tensors = len(plan.moves)
    parts = []
    if ops:
        verb = "moves" if len(ops) == 1 else "move"
        parts.append(f"{_counted(len(ops), 'node')} only {verb} elements ({_names(op.name for op in ops)})")
    if tensors:
        parts.append(f"{_counted(tensors, 'tensor')} {'is' if tensors == 1 else 'are'} moved to make room")
    return _fallback("moves", ", ".join(parts), ops, costs, "", costs.moves) if parts else None


def _fallback(
    kind: str, what: str, ops: Sequence[Operator], costs: Costs, advice: str, more_cycles: float = 0
) -> Fallback:
    """``more_cycles`` are those that belong to none of the operators.

    Flash that belongs to no node, such as functions of the library, is left out of both sides of its share.
    """
    names = tuple(dict.fromkeys(op.name for op in ops))
    own = [costs.by_node[name] for name in names if name in costs.by_node]
    of_nodes = sum(bytes_ for bytes_, _ in costs.by_node.values())
    flash = 100 * sum(bytes_ for bytes_, _ in own) / max(of_nodes, 1)
    time = 100 * (more_cycles + sum(each for _, each in own)) / max(costs.cycles, 1)
    return Fallback(kind, names, round(flash, 1), round(time, 1), costs.is_measured, what, advice)


def _missing(program: Program) -> dict[str, str]:
    """What is missing around each layer in float that has weights, by the layer's name; QuantizeLinear mostly."""
    makers = {op.y.name: op for op in program.operators}
    readers: dict[str, list[Operator]] = {}
    for op in program.operators:
        for x in inputs_of(op):
            readers.setdefault(x.name, []).append(op)
    outputs = {tensor.name for tensor in program.outputs}
    found: dict[str, str] = {}
    for op in program.operators:
        if not (is_float_layer(op) and macs_of(op)):
            continue
        places = [place for x in inputs_of(op) if (place := _behind(x.name, makers)) is not None]
        last, tensor = _last(op, readers)
        if tensor in outputs or not all(isinstance(reader, Quantize) for reader in readers.get(tensor, ())):
            places.append(last)
        where = ", ".join(dict.fromkeys(places))
        found[op.name] = f"{BEHIND}{where}" if where else f"the weights of {op.name} are not quantized"
    return found


def _behind(tensor: str, makers: Mapping[str, Operator]) -> str | None:
    """The node, or the input, that leaves a tensor in float; None if it is dequantized codes."""
    while (maker := makers.get(tensor)) is not None:
        if isinstance(maker, Dequantize):
            return None
        if not isinstance(maker, (Reshape, Transpose)):
            return maker.name
        tensor = maker.x.name
    return f"input {tensor}"


def _last(op: Operator, readers: Mapping[str, Sequence[Operator]]) -> tuple[str, str]:
    """The last of the functions that follow a layer and would be a part of it, and the tensor that leads to others."""
    name = op.name
    while True:
        after = readers.get(op.y.name, ())
        if len(after) != 1 or not isinstance(after[0], (FloatUnary, Reshape, Transpose)):
            return name, op.y.name
        op = after[0]
        name = op.name if isinstance(op, FloatUnary) else name


def _converts_inside(op: Operator, program: Program) -> bool:
    """Whether an operator converts from or to float, and not at the boundary of the network."""
    inputs, outputs = {tensor.name for tensor in program.inputs}, {tensor.name for tensor in program.outputs}
    match op:
        case Quantize():
            return op.x.name not in inputs
        case Dequantize():
            return op.y.name not in outputs
    return False


def _listed(causes: Iterable[str]) -> Iterator[str]:
    """The causes, those with the same beginning as one."""
    behind: list[str] = []
    for cause in causes:
        if cause.startswith(BEHIND):
            behind += cause.removeprefix(BEHIND).split(", ")
        else:
            yield cause
    if behind:
        yield BEHIND + _names(dict.fromkeys(behind))


def _names(names: Iterable[str]) -> str:
    every = list(names)
    more = f" and {len(every) - NAMED} more" if len(every) > NAMED else ""
    return ", ".join(every[:NAMED]) + more


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _runs(of: Sequence[object]) -> str:
    return "runs" if len(of) == 1 else "run"


# Code that takes as many instructions for every input.

SAME_STEPS = {
    "arm_dsp": "conv dense depthwise depthwise_direct depthwise_rows global_average_pool matmul pointwise"
    " quantized_binary short_window winograd winograd_in_ram",
    "scalar": "conv dense depthwise winograd",
    "portable": "conv copy depthwise_nchw depthwise_nhwc global_average_pool lookup matmul max_pool"
    " pointwise quantized_binary reduce softmax",
}
"""Kernels by family that take the same steps for every input with the feature; tests/test_constant_time.py counts."""

UNCOUNTED = {"rounded once", "integers"}
"""Forms of the output step, of 16-bit codes and of .tflite files, whose instructions no test counts."""

_KERNELS = {f"{family}/{name}" for family, names in SAME_STEPS.items() for name in names.split()}


def require_target(target: str) -> None:
    """Raises ModelRejected unless the core's code can take as many instructions for every input."""
    if not _is_able(TARGETS[target]):
        able = ", ".join(name for name, each in TARGETS.items() if _is_able(each))
        what = (
            f"{spelt(constant_time=True)} is not for {spelt(target=target)}, whose kernels or compilers choose by data"
        )
        raise ModelRejected([Problem("model", what, f"name one of {able}, or leave the option out")])


def refuse_varying(plan: Plan) -> None:
    """Raises ModelRejected with every operator that takes more instructions for some inputs than for others."""
    if problems := list(_varying(plan)):
        raise ModelRejected(problems)


def _varying(plan: Plan) -> Iterator[Problem]:
    for call in plan.calls:
        if call.kernel not in _KERNELS or _divides(call) or not UNCOUNTED.isdisjoint(call.certificate.requantize or ()):
            what = (
                f"{call.kernel} may take more instructions for some inputs, which {spelt(constant_time=True)} refuses"
            )
            advice = "leave the option out, or this node out of the model"
            if isinstance(call.op, Quantize | Dequantize):
                advice = f"{spelt(io='quantized')} leaves the conversion to the caller"
            yield Problem(f"node {call.op.name!r} ({call.op.op_type})", what, advice)


def _is_able(target: Target) -> bool:
    return target.chooses_without_branches or target.isa == "rv32m"


def _divides(call: Call) -> bool:
    """Whether a softmax divides bit by bit."""
    return isinstance(call.context, RowsCall) and call.context.row.startswith(BY_DIVISION)
