"""The Plan: what the generated C will do, every decision taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from math import isfinite
from typing import Literal

import numpy as np

from qcgen.ir.context import Context
from qcgen.ir.program import Int64s, Operator, Tensor
from qcgen.ir.types import Array
from qcgen.options import OPTIONS


@dataclass(frozen=True)
class Options:
    """The options of a compilation, called as in Python, in the order in which generated files name them."""

    target: str = "portable"
    layout: str = "model"
    optimize: str = "size"
    numerics: str = "onnxruntime"
    arena: int | str | None = None
    flash: int | None = None
    io_memory: str = "caller"
    state: str = "arena"
    input: str = "whole"
    io: str = "model"
    self_test: bool = False
    test_slices: bool = False
    status: bool = False
    outputs: tuple[str, ...] = ()
    rename: tuple[tuple[str, str], ...] = ()
    simplify: bool = True
    weights: str | None = None
    constant_time: bool = False

    @property
    def words(self) -> list[str]:
        """The options as words of a command line: the first four, and the others that do not have their defaults."""
        given = [(each, getattr(self, each.name)) for each in fields(self)]
        told = [*given[:4], *((each, value) for each, value in given[4:] if value != each.default)]
        return [word for each, value in told for word in OPTIONS[each.name].words(value)]


@dataclass(frozen=True)
class Argument:
    """A tensor that the caller passes, ``offset`` bytes into it: ``symbol`` is the parameter's name in C.

    ``is_block``: it is memory for several tensors.
    """

    symbol: str
    offset: int = 0
    is_block: bool = False


@dataclass(frozen=True)
class InArena:
    """A tensor or scratch buffer in the arena, ``offset`` bytes from its start."""

    offset: int


Place = Argument | InArena


@dataclass(frozen=True)
class Port:
    """A tensor at the boundary of the C function; ``shape`` is in the order in which the caller holds it in memory.

    ``direction``: "state" is the caller's memory for all states, "arena" the slow part of an arena in two memories;
    both are in words. ``offset``: where in the arena it begins,
    or a state in that memory; None if it is memory of the caller's itself. ``rows``: of an input that the
    caller pushes row by row, how many there are; None if it is there as a whole.
    """

    tensor: Tensor
    symbol: str
    shape: tuple[int, ...]
    layout: str
    direction: Literal["input", "output", "state", "arena"]
    offset: int | None = None
    rows: int | None = None

    @property
    def bytes(self) -> int:
        """The size in memory."""
        return self.tensor.size * self.tensor.dtype.bytes

    @property
    def is_converted(self) -> bool:
        """Whether the header converts between its codes and real numbers: quantized per tensor, by a usable scale."""
        dtype, scale = self.tensor.dtype, self.tensor.scale
        has_line = dtype.is_quantized and scale is not None and self.tensor.zero_point is not None
        return has_line and scale is not None and isfinite(scale) and scale > 0

    @property
    def row_size(self) -> int:
        """The elements of a row of an input that is pushed."""
        assert self.rows is not None, "only such an input has rows"
        return self.tensor.size // self.rows

    @property
    def row_bytes(self) -> int:
        """The size of such a row in memory."""
        return self.row_size * self.tensor.dtype.bytes


def table_at(symbol: str, prefix: str, options: Options) -> str:
    """Where a table is, in C: by itself or in the block of weights."""
    return symbol if options.weights is None else f"{prefix.upper()}_WEIGHTS->{symbol.removeprefix(f'{prefix}_')}"


@dataclass(frozen=True)
class Table:
    """A constant array: ``values`` in C order (its shape is shown in the declaration), ``meaning`` for the comment.

    ``role`` is what the kernel calls it, ``symbol`` its name in C. ``packed_bits``: those of a number where several lie
    in one element, else None. ``is_number``: the only element stands for the name ``role`` of a template.
    Of float16 numbers C has the words.
    """

    role: str
    symbol: str
    c_type: str
    values: Array
    meaning: str
    packed_bits: int | None = None
    is_number: bool = False

    def __post_init__(self) -> None:
        if self.values.dtype == np.float16:
            object.__setattr__(self, "values", self.values.view(np.uint16))

    @property
    def bytes(self) -> int:
        """The size in flash."""
        return int(self.values.size) * C_BYTES[self.c_type]

    @property
    def has_names(self) -> bool:
        """Whether <math.h> is needed for its numbers: some are infinite or NaN."""
        return not bool(np.isfinite(self.values).all())


@dataclass(frozen=True)
class KeptState:
    """Bytes of the arena, or of the caller's, that stay from call to call: a call finds ``before``, leaves ``after``.

    ``initial``: what NAME_reset puts there, a table or a byte that all of them have.
    """

    before: Port
    after: Port
    initial: Table | int

    @property
    def offset(self) -> int:
        """Where in that memory they begin."""
        assert self.before.offset is not None, "states have places"
        return self.before.offset


C_BYTES = {
    "int8_t": 1,
    "uint8_t": 1,
    "int16_t": 2,
    "uint16_t": 2,
    "int32_t": 4,
    "uint32_t": 4,
    "int64_t": 8,
    "uint64_t": 8,
    "float": 4,
    "double": 8,
}


@dataclass(frozen=True)
class SumWord:
    """The int32 that a kernel hands to the output step: 2^bits * acc + addend[m], modulo 2^32.

    ``addend`` has one number for each output channel, or a single one for all.
    """

    bits: int
    addend: Array


@dataclass(frozen=True)
class Certificate:
    """What is proved of a node: the accumulator interval, whether it wraps, and channels per requantization form.

    ``accumulator`` is None for float operators; ``requantize`` is empty where there is no requantization;
    ``comparisons`` counts the points at which the fixed-point arithmetic was compared with the formula. ``numbers`` are
    those that were compared, by the names of docs/certificate.md: numbers, text, arrays, or such a mapping.
    ``word`` is what the C has where the sum is done, None for operators whose sums are not taken in integers.
    """

    accumulator: tuple[int, int] | None = None
    wraps: bool = False
    requantize: Mapping[str, int] | None = None
    comparisons: int = 0
    word: SumWord | None = field(default=None, repr=False)
    numbers: Mapping[str, object] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Overlap:
    """The output of a call lies over its first input ``x``, which nothing reads afterwards.

    It begins ``distance`` bytes before x (negative: behind the first bytes of x), and ``least`` is the least distance
    at which each byte of x is read before it is written; ``units``: the units of work whose order that follows from.
    """

    x: str
    distance: int
    least: int
    units: int


@dataclass(frozen=True)
class Field:
    """What a layer has for itself in a function that it shares: a table of ``c_type``, or a number.

    ``name``: of a number in a struct of the library, STRUCT.FIELD.
    """

    name: str
    c_type: str
    is_table: bool


@dataclass(frozen=True)
class SharedFunction:
    """A C function that several layers run through: ``symbol`` is its name, ``nodes`` are those of the layers.

    It gets a struct with the ``fields`` of the layer; ``literals`` are sizes that it could have there, the same in all.
    """

    symbol: str
    nodes: tuple[str, ...]
    fields: tuple[Field, ...]
    literals: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Rejected:
    """A kernel that stands before the chosen one, and why it does not serve."""

    kernel: str
    reason: str


NOTHING = np.iinfo(np.int64).max
"""The lowest byte that a unit reads that reads none."""


@dataclass(frozen=True)
class AccessOrder:
    """What a kernel reads and writes, unit by unit in the order in which it computes them.

    ``reads`` (units,) int64: the lowest byte of the first input that each unit reads, NOTHING where it reads none.
    ``writes`` (units,) int64: the byte behind the highest one of the output that it writes. ``gathers``: a unit has
    read all of its input before it writes. ``multiple``: the units are those of one channel, and the kernel computes
    them for one channel after the other; only distances of whole pixels, of so many bytes, keep channels apart.
    """

    reads: Int64s
    writes: Int64s
    gathers: bool
    multiple: int = 1

    @property
    def units(self) -> int:
        """How many units there are, of one channel for a kernel that goes channel by channel."""
        return self.reads.size

    @property
    def distance(self) -> int:
        """The least D for which the output may begin at y = x - D, the input at x; a multiple of ``multiple``.

        For each unit: what it and those before it write ends at or below x plus what later units read, and what it
        reads itself unless it gathers. D is negative where reads run ahead far enough for y to lie above x.
        """
        written = np.maximum.accumulate(self.writes)
        needed = np.minimum.accumulate(self.reads[::-1])[::-1]
        if self.gathers:
            written, needed = written[:-1], needed[1:]
        is_read = needed != NOTHING
        # Where nothing is left to be read, any y will do; -writes[-1] puts the output above all of it.
        least = int((written[is_read] - needed[is_read]).max(initial=-int(self.writes[-1])))
        return least + -least % self.multiple


@dataclass(frozen=True)
class Call:
    """One operator as one C function: ``symbol`` its name, ``context`` what its text shows.

    ``arguments`` are in the order of its parameters: inputs, output, scratch. ``access`` is the order of its reads and
    writes, None if the kernel states none; ``is_elementwise``: each element is read before the same one is written, so
    that the output may take an input's place; ``overlap`` is what the planner made of the order.
    ``shared``: the function that the operator runs through together with others, which gets the layer's own ``numbers``
    beside its tables; then ``context`` is what the text of that one shows, the same for each of them. ``optimize``:
    whether it was compiled for size or for speed; ``cycles``, ``operations`` and ``folded``: what the kernel
    counts of them itself, if it does.
    ``returns_status``: the function returns 1 where the arithmetic has no result for its input, else 0; others return
    nothing. ``passes``: how many times the layer is computed.
    """

    op: Operator
    symbol: str
    kernel: str
    tables: tuple[Table, ...]
    context: Context
    arguments: tuple[Place, ...]
    scratch_bytes: int
    certificate: Certificate
    rejected: tuple[Rejected, ...]
    access: AccessOrder | None = None
    is_elementwise: bool = False
    overlap: Overlap | None = None
    shared: SharedFunction | None = None
    numbers: Mapping[str, int] = field(default_factory=dict)
    optimize: str = "size"
    returns_status: bool = False
    cycles: float | None = None
    operations: float | None = None
    folded: Mapping[str, float] = field(default_factory=dict)
    passes: int = 1

    @property
    def template(self) -> str:
        """The file below templates/ that is the function's text."""
        return self.context.template

    @property
    def constant_bytes(self) -> int:
        """The size of the constant tables in flash."""
        return sum(table.bytes for table in self.tables)


@dataclass(frozen=True)
class View:
    """An operator that needs no code: its output is its input's memory, read in another way."""

    op: Operator


Row = int | Literal["start", "to"]
"""The number of a row, or that which an entry of a schedule names."""


@dataclass(frozen=True)
class RowsAt:
    """A ``row`` of memory that is divided into rows of ``row_bytes`` bytes.

    ``is_cast``: the memory is a parameter whose elements have another type than the row's; theirs have
    ``element_bytes``.
    """

    place: Place
    row_bytes: int
    row: Row
    is_cast: bool = False
    element_bytes: int = 1

    @property
    def begins_the_arena(self) -> bool:
        """Whether the row always lies at the arena's start."""
        return self.place == InArena(0) and self.row == 0


@dataclass(frozen=True)
class Move:
    """The rows ``kept`` behind those that no reader needs any more, ``bytes`` in all, move to a buffer's ``front``."""

    front: InArena
    kept: InArena
    bytes: int


@dataclass(frozen=True)
class Fill:
    """``bytes`` from ``at`` on become ``code``: rows outside an image, or sums; ``meaning`` says it.

    ``code``: the number itself, or the place of the byte that holds it.
    """

    meaning: str
    at: RowsAt
    bytes: int
    code: int | Place


@dataclass(frozen=True)
class Turn:
    """What an entry of a schedule can say: a ``call`` computes its next rows, or a row is copied; then rows ``moves``.

    ``rows``: the C function's arguments that lie in rows, inputs and output; of a copy, from where and to where.
    ``part``: the operator of one call, whose tensors have the rows that it reads and writes; None if calls add up sums.
    """

    call: Call | None
    part: Operator | None
    rows: tuple[RowsAt, ...]
    moves: tuple[Move, ...]
    row_bytes: int


@dataclass(frozen=True)
class KeptRows:
    """How many rows of a tensor a stream keeps, for reports."""

    tensor: str
    rows: int
    of: int
    bytes: int


@dataclass(frozen=True)
class FirstPass:
    """The first of two passes, which finds the range of floats: ``turn`` stands for the last one of a stream.

    Before it, ``nothing`` is filled in; behind it, ``calls`` compute scale and zero point of the second pass.
    """

    nothing: Fill
    turn: Turn
    calls: tuple[Call, ...]


@dataclass(frozen=True)
class Stream:
    """Layers that compute their rows as soon as the rows that they need are there, in an order fixed beforehand.

    ``order`` is a table (entries, 3): the number of the turn, the row from which its call reads its first input, the
    row to which it writes; numbers behind the last turn are those of ``below``, rows of padding below an image.
    ``above`` is done first: rows of padding above images. ``turn``: where the number of the next entry is kept between
    rows of the input that the caller pushes; None if the stream runs at once. ``overlap``: how the output
    lies over what the stream reads, if it does. ``first_pass``: where all turns are taken twice, what is different the
    first time.
    """

    symbol: str
    order: Table
    turns: tuple[Turn, ...]
    above: tuple[Fill, ...]
    below: tuple[Fill, ...]
    kept: tuple[KeptRows, ...]
    turn: InArena | None = None
    overlap: Overlap | None = None
    first_pass: FirstPass | None = None

    @property
    def calls(self) -> tuple[Call, ...]:
        """The layers, in the order of the network."""
        own = [turn.call for turn in self.turns if turn.call is not None]
        first = self.first_pass
        if first is not None and first.turn.call is not None:
            own[-1:] = [first.turn.call, *first.calls, *own[-1:]]
        return tuple(own)

    @property
    def every_turn(self) -> tuple[Turn, ...]:
        """Those of all passes."""
        return self.turns if self.first_pass is None else (*self.turns, self.first_pass.turn)

    @property
    def names_start(self) -> bool:
        """Whether the row from which a call reads depends on the entry for any of them."""
        return any(at.row == "start" for turn in self.every_turn for at in turn.rows)

    @property
    def rows(self) -> tuple[RowsAt, ...]:
        """All rows that are read or written."""
        fills = [fill.at for fill in (*self.above, *self.below)]
        return (*(at for turn in self.every_turn for at in turn.rows), *fills)

    @property
    def scratch(self) -> tuple[Place, ...]:
        """The scratch memory of all calls."""
        return tuple(
            place for turn in self.turns if turn.call is not None for place in turn.call.arguments[len(turn.rows) :]
        )

    @property
    def uses_arena(self) -> bool:
        """Whether anything lies in the arena."""
        return any(isinstance(place, InArena) for place in (*(at.place for at in self.rows), *self._whole))

    @property
    def uses_offsets(self) -> bool:
        """Whether anything lies behind the arena's start."""
        rows = any(isinstance(at.place, InArena) and not at.begins_the_arena for at in self.rows)
        return rows or any(isinstance(place, InArena) and place.offset > 0 for place in self._whole)

    @property
    def _whole(self) -> tuple[Place, ...]:
        """What is not divided into rows."""
        codes = [fill.code for fill in (*self.above, *self.below) if not isinstance(fill.code, int)]
        between = [] if self.first_pass is None else [at for call in self.first_pass.calls for at in call.arguments]
        return (*self.scratch, *codes, *between)

    @property
    def numbered_below(self) -> tuple[tuple[int, Fill], ...]:
        """Rows below images, each with its number in ``order``."""
        return tuple(enumerate(self.below, len(self.turns)))


@dataclass(frozen=True)
class TensorMove:
    """A tensor goes from ``source``, where it was computed, to ``place``, where it is read.

    ``is_state``: the next call reads it there; else it is a node that follows, and less memory is needed so.
    """

    tensor: Tensor
    source: Place
    place: Place
    is_state: bool = False

    @property
    def bytes(self) -> int:
        """How many are copied."""
        return self.tensor.size * self.tensor.dtype.bytes

    @property
    def by(self) -> int:
        """How many bytes further on the tensor goes."""
        return self.place.offset - self.source.offset

    @property
    def is_up(self) -> bool:
        """Whether bytes go to higher addresses, so that the last of them must go first."""
        return self.by > 0

    @property
    def is_apart(self) -> bool:
        """Whether no byte is both read and written."""
        return self.is_state or abs(self.by) >= self.bytes


Step = Call | View | TensorMove | Stream


@dataclass(frozen=True)
class PlacedBuffer:
    """Bytes of the arena from ``offset`` on, alive from node ``first`` to node ``last``, both included.

    ``kind``: a tensor, the rows that are kept of one, scratch memory, the number of the next turn of pushed rows, or a
    state, which stays from call to call;
    ``name`` is the tensor's, else "". ``is_slow``: it lies in the slow part of an arena in
    two memories. Nodes are counted in execution order; -1: the caller writes it before the first
    one; the number of nodes: the caller reads it after the last one.
    """

    name: str
    kind: Literal["tensor", "rows", "scratch", "turn", "state"]
    offset: int
    bytes: int
    first: int
    last: int
    is_slow: bool = False


@dataclass(frozen=True)
class FlashUse:
    """An estimate: ``bytes`` of constants and of code, built with gcc -O2, with a tenth more code than expected;
    ``cycles`` of one inference without wait states, layers computed whole.
    """

    bytes: int
    cycles: int


@dataclass(frozen=True)
class Stretch:
    """The code between two calls of the hook, the second of which is behind ``node`` or a part of it.

    ``cycles`` are an estimate, without wait states.
    """

    node: str
    cycles: int


@dataclass(frozen=True)
class ArenaGrowth:
    """The arena has so many ``bytes`` more than it needs, for copies of constants that are read again and again.

    ``cycles`` of one inference with them and ``cycles_without``, both estimated, with waits for constants in flash but
    not for code.
    """

    bytes: int
    cycles: int
    cycles_without: int


@dataclass(frozen=True)
class Plan:
    """Everything that rendering needs. ``prefix`` starts every symbol; ``model`` is the source's name in comments.

    ``arena_lower_bound`` is the largest sum of the bytes that are alive at the same time, less what outputs may share
    with inputs under them: no placement needs less. ``buffers`` are in the order of their first nodes.
    ``growth``: how much larger the arena is than it need be, and why. ``flash``: what it takes, where --flash chose
    the kernels. ``in_float`` names the nodes of codes that onnxruntime
    computes in float. ``states`` stay in the arena from call to call. ``fast_share``: of all accesses to an arena in
    two memories those to its fast part, estimated.
    """

    prefix: str
    model: str
    sha256: str
    node: str | None
    options: Options
    ports: tuple[Port, ...]
    steps: Sequence[Step]
    arena_bytes: int
    arena_lower_bound: int
    arena_align: int
    buffers: tuple[PlacedBuffer, ...]
    growth: ArenaGrowth | None = None
    flash: FlashUse | None = None
    in_float: frozenset[str] = frozenset()
    states: tuple[KeptState, ...] = ()
    fast_share: float = 1.0

    @property
    def before(self) -> tuple[Port, ...]:
        """All that a call depends on: the inputs and the states that it finds."""
        return (*self.inputs, *(state.before for state in self.states))

    @property
    def after(self) -> tuple[Port, ...]:
        """All that a call gives: the outputs and the states that it leaves."""
        return (*self.outputs, *(state.after for state in self.states))

    @property
    def initial_tables(self) -> tuple[Table, ...]:
        """What states begin with, as far as it is in tables."""
        return tuple(state.initial for state in self.states if isinstance(state.initial, Table))

    @property
    def calls(self) -> tuple[Call, ...]:
        """The operators that have code, in execution order."""
        found: list[Call] = []
        for step in self.steps:
            match step:
                case Call():
                    found.append(step)
                case Stream():
                    found += step.calls
        return tuple(found)

    @property
    def constant_bytes(self) -> int:
        """All constant tables in flash."""
        tables = sum(table.bytes for table in self.initial_tables)
        return tables + sum(call.constant_bytes for call in self.calls)

    @property
    def can_panic(self) -> bool:
        """Whether NAME_run returns 1 where the arithmetic has no result for its inputs."""
        return any(call.returns_status for call in self.calls)

    @property
    def returns_status(self) -> bool:
        """Whether NAME_run returns 0 if there are outputs, another number if there are none; else it is void."""
        return self.can_panic or self.options.status

    @property
    def shared(self) -> tuple[SharedFunction, ...]:
        """The functions that several operators run through, in the order of the first of each."""
        return tuple(dict.fromkeys(call.shared for call in self.calls if call.shared is not None))

    @property
    def whole_calls(self) -> tuple[Call, ...]:
        """Those that compute a whole tensor at once."""
        return tuple(step for step in self.steps if isinstance(step, Call))

    @property
    def streams(self) -> tuple[Stream, ...]:
        """What runs row by row."""
        return tuple(step for step in self.steps if isinstance(step, Stream))

    @property
    def moves(self) -> tuple[TensorMove, ...]:
        """The tensors that are moved between two steps."""
        return tuple(step for step in self.steps if isinstance(step, TensorMove) and not step.is_state)

    @property
    def state_moves(self) -> tuple[TensorMove, ...]:
        """What a call leaves that was not computed where the next one finds it."""
        return tuple(step for step in self.steps if isinstance(step, TensorMove) and step.is_state)

    @property
    def inputs(self) -> tuple[Port, ...]:
        """The inputs in the model's order."""
        return tuple(port for port in self.ports if port.direction == "input")

    @property
    def outputs(self) -> tuple[Port, ...]:
        """The outputs in the model's order."""
        return tuple(port for port in self.ports if port.direction == "output")

    @property
    def arguments(self) -> tuple[Port, ...]:
        """What the caller passes whole: inputs, then outputs, that do not lie in the arena, then memory for states."""
        ports = (*self.inputs, *self.outputs, *self.lent)
        return tuple(port for port in ports if port.offset is None and port is not self.pushed)

    @property
    def state(self) -> tuple[Port, ...]:
        """The caller's memory for states, if they do not lie in the arena."""
        return tuple(port for port in self.ports if port.direction == "state")

    @property
    def slow(self) -> Port | None:
        """The part of the arena that lies in a slow memory, if it has one."""
        return next((port for port in self.ports if port.direction == "arena"), None)

    @property
    def lent(self) -> tuple[Port, ...]:
        """Memory beside the arena that the caller lends: for states, and the arena's slow part."""
        return (*self.state, *(() if self.slow is None else (self.slow,)))

    @property
    def pushed(self) -> Port | None:
        """The input that the caller pushes row by row, None if all are there as a whole."""
        return next((port for port in self.inputs if port.rows is not None), None)
