"""Figures of a compiled model: flash, RAM, multiply-accumulates, kernels and certificates."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from hashlib import sha256

from qcgen.arithmetic import meant
from qcgen.chips import Fit
from qcgen.ir.plan import (
    ArenaGrowth,
    Call,
    FlashUse,
    KeptRows,
    PlacedBuffer,
    Plan,
    Port,
    Step,
    Stream,
    Stretch,
    TensorMove,
    View,
)
from qcgen.ir.program import Conv, Operator, OrionConv, inputs_of, joined_of, macs_of
from qcgen.version import __version__


@dataclass(frozen=True)
class NodeReport:
    """One node; ``kernel`` is "none" if it needs no code because its output is its input's memory.

    ``arithmetic`` is "float32" if a tensor that it reads or writes is, else "integer". ``accumulator`` [lo, hi] over
    all channels, None where there is none; ``requantize`` channels by form; ``wraps``: some sum can leave int32;
    ``comparisons``: points at which the requantization was compared with the formula; ``rejected``: other kernels
    for the same kind of operator, each with the reason against it; ``overlap``: the bytes by which the output begins
    before the first input that it lies over (negative: behind its start), None if it lies over none; ``has_order``:
    whether the kernel tells in which order it reads and writes, without which there is no overlap; ``packed_bits``:
    those of a weight where several lie in a byte, else None; ``shared_function``: the C function that the node runs
    through together with others, None if it has its own; ``optimize``: "size" or "speed", what it is compiled for;
    ``function``: the C function of the node, None if it needs none; ``tables``: bytes of its tables by their C names.
    ``in_float``: onnxruntime computes these codes in float, so that next to a tie one may be one more or less there;
    ``joined``: the nodes in front of this one that its table, or its loop, computes, too; ``reads``: the nodes whose
    outputs it reads, and inputs of the network; ``passes``: 2 if it is computed twice, for a range and for codes.
    """

    name: str
    op: str
    kernel: str
    arithmetic: str
    macs: int
    constant_bytes: int
    scratch_bytes: int
    accumulator: tuple[int, int] | None
    wraps: bool
    requantize: Mapping[str, int]
    comparisons: int
    rejected: Mapping[str, str]
    overlap: int | None
    has_order: bool
    packed_bits: int | None
    shared_function: str | None
    optimize: str
    in_float: bool = False
    joined: tuple[str, ...] = ()
    function: str | None = None
    tables: Mapping[str, int] = field(default_factory=dict)
    reads: tuple[str, ...] = ()
    passes: int = 1

    @property
    def joined_by(self) -> str:
        """What computes the nodes in ``joined`` together with this one."""
        return "table" if self.arithmetic == "integer" else "loop"


@dataclass(frozen=True)
class Figures:
    """What a model costs: multiply-accumulates, bytes of constant tables, bytes that the caller must lend."""

    macs: int
    weights_bytes: int
    arena_bytes: int


@dataclass(frozen=True)
class Fallback:
    """What some ``nodes`` fall back to, and its share of the flash of all nodes and of all cycles, in percent.

    ``kind``: "float", what computes in float; "portable", portable kernels on a core that has its own; "moves",
    elements that only change their places. ``is_measured``: on an emulated core, else both shares are estimates.
    ``what`` says it in words; ``advice``: the cause and what to do, "" if nothing can be done.
    """

    kind: str
    nodes: tuple[str, ...]
    flash_percent: float
    cycles_percent: float
    is_measured: bool
    what: str
    advice: str


@dataclass(frozen=True)
class PortReport:
    """An input or output of the C function: ``shape`` in the order in memory, ``symbol`` its name in C.

    real value = (code - ``zero_point``) * ``scale``, None where it is not quantized. ``helper``: the function of the
    header that makes codes of an input's real numbers, or real numbers of an output's codes; None if there is none.
    """

    name: str
    symbol: str
    type: str
    shape: tuple[int, ...]
    layout: str
    bytes: int
    scale: float | None
    zero_point: int | None
    helper: str | None


MEASURED = ("code_bytes", "flash_bytes", "stack_bytes", "compiler", "function_bytes")
"""What is in the JSON report beside the fields of ``Report``."""

SCHEMA_VERSION = 1
"""Grows when a field of the report is renamed, removed or means something else."""


@dataclass(frozen=True)
class Measured:
    """What a compiler makes of NAME.c, by level: bytes of code, tables left out, and of stack, at most.

    ``stack_bytes`` are below the call of a public function; None where no bound is known, because the code moves the
    stack pointer by a register or calls what it computes. ``compiler``: its name, its version and the target's flags.
    ``function_bytes``: those of each function of the source with -O2; one that is inlined counts where it is called.
    """

    code_bytes: Mapping[str, int]
    stack_bytes: Mapping[str, int | None]
    compiler: str
    function_bytes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Accuracy:
    """How many of ``examples`` with labels the C classifies right, on the machine that compiled it."""

    right: int
    examples: int

    @property
    def percent(self) -> float:
        """The share of right answers."""
        return 100 * self.right / self.examples


def _known(measured: Measured | None) -> Measured | None:
    """What needs no compiler any more, as ``Report.measure``, which other processes can read."""
    return measured


@dataclass(frozen=True)
class Report:
    """A model; ``qcgen`` is the version that compiled it.

    ``constants_bytes``: constant tables in flash, for long called ``weights_bytes``. ``code_bytes``: the instructions,
    by the compiler's level of optimization; ``flash_bytes``: constants and code at -O2; ``stack_bytes``: the most that
    a call needs. Where a compiler for the target is installed, it measures them when they are first asked for, which
    takes some seconds, and ``compiler`` says which; elsewhere they are None.
    ``flash``: the estimate by which kernels were chosen for the budget ``options.flash``; None without one.
    ``arena_bytes``: what the caller must lend, ``arena_lower_bound_bytes``: what no placement of its parts undercuts.
    ``arena_slow_bytes``: what more it must lend of an arena in two memories, in the slow one; ``arena_fast_share``: of
    all accesses those to the other, estimated.
    ``arena_growth``: by how much it is larger for copies of constants than it need be, and the cycles with and without.
    ``ram_bytes``: arena, inputs and outputs together, without the stack. With ``io_memory="arena"``
    inputs and outputs are a part of the arena; of an input that comes in rows, one row is counted.
    ``state_bytes``: those that stay from call to call, of the arena unless ``options.state`` is "caller".
    ``arithmetic``: what the outputs are equal to, which onnxruntime on which processor with which session options.
    ``buffers``: what lies in the arena, where and how long. ``files``: the SHA-256 of each generated file, by its name.
    ``rows``: of tensors that are computed row by row, how many rows are kept at a time. ``unsimplified``: what the
    model would cost if what is proved to be without effect were kept. ``fallbacks``: what is slower or larger than it
    need be, of whole networks; ``notes``: what was assumed of the model. ``inexact``: the nodes that compute floats,
    within a tolerance; all others are equal to the reference, bit for bit. ``board``: whether it fits the chip that
    ``board`` names, None without one. ``longest_stretch``: the most that passes between two calls of the hook, None if
    it is not called. ``accuracy``: of examples with labels, None without these.
    """

    schema_version: int
    qcgen: str
    name: str
    model: str
    sha256: str
    options: Mapping[str, object]
    arithmetic: Mapping[str, object]
    macs: int
    weights_bytes: int
    constants_bytes: int
    flash: FlashUse | None
    arena_bytes: int
    arena_lower_bound_bytes: int
    arena_slow_bytes: int
    arena_fast_share: float
    arena_growth: ArenaGrowth | None
    input_bytes: int
    output_bytes: int
    state_bytes: int
    ram_bytes: int
    inputs: tuple[PortReport, ...]
    outputs: tuple[PortReport, ...]
    unsimplified: Figures
    nodes: tuple[NodeReport, ...]
    rows: tuple[KeptRows, ...]
    buffers: tuple[PlacedBuffer, ...]
    files: Mapping[str, str]
    fallbacks: tuple[Fallback, ...] = ()
    notes: tuple[str, ...] = ()
    inexact: tuple[str, ...] = ()
    board: Fit | None = None
    accuracy: Accuracy | None = None
    longest_stretch: Stretch | None = None
    measure: Callable[[], Measured | None] = field(default=partial(_known, None), repr=False, compare=False)

    @cached_property
    def measured(self) -> Measured | None:
        """What a compiler makes of the source; ToolMissing if the one that is installed fails."""
        return self.measure()

    @property
    def code_bytes(self) -> Mapping[str, int] | None:
        """Bytes of code by level, "-Os" and "-O2"."""
        return None if self.measured is None else self.measured.code_bytes

    @property
    def stack_bytes(self) -> Mapping[str, int | None] | None:
        """The most bytes of stack that a call needs, by level; what the libraries take included."""
        return None if self.measured is None else self.measured.stack_bytes

    @property
    def function_bytes(self) -> Mapping[str, int] | None:
        """Bytes of each C function with -O2, by its name: with ``NodeReport.function`` a trace from nodes to code."""
        return None if self.measured is None else self.measured.function_bytes

    @property
    def compiler(self) -> str | None:
        """The compiler that measured, with the target's flags."""
        return None if self.measured is None else self.measured.compiler

    @property
    def flash_bytes(self) -> int | None:
        """Constants, and code at -O2."""
        return None if self.code_bytes is None else self.constants_bytes + self.code_bytes["-O2"]

    def __getstate__(self) -> dict[str, object]:
        """What goes to another process: figures, the code among them; not the artifact that it is measured of."""
        return vars(self.with_code(self.measured))

    @property
    def figures(self) -> Figures:
        """What the model costs as it is compiled."""
        return Figures(self.macs, self.weights_bytes, self.arena_bytes)

    @property
    def flash_budget(self) -> int:
        """That of ``flash``, for which the model was compiled."""
        budget = self.options["flash"]
        assert isinstance(budget, int), "there is one where an estimate is"
        return budget

    def with_code(self, measured: Measured | None) -> Report:
        """The same with what was measured of the code, or None without."""
        return replace(self, measure=partial(_known, measured))

    def with_board(self, board: Fit) -> Report:
        """The same with what the network takes of a chip."""
        return replace(self, board=board)

    def to_json(self) -> str:
        """The report as a JSON object, the code measured."""
        figures = asdict(self) | {name: getattr(self, name) for name in MEASURED}
        return json.dumps({name: value for name, value in figures.items() if name != "measure"}, indent=2)


def report(
    plan: Plan, files: Mapping[str, str], unsimplified: Plan | None = None, fallbacks: tuple[Fallback, ...] = ()
) -> Report:
    """The figures of a plan, beside those of the same model's plan without simplification (None: the same plan)."""
    own = _figures(plan)
    return Report(
        schema_version=SCHEMA_VERSION,
        qcgen=__version__,
        name=plan.prefix,
        model=plan.model,
        sha256=plan.sha256,
        options=asdict(plan.options),
        arithmetic=meant(plan.options.numerics),
        macs=own.macs,
        weights_bytes=own.weights_bytes,
        constants_bytes=own.weights_bytes,
        flash=plan.flash,
        arena_bytes=own.arena_bytes,
        arena_lower_bound_bytes=plan.arena_lower_bound,
        arena_slow_bytes=0 if plan.slow is None else plan.slow.bytes,
        arena_fast_share=round(plan.fast_share, 3),
        arena_growth=plan.growth,
        input_bytes=_bytes(plan.inputs),
        output_bytes=_bytes(plan.outputs),
        state_bytes=_bytes(state.before for state in plan.states),
        ram_bytes=plan.arena_bytes + _bytes(plan.arguments) + (plan.pushed.row_bytes if plan.pushed else 0),
        inputs=tuple(_port(port, plan) for port in plan.inputs),
        outputs=tuple(_port(port, plan) for port in plan.outputs),
        unsimplified=own if unsimplified is None else _figures(unsimplified),
        nodes=_all_nodes(plan),
        rows=tuple(row for stream in plan.streams for row in stream.kept),
        buffers=plan.buffers,
        files={name: sha256(text.encode()).hexdigest() for name, text in files.items()},
        fallbacks=fallbacks,
    )


def _port(port: Port, plan: Plan) -> PortReport:
    tensor = port.tensor
    scale = None if tensor.scale is None else float(tensor.scale)
    zero_point = None if tensor.zero_point is None else int(tensor.zero_point)
    shape = tuple(map(int, port.shape))
    verb = "quantize" if port.direction == "input" else "dequantize"
    return PortReport(
        name=tensor.name,
        symbol=port.symbol,
        type=tensor.dtype.value,
        shape=shape,
        layout=port.layout,
        bytes=port.bytes,
        scale=scale,
        zero_point=zero_point,
        helper=f"{plan.prefix}_{verb}_{port.symbol}" if port.is_converted else None,
    )


def _bytes(ports: Iterable[Port]) -> int:
    return sum(port.bytes for port in ports)


def _figures(plan: Plan) -> Figures:
    macs = sum(macs_of(call.op) for call in plan.calls)
    return Figures(macs, plan.constant_bytes, plan.arena_bytes)


def _all_nodes(plan: Plan) -> tuple[NodeReport, ...]:
    """The nodes in execution order."""
    nodes = [node for step in plan.steps for node in _nodes(step, plan.in_float)]
    operators = [op for step in plan.steps for op in _operators(step)]
    sources = {port.tensor.name: port.tensor.name for port in plan.before} | {op.y.name: op.name for op in operators}
    return tuple(
        replace(node, reads=tuple(dict.fromkeys(sources[x.name] for x in inputs_of(op) if x.name in sources)))
        for node, op in zip(nodes, operators, strict=True)
    )


def _operators(step: Step) -> tuple[Operator, ...]:
    match step:
        case Call() | View():
            return (step.op,)
        case TensorMove():
            return ()
        case Stream():
            return tuple(call.op for call in step.calls)


def _nodes(step: Step, in_float: Collection[str]) -> tuple[NodeReport, ...]:
    match step:
        case Call():
            return (_node(step, in_float),)
        case View():
            return (_view(step),)
        case TensorMove():
            return ()
        case Stream():
            return tuple(_node(call, in_float) for call in step.calls)


def _node(call: Call, in_float: Collection[str]) -> NodeReport:
    return NodeReport(
        name=call.op.name,
        op=call.op.op_type,
        kernel=call.kernel,
        arithmetic=_arithmetic(call.op),
        macs=macs_of(call.op),
        constant_bytes=call.constant_bytes,
        scratch_bytes=call.scratch_bytes,
        accumulator=call.certificate.accumulator,
        wraps=call.certificate.wraps,
        requantize=dict(call.certificate.requantize or {}),
        comparisons=call.certificate.comparisons,
        rejected=_rejected(call),
        overlap=None if call.overlap is None else call.overlap.distance,
        has_order=call.access is not None or call.is_elementwise,
        packed_bits=next((table.packed_bits for table in call.tables if table.packed_bits), None),
        shared_function=None if call.shared is None else call.shared.symbol,
        optimize=call.optimize,
        in_float=call.op.name in in_float,
        joined=joined_of(call.op),
        function=call.symbol,
        tables={table.symbol: table.bytes for table in call.tables},
        passes=call.passes,
    )


def _view(view: View) -> NodeReport:
    """A node that needs no code."""
    op = view.op
    kind = _arithmetic(op)
    return NodeReport(
        op.name, op.op_type, "none", kind, 0, 0, 0, None, False, {}, 0, {}, None, False, None, None, "size"
    )


def _arithmetic(op: Operator) -> str:
    return "float32" if any(t.dtype.is_float for t in (*inputs_of(op), op.y)) else "integer"


def _rejected(call: Call) -> dict[str, str]:
    """Only convolutions have several kernels: that those do not serve other operators is no news."""
    if not isinstance(call.op, Conv | OrionConv):
        return {}
    return {passed.kernel: passed.reason for passed in call.rejected}
