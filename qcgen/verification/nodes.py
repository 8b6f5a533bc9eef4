"""The nodes of a generated file, made callable one by one and called, here or on an emulated core."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from qcgen.artifact import Artifact
from qcgen.build import LoadedModel
from qcgen.emulate import Image, Trial, emulate
from qcgen.ir.plan import Argument, Call, InArena, Place, Plan, Port, Row, RowsAt, Stream
from qcgen.ir.program import Operator, Tensor, inputs_of, macs_of
from qcgen.ir.types import Array, DType
from qcgen.kernels.kernel import Order
from qcgen.plan.arrange import Arranged, steps_of
from qcgen.reference import evaluate_all, evaluate_operator
from qcgen.reference.tolerance import tolerances
from qcgen.render import environment
from qcgen.render.c_functions import CFunction, changed
from qcgen.render.c_text import place
from qcgen.verification.running import Builder, built

BATCH_BYTES = 2**16
"""Room for the inputs, and for the outputs, of one call of the C function, if those of a single node fit."""

PATIENCE, SECONDS_PER_MAC = 120.0, 2e-7
"""Seconds that an emulation may take, and besides for each multiply-accumulate."""


@dataclass(frozen=True)
class Shown:
    """What output steps show instead of codes: a byte of the word, by the path for sums away from ties or near them.

    Nothing of this with ``byte`` -1.
    """

    byte: int = -1
    is_near: bool = False


@dataclass(frozen=True)
class WrongValue:
    """The first word or output that is not what it must be: ``index`` in the model's own shape of the node's output.

    ``what`` it is, and under what input; ``expected`` and ``got`` are words as int32, codes, or numbers.
    """

    node: str
    op_type: str
    what: str
    index: tuple[int, ...]
    expected: float
    got: float

    def __str__(self) -> str:
        where = f"{self.what}, of output {list(self.index)} of node {self.node} ({self.op_type})"
        return f"{where}: expected {self.expected}, got {self.got}"


@dataclass(frozen=True)
class CalledNode:
    """A call of the plan: ``index`` among them; ``xs`` are the inputs that are not constants, with their ``orders``.

    ``op`` is what one call of the C function computes: the operator as it was planned, or a few rows of it.
    """

    index: int
    call: Call
    op: Operator
    xs: tuple[Tensor, ...]
    orders: tuple[Order, ...]
    y_order: Order
    arguments: tuple[Place, ...]

    @property
    def is_part(self) -> bool:
        """Whether one call computes some of the rows only."""
        return self.op is not self.call.op

    @property
    def x_bytes(self) -> int:
        """The size of all inputs."""
        return sum(x.size * x.dtype.bytes for x in self.xs)

    @property
    def y_bytes(self) -> int:
        """The size of the output."""
        return self.op.y.size * self.op.y.dtype.bytes


@dataclass(frozen=True)
class Nodes:
    """The file of ``artifact``, built in ``folder``, which is made, when a node is first called.

    With ``shows_words``, output steps can show the words that they are given.
    """

    artifact: Artifact
    builder: Builder
    folder: Path
    shows_words: bool = False

    @cached_property
    def nodes(self) -> tuple[CalledNode, ...]:
        """Every call of the plan; of those in a stream, a call as the stream's order has it first."""
        steps = {step.op.y.name: step for step in self._arranged}
        constants = self.artifact.planned.constants
        plan = self.artifact.plan
        whole = [(call, call.op, call.arguments) for call in plan.whole_calls]
        found: list[CalledNode] = []
        for call, op, arguments in chain(whole, *map(_in_rows, plan.streams)):
            arranged = steps[op.y.name]
            held = zip(inputs_of(op), arranged.xs, strict=True)
            given = [(x, order) for x, order in held if x.name not in constants]
            xs, orders = tuple(x for x, _ in given), tuple(order for _, order in given)
            found.append(CalledNode(len(found), call, op, xs, orders, arranged.y, arguments))
        return tuple(found)

    @cached_property
    def _arranged(self) -> tuple[Arranged, ...]:
        return steps_of(self.artifact.planned, self.artifact.plan.options.layout)

    def has_paths(self, node: CalledNode) -> bool:
        """Whether the output step of a node tests if sums are near ties, and takes another path there."""
        return node.call.symbol in self._text[1]

    def call(self, node: CalledNode, inputs: Sequence[Array], shown: Sequence[Shown] = (Shown(),)) -> list[Array]:
        """The outputs (count, ...) of a node for inputs (count, ...) in the model's own shapes, for each of ``shown``.

        Where a byte is shown, the outputs are bytes.
        """
        count = len(inputs[0])
        held = [_held(x, order) for x, order in zip(inputs, node.orders, strict=True)]
        flat = np.concatenate(held, axis=1)
        many = max(1, min(self._in_bytes // max(node.x_bytes, 1), self._out_bytes // node.y_bytes))
        parts = [flat[start : start + many] for start in range(0, count, many)]
        calls = [(part, each) for each in shown for part in parts]
        outputs = np.concatenate(list(self._run(node, calls))).reshape(len(shown), count, node.y_bytes)
        tensor, own = node.op.y, node.op.y.dtype.numpy
        dtypes = [np.dtype(np.uint8) if each.byte >= 0 else own for each in shown]
        return [_unheld(tensor, node.y_order, y, dtype) for y, dtype in zip(outputs, dtypes, strict=True)]

    def evaluated(self, feeds: Mapping[str, Array]) -> Iterator[tuple[CalledNode, list[Array], Array, Array]]:
        """Each node of whole tensors with the reference's inputs and output for inputs of the model.

        And what the output may be off.
        """
        artifact = self.artifact
        allowed = tolerances(artifact.planned, evaluate_all(artifact.planned, feeds))
        values = {**artifact.planned.constants, **feeds}
        nodes = {node.op.y.name: node for node in self.nodes if not node.is_part}
        for arranged in self._arranged:
            xs = [values[x.name] for x in inputs_of(arranged.op)]
            y = _viewed(arranged, xs[0]) if arranged.is_view else evaluate_operator(arranged.op, *xs)
            values[arranged.op.y.name] = y
            if arranged.op.y.name in nodes:
                node = nodes[arranged.op.y.name]
                tolerance = allowed.get(arranged.op.y.name, np.zeros(y.shape))
                yield node, [values[x.name] for x in node.xs], y, tolerance

    def _run(self, node: CalledNode, calls: Sequence[tuple[Array, Shown]]) -> Iterator[Array]:
        for feeds, count in zip(self._outputs(node, calls), calls, strict=True):
            yield feeds.view(np.uint8)[: len(count[0]) * node.y_bytes].reshape(len(count[0]), -1)

    def _outputs(self, node: CalledNode, calls: Sequence[tuple[Array, Shown]]) -> Iterator[Array]:
        """What the C function gives for each call, all of it."""
        if isinstance(self._built, LoadedModel):
            for part, shown in calls:
                yield self._built.run(["out"], self._feeds(node, part, shown))[0]
            return
        most = max(1, 2**26 // self._in_bytes)
        for start in range(0, len(calls), most):
            some = calls[start : start + most]
            trials = [
                Trial(self._feeds(node, part, shown), is_shifted=i % 2 == 1, garbage=i % 256)
                for i, (part, shown) in enumerate(some)
            ]
            work = sum(len(part) for part, _ in some) * (macs_of(node.op) + node.x_bytes + node.y_bytes)
            for outcome in emulate(self._built, trials, timeout=PATIENCE + SECONDS_PER_MAC * work):
                yield outcome.outputs["out"]

    def _feeds(self, node: CalledNode, part: Array, shown: Shown) -> dict[str, Array]:
        given = np.zeros(self._in_bytes, np.uint8)
        given[: part.size] = part.reshape(-1)
        what = np.array([node.index, shown.byte, shown.is_near, len(part)], np.int32)
        return {"what": what, "in": given}

    @cached_property
    def _in_bytes(self) -> int:
        return max(BATCH_BYTES, *(node.x_bytes for node in self.nodes))

    @cached_property
    def _out_bytes(self) -> int:
        return -(-max(BATCH_BYTES, *(node.y_bytes for node in self.nodes)) // 4) * 4

    @property
    def _name(self) -> str:
        return f"{'words' if self.shows_words else 'nodes'}_of_{self.artifact.plan.prefix}"

    @cached_property
    def _text(self) -> tuple[str, frozenset[str]]:
        plan = self.artifact.plan
        source = self.artifact.files[f"{plan.prefix}.c"]
        calls = [_SingleCall(node.call, node.xs, node.op.y, node.arguments) for node in self.nodes]
        return _with_nodes(plan, source, calls, self._name, shows_words=self.shows_words)

    @cached_property
    def _plan(self) -> Plan:
        """The function that calls nodes, as a model of its own."""
        own = self.artifact.plan
        ports = (
            _port("what", DType.INT32, 4, "input"),
            _port("in", DType.UINT8, self._in_bytes, "input"),
            _port("out", DType.INT32, self._out_bytes // 4, "output"),
        )
        options = replace(own.options, status=False)  # its own function returns nothing
        return replace(own, prefix=self._name, options=options, ports=ports, steps=(), states=())

    @cached_property
    def _built(self) -> LoadedModel | Image:
        files = {
            **{name: text for name, text in self.artifact.files.items() if name.endswith(".h")},
            f"{self._name}.h": _header(self._plan),
            f"{self._name}.c": self._text[0],
        }
        self.folder.mkdir()
        return built(replace(self.artifact, plan=self._plan, files=files), self.builder, self.folder)


def _in_rows(stream: Stream) -> Iterator[tuple[Call, Operator, tuple[Place, ...]]]:
    """The calls of a stream, each with the operator and the arguments of its first turn."""
    for number, turn in enumerate(stream.turns):
        if turn.call is None or turn.part is None:
            continue
        _, start, to = next(entry for entry in stream.order.values if entry[0] == number)
        rows: dict[Row, int] = {"start": int(start), "to": int(to)}
        scratch = turn.call.arguments[len(turn.rows) :]
        yield turn.call, turn.part, (*(_place(at, rows) for at in turn.rows), *scratch)


def _place(at: RowsAt, rows: Mapping[Row, int]) -> Place:
    """Where a row lies in a turn that names these ``rows``."""
    row = at.row if isinstance(at.row, int) else rows[at.row]
    return replace(at.place, offset=at.place.offset + row * at.row_bytes)


def _port(name: str, dtype: DType, size: int, direction: str) -> Port:
    return Port(Tensor(name, dtype, (size,)), name, (size,), "", "input" if direction == "input" else "output")


def _header(plan: Plan) -> str:
    """What the emulated core's driver includes."""
    macro = plan.prefix.upper()
    sizes = {f"{port.symbol.upper()}_SIZE": port.tensor.size for port in plan.ports}
    sizes |= {"ARENA_BYTES": plan.arena_bytes, "ARENA_ALIGN": plan.arena_align}
    lines = ["#include <stdint.h>", *(f"#define {macro}_{name} {value}" for name, value in sizes.items())]
    lines.append(f"void {plan.prefix}_run(const int32_t *what, const uint8_t *in, int32_t *out, void *arena);")
    return "\n".join([*lines, ""])


def _held(x: Array, order: Order) -> Array:
    """Inputs (count, ...) as bytes (count, n) in their order in memory."""
    moved = np.ascontiguousarray(x.transpose(0, *(axis + 1 for axis in order)))
    return moved.reshape(len(x), -1).view(np.uint8)


def _unheld(tensor: Tensor, order: Order, y: Array, dtype: np.dtype[Any]) -> Array:
    """Outputs as bytes (count, n) in their order in memory to elements (count, ...) in the model's own shape."""
    held = y.copy().view(dtype).reshape(len(y), *(tensor.shape[axis] for axis in order))
    back: Array = held.transpose(0, *(int(axis) + 1 for axis in np.argsort(order)))
    return back


def _viewed(view: Arranged, x: Array) -> Array:
    """What a view makes of its input: the same memory, read in another way."""
    y = view.op.y
    viewed: Array = _unheld(y, view.y, _held(x[None], view.xs[0]), y.dtype.numpy)[0]
    return viewed


# A generated file made ready for that: nodes can be called one by one, output steps show their sums.

_KINDS = {
    ("requantize", "int32_t acc"): "code",
    ("line", "int32_t acc"): "code",
    ("code", "int32_t acc"): "code",
    ("is_near_tie", "int32_t acc"): "near",
    ("scaled", "mve_s32 acc"): "scaled",
    ("codes", "mve_s32 scaled"): "codes",
    ("closeness", "uint32_t so_far"): "closeness",
}
"""What an output function does, by the end of its name and its first parameter, a vector's less the prefix."""

_TESTS = ("near", "closeness")
"""The kinds that test whether a sum is near a tie, where the C takes another path."""


@dataclass(frozen=True)
class _SingleCall:
    """A call by itself: ``xs`` are the tensors that it reads, ``y`` the one that it writes."""

    call: Call
    xs: Sequence[Tensor]
    y: Tensor
    arguments: Sequence[Place]


def _with_nodes(
    plan: Plan, source: str, nodes: Sequence[_SingleCall], name: str, *, shows_words: bool
) -> tuple[str, frozenset[str]]:
    """``source``, rendered from ``plan``, made callable node by node; and the nodes whose output step tests for ties.

    Lines are added, none is changed: at the end a function
    ``name``_run, see verify/nodes.c.jinja, and, with ``shows_words``, behind each output function one that takes its
    place from there on. The nodes are given by their symbols.
    """
    tested = frozenset[str]()
    shown = {"byte": f"{name}_shown_byte", "near": f"{name}_shown_path"}
    head = "#include <stdint.h>\n#include <string.h>\n"
    if shows_words:
        source, tested = _showing(plan, source, shown)
        head += f"static int32_t {shown['byte']} = -1, {shown['near']};\n"
    template = environment().get_template("verify/nodes.c.jinja")
    shown_nodes = [_node(node, f"{name}_call_{index}") for index, node in enumerate(nodes)]
    text = template.render(name=name, nodes=shown_nodes, shows_words=shows_words, shown=shown, slow=plan.slow)
    return head + source + text, tested


def _showing(plan: Plan, source: str, shown: Mapping[str, str]) -> tuple[str, frozenset[str]]:
    """The source with a function behind each output function, and the symbols of nodes that test for ties."""
    steps = {f"{symbol}_{what}": (symbol, what) for symbol in map(_function_of, plan.calls) for what, _ in _KINDS}
    template = environment().get_template("verify/shown.c.jinja")
    tested, found_of = set(), set()

    def followed(function: CFunction) -> str:
        if function.name not in steps:
            return function.text
        symbol, what = steps[function.name]
        own = [parameter for parameter in function.parameters if not parameter.endswith(" *layer")]
        kind = _KINDS.get((what, own[0].removeprefix(f"{plan.prefix}_")))
        if kind is None:
            return function.text
        found_of.add(symbol)
        if kind in _TESTS:
            tested.add(symbol)
        text = template.render(
            name=function.name,
            kind=kind,
            type=function.returns,
            parameters=", ".join(function.parameters),
            arguments=", ".join(function.arguments),
            out_type=own[-1].split()[-2],
            shown=shown,
        )
        return function.text + text

    shown_source = changed(source, followed)
    for call in plan.calls:
        if call.certificate.word and call.op.y.dtype.is_quantized and _function_of(call) not in found_of:
            raise RuntimeError(f"the output step of {call.symbol} was not found: its name or its parameters are new")
    return shown_source, frozenset(call.symbol for call in plan.calls if _function_of(call) in tested)


def _function_of(call: Call) -> str:
    """The name with which the functions of a call begin."""
    return call.symbol if call.shared is None else call.shared.symbol


def _node(node: _SingleCall, function: str) -> dict[str, object]:
    """What the template needs to know of a call: its inputs lie one after the other in `in`."""
    offset = 0
    copies, arguments = [], []
    for x, where in zip(node.xs, node.arguments, strict=False):
        size = x.size * x.dtype.bytes
        if isinstance(where, Argument):
            arguments.append(f"(const void *)(in + {offset})")
        else:
            copies.append((place(where), offset, size))
            arguments.append(place(where))
        offset += size
    y, *scratch = node.arguments[len(node.xs) :]
    arguments += [place(y) if isinstance(y, InArena) else "(void *)out", *map(place, scratch)]
    return {
        "function": function,
        "symbol": node.call.symbol,
        "copies": copies,
        "arguments": arguments,
        "y": place(y) if isinstance(y, InArena) else "",
        "x_bytes": offset,
        "y_bytes": node.y.size * node.y.dtype.bytes,
    }
