"""What tests a plan on a device: an input with hashes of what the nodes write, or inputs with their outputs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from qcgen.errors import OrionPanic
from qcgen.ir.plan import Call, Plan, Port, Stream, Table
from qcgen.ir.program import Convert, Dequantize, Movement, Operator, Program, Quantize, inputs_of
from qcgen.ir.self_test import ADDEND, BASIS, FACTOR, PRIME, SEED, SelfTest, SelfTestInput, Written
from qcgen.ir.types import Array, DType
from qcgen.plan.arrange import AS_COMPUTED, boundary_layout, steps_of, stored
from qcgen.plan.sharing import bytes_of
from qcgen.progress import report_progress
from qcgen.reference import evaluate_all, evaluate_frames
from qcgen.reference.tolerance import exact
from qcgen.render import filled, header_id
from qcgen.render.c_text import one_line
from qcgen.render.model import options_text
from qcgen.version import __version__

RANDOM_SCALE, RANDOM_ZERO_POINT = 1 / 32, 128
"""What makes floats from -4 to 4 of random bytes, for float inputs that nothing quantizes."""


SEEDS = 32
"""How many random inputs are tried for one on which Orion does not panic."""


def self_test(program: Program, plan: Plan, feeds: Mapping[str, Array] | None = None) -> SelfTest:
    """The test of ``plan``, made from ``program``, by inputs in the model's own shapes, or by random ones.

    Random numbers start from SEED, or from the first number behind it for which Orion does not panic. If it does for
    many, all inputs have the codes of their zero points. Raises OrionPanic if it does for these, or for what is given.
    """
    report_progress("evaluating the reference for the self-test")
    if feeds is None and plan.can_panic:
        for seed in range(SEED, SEED + SEEDS):
            with contextlib.suppress(OrionPanic):
                return _self_test(program, plan, None, seed)
        zeros = ((port.tensor, port.tensor.zero_point or 0) for port in plan.inputs)
        feeds = {tensor.name: np.full(tensor.shape, code, tensor.dtype.numpy) for tensor, code in zeros}
        return _self_test(program, plan, feeds, SEED, "codes of zero points")
    return _self_test(program, plan, feeds, SEED)


def _self_test(
    program: Program, plan: Plan, feeds: Mapping[str, Array] | None, seed: int, recording: str = "a recorded input"
) -> SelfTest:
    """The test by these inputs, or by random ones."""
    inputs = _inputs(program, plan, feeds, recording)
    given = {
        each.port.tensor.name: array.reshape(each.port.shape).transpose(np.argsort(_order(each.port, plan)))
        for each, array in zip(inputs, _arrays(inputs, seed), strict=True)
    }
    given |= {state.read: feeds[state.read] for state in program.states if feeds and state.read in feeds}
    in_memory, origins, exact = _in_memory(program, plan, given), _origins(program, plan), same_everywhere(program)
    written = {call.symbol: part for call, part in _written(program, plan) if origins[call.op.y.name] in exact}
    outputs = [in_memory[call.op.y.name] * (call.symbol in written) for call in plan.calls]
    tables = [_table_bytes(call) for call in plan.calls]
    if plan.options.test_slices:
        return SelfTest(inputs, tuple(map(fnv, outputs)), written, seed, recording, tuple(map(fnv, tables)))
    hashes = [fnv(table + output) for table, output in zip(tables, outputs, strict=True)]
    return SelfTest(inputs, tuple(hashes), written, seed, recording)


def _table_bytes(call: Call) -> bytes:
    """A node's tables as they lie in memory, one behind the other."""
    return b"".join(np.ascontiguousarray(table.values).astype(_in_c(table.c_type)).tobytes() for table in call.tables)


def _in_c(c_type: str) -> np.dtype[Any]:
    """A C type's numpy type; numpy takes "float" for what C calls double."""
    return np.dtype({"float": "<f4", "double": "<f8"}.get(c_type, f"<{_letter(c_type)}"))


def _letter(c_type: str) -> str:
    return np.dtype(c_type.removesuffix("_t")).str[1:]


def fnv(data: bytes) -> int:
    """The hash FNV-1a in 32 bits.

    >>> hex(fnv(b"a"))
    '0xe40c292c'
    """
    value = BASIS
    for byte in data:
        value = (value ^ byte) * PRIME % 2**32
    return value


def _inputs(
    program: Program, plan: Plan, feeds: Mapping[str, Array] | None, recording: str
) -> tuple[SelfTestInput, ...]:
    found = []
    for port in plan.inputs:
        if feeds is not None:
            values = np.ascontiguousarray(feeds[port.tensor.name].transpose(_order(port, plan))).reshape(-1)
            symbol = f"{plan.prefix}_test_{port.symbol}"
            meaning = f"input {port.tensor.name}: {recording}."
            found.append(SelfTestInput(port, Table("input", symbol, port.tensor.dtype.c, values, meaning)))
        else:
            found.append(SelfTestInput(port, None, *_codes(program, port)))
    return tuple(found)


def _codes(program: Program, port: Port) -> tuple[float, int]:
    """Scale and zero point by which random codes become numbers of a float input."""
    if not port.tensor.dtype.is_float:
        return 1.0, 0
    quantizers = [op.y for op in program.operators if isinstance(op, Quantize) and op.x.name == port.tensor.name]
    if not quantizers or quantizers[0].scale is None:
        return RANDOM_SCALE, RANDOM_ZERO_POINT
    y = quantizers[0]
    return float(y.scale or 1), (y.zero_point or 0) - (y.dtype.low if y.dtype.low else 0)


def _arrays(inputs: tuple[SelfTestInput, ...], seed: int) -> Iterator[Array]:
    """The elements of the inputs; those that are made are so as the C makes them, one after the other."""
    state = seed
    for each in inputs:
        dtype = each.port.tensor.dtype.numpy
        if each.table is not None:
            yield each.table.values.view(dtype)
            continue
        codes = np.empty(each.port.tensor.size, np.uint8)
        for index in range(codes.size):
            state = (state * FACTOR + ADDEND) % 2**32
            codes[index] = state >> 24
        if each.port.tensor.dtype is DType.FLOAT16:
            yield _half_words(codes).view(np.float16)
        elif each.port.tensor.dtype is DType.FLOAT64:
            yield (codes.astype(np.int32) - each.zero_point).astype(np.float64) * np.float64(np.float32(each.scale))
        elif each.port.tensor.dtype is DType.FLOAT32:
            yield (codes.astype(np.int32) - each.zero_point).astype(np.float32) * np.float32(each.scale)
        else:
            yield codes.astype(dtype)


def _half_words(codes: Array) -> Array:
    """Words of float16 numbers of random bytes: from 1 to 2 in magnitude."""
    words = codes.astype(np.uint16)
    return ((words >> 7) << 15) + 0x3C00 + ((words & 127) << 3)


def _order(port: Port, plan: Plan) -> tuple[int, ...]:
    return stored(port.tensor, boundary_layout(port.tensor, plan.options.layout))


def _in_memory(program: Program, plan: Plan, feeds: Mapping[str, Array]) -> dict[str, bytes]:
    """The bytes of every tensor that is computed, as they lie in memory."""
    values = evaluate_all(program, feeds)
    origins = _origins(program, plan)
    found = {}
    for step in steps_of(program, plan.options.layout):
        array = values[origins[step.op.y.name]].transpose(step.y)
        found[step.op.y.name] = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).tobytes()
    return found


def _origins(program: Program, plan: Plan) -> dict[str, str]:
    """The tensor of the program that each arranged tensor is, maybe in another order in memory."""
    known = {op.y.name for op in program.operators} | {tensor.name for tensor in program.inputs}
    origins = {name: name for name in known}
    for step in steps_of(program, plan.options.layout):
        name = step.op.y.name
        if name in known:
            continue
        before = name.removesuffix(AS_COMPUTED)
        origins[name] = before if before in known else origins[inputs_of(step.op)[0].name]
    return origins


def same_everywhere(program: Program) -> frozenset[str]:
    """The tensors that every core computes alike: integers, float numbers made of them, and these moved about."""
    known = {tensor.name for tensor in program.inputs} | program.constants.keys()
    alike = exact(program)
    for op in program.operators:
        if known.issuperset(x.name for x in inputs_of(op)) and (_is_exact(op) or op.y.name in alike):
            known.add(op.y.name)
    return frozenset(known)


def _is_exact(op: Operator) -> bool:
    moves = isinstance(op, Movement)
    return not op.y.dtype.is_float or moves or isinstance(op, Dequantize | Convert)


def _written_by(call: Call, program: Program) -> Written:
    """What a call writes that computes a whole tensor."""
    inputs = [x for x in inputs_of(call.op) if x.name not in program.constants]
    return Written(call.arguments[len(inputs)], bytes_of(call.op.y))


def _written(program: Program, plan: Plan) -> Iterator[tuple[Call, Written]]:
    """What each call writes; for layers in rows, if their calls write each row once, or add up sums to the end.

    Not sums in rows with padding that has a computed zero point: those of the reference have none there.
    """
    for step in plan.steps:
        match step:
            case Call():
                yield step, _written_by(step, program)
            case Stream():
                if step.first_pass is not None:
                    yield from ((call, _written_by(call, program)) for call in step.first_pass.calls)
                computed = {fill.at.place for fill in (*step.above, *step.below) if not isinstance(fill.code, int)}
                for number, turn in enumerate(step.every_turn):
                    if turn.call is None or turn.call.passes > 1 or turn.rows[0].place in computed:
                        continue
                    if turn.part is None:
                        yield turn.call, Written(turn.rows[-1], bytes_of(turn.call.op.y))
                        continue
                    calls = int((step.order.values[:, 0] == number).sum())
                    if calls * bytes_of(turn.part.y) == bytes_of(turn.call.op.y):
                        yield turn.call, Written(turn.rows[-1], bytes_of(turn.part.y))


# Inputs of a network and the outputs that its C must give for them, as a header.


@dataclass(frozen=True)
class _Vector:
    """The elements of an input or output in each case."""

    port: Port
    meaning: str
    cases: tuple[Table, ...]


def vectors(program: Program, plan: Plan, files: Mapping[str, str], feeds: Sequence[Mapping[str, Array]]) -> str:
    """The text of NAME_vectors.h for these inputs by name, in the model's own shapes; ``files`` are those of the plan.

    Of a network with states these are calls one after the other, from the initial states on. Raises OrionPanic if Orion
    panics on one.
    """
    states = {state.read for state in program.states}
    given = [{name: array for name, array in each.items() if name not in states} for each in feeds]
    cases = list(evaluate_frames(program, given))
    found = tuple(
        _Vector(port, _meaning(port), tuple(_table(plan, port, case) for case in cases))
        for port in (*plan.inputs, *plan.outputs)
    )
    exact = same_everywhere(program)
    context = {
        "plan": plan,
        "prefix": plan.prefix,
        "PREFIX": plan.prefix.upper(),
        "version": __version__,
        "options": options_text(plan),
        "header_id": f"0x{header_id(plan, files):08x}",
        "inexact": ", ".join(port.symbol for port in plan.outputs if port.tensor.name not in exact),
        "has_no_literal": any(case.has_names for vector in found for case in vector.cases),
        "count": len(cases),
        "vectors": found,
    }
    return filled("vectors.h", context)


def _meaning(port: Port) -> str:
    return f"{port.direction.capitalize()} {one_line(port.tensor.name)}, one row for each case."


def _table(plan: Plan, port: Port, case: Mapping[str, Array]) -> Table:
    """The elements of a tensor as they lie in memory."""
    order = stored(port.tensor, boundary_layout(port.tensor, plan.options.layout))
    values = np.ascontiguousarray(case[port.tensor.name].transpose(order)).reshape(-1)
    return Table("vector", port.symbol, port.tensor.dtype.c, values, "")
