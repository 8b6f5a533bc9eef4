"""What the templates of the generated files and of a self-test show besides the nodes' own functions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from qcgen.arithmetic import is_binary_fraction, meant_text
from qcgen.cores import TARGETS
from qcgen.ir.context import Context
from qcgen.ir.plan import Argument, Call, InArena, KeptState, Plan, Port, RowsAt, Step, Stream, TensorMove, View
from qcgen.ir.self_test import ADDEND, FACTOR, SelfTest, SelfTestInput
from qcgen.ir.types import DType
from qcgen.library import standard_headers
from qcgen.options import OPTIONS
from qcgen.plan.names import STATE, accessor_names
from qcgen.render.block import BlockContext, block_context
from qcgen.render.c_text import one_line, place, real, rows_at
from qcgen.render.head import Proof, certificate, memory, overlap_place, summary
from qcgen.version import __version__


@dataclass(frozen=True)
class ModelContext(Context):
    """What model.h.jinja and model.c.jinja show, and with a self-test its templates, too."""

    template: ClassVar[str] = "model.c.jinja"
    plan: Plan  # whose files these are
    prefix: str  # what every symbol begins with
    PREFIX: str  # the same for macros
    version: str  # of qcgen
    header_id: str  # in header and source: they belong together
    parameters: str  # of NAME_run, or of NAME_end
    arguments: str  # of a call of it, without the arena
    pushed: Pushed | None  # an input that comes row by row
    accessors: tuple[Accessor, ...]  # of inputs and outputs in the arena
    options: str  # as the user would write them
    meant: str  # the arithmetic that outputs are equal to
    bodies: tuple[str, ...]  # the functions of each node
    library: tuple[str, ...]  # functions that nodes share
    summary: tuple[str, ...]  # lines of the head
    memory: tuple[str, ...]  # lines of the head on what lies where
    certificates: tuple[Proof, ...]  # what is proved of each node
    arena_word: str  # a type that is aligned as the arena must be
    converted: Mapping[str, Conversion]  # ports whose codes the header converts, by their symbols
    aligned: str  # the condition that the arena is
    conditions: tuple[str, ...]  # that must hold when the function is called
    weaker: tuple[str, ...]  # conditions under which the core is weaker than the target
    takes_r9: bool  # some assembly does, which a program may have reserved
    preconditions: tuple[str, ...]  # what the source asks of compiler and core
    result: str  # the type that NAME_run returns
    stops: bool  # the hook may end a run
    uses_status: bool  # some statement of NAME_run may
    unread: tuple[str, ...]  # inputs on which no output depends
    uses_arena: bool  # there is one
    uses_offsets: bool  # something that a node reads or writes does not begin the arena
    headers: tuple[str, ...]  # of the standard library, besides stdint.h
    streams: tuple[str, ...]  # functions that run layers row by row
    resets: tuple[str, ...]  # of NAME_reset
    state_bytes: int  # that stay from call to call
    reset_parameter: str  # of it
    resets_offsets: bool  # some state does not begin the arena
    statements: tuple[str, ...]  # of NAME_run
    test: SelfTest | None  # what the self-test compares
    numbers: Mapping[str, int]  # of nodes, by their symbols
    has_tables: bool  # that a self-test hashes
    block: BlockContext | None  # tables and numbers of the model, if they are apart from the code
    weights_id: str  # of the code that blocks fit
    is_small: bool  # numbers of nodes and sizes of tables fit one word together


def model_context(
    plan: Plan,
    test: SelfTest | None,
    bodies: Sequence[str],
    streams: Sequence[str],
    library: Sequence[str],
    header_id: str,
    weights_id: str,
) -> ModelContext:
    """The context of a plan's files, from the text of its functions; ``library``: of those that nodes share."""
    hashed, target = hashing(plan, test), TARGETS[plan.options.target]
    takes_r9 = any(re.search(r"\br9\b", text) for text in (*bodies, *library))
    calls = plan.whole_calls
    statements = tuple(statement for step in plan.steps for statement in _statements(plan, step, hashed))
    return ModelContext(
        plan=plan,
        prefix=plan.prefix,
        PREFIX=plan.prefix.upper(),
        version=__version__,
        header_id=header_id,
        parameters=parameters(plan),
        arguments=", ".join(port.symbol for port in plan.arguments),
        pushed=_pushed(plan),
        accessors=tuple(accessors(plan)),
        options=options_text(plan),
        meant=meant_text(plan.options.numerics),
        bodies=tuple(bodies),
        library=tuple(library),
        summary=tuple(summary(plan)),
        memory=tuple(memory(plan)),
        certificates=tuple(certificate(call, is_float_there=call.op.name in plan.in_float) for call in plan.calls),
        arena_word=_arena_word(plan),
        converted=_converted(plan),
        aligned=_aligned(plan),
        conditions=tuple(_conditions(plan)),
        weaker=target.weaker,
        takes_r9=takes_r9,
        preconditions=tuple(_preconditions(plan, takes_r9)),
        result="int" if plan.returns_status else "void",
        stops=plan.options.status,
        uses_status=any(text.startswith("status = ") for text in statements),
        unread=tuple(_unread(plan)),
        uses_arena=plan.arena_bytes > 0,
        uses_offsets=any(isinstance(at, InArena) and at.offset for call in calls for at in call.arguments),
        headers=_headers(plan, test, [*bodies, *library]),
        streams=tuple(streams),
        resets=tuple(_reset(state, is_callers=bool(plan.state)) for state in plan.states),
        state_bytes=sum(state.before.bytes for state in plan.states),
        reset_parameter=f"{plan.state[0].tensor.dtype.c} *{STATE}" if plan.state else "void *arena",
        resets_offsets=not plan.state and any(state.offset for state in plan.states),
        statements=statements,
        test=test,
        numbers=_numbers(plan),
        has_tables=test is not None and any(call.tables for call in plan.calls),
        block=block_context(plan),
        weights_id=weights_id,
        is_small=len(plan.calls) < 2**10 and all(t.bytes < 2**22 for call in plan.calls for t in call.tables),
    )


def _headers(plan: Plan, test: SelfTest | None, texts: Sequence[str]) -> tuple[str, ...]:
    """What a file includes for the texts of its functions, its tables, for copies and for a self-test."""
    tables = [*plan.initial_tables, *(table for call in plan.calls for table in call.tables)]
    also = {
        "math.h": any(table.has_names for table in tables),
        "stddef.h": test is not None,
        "string.h": bool(plan.streams or plan.moves or plan.states),
    }
    return tuple(sorted({*standard_headers(texts), *(name for name, is_used in also.items() if is_used)}))


@dataclass(frozen=True)
class StreamContext(Context):
    """What stream.c.jinja shows: the function that runs layers row by row."""

    template: ClassVar[str] = "stream.c.jinja"
    PREFIX: str  # what macros begin with
    stops: bool  # the hook may end a run
    stream: Stream
    ports: tuple[Port, ...]  # that it reads or writes
    pushed: Port | None
    numbers: Mapping[str, int]  # of nodes, by their symbols
    hashed: Mapping[str, str]  # what a self-test does behind each call, by its symbol
    hashed_last: tuple[str, ...]  # what it does behind the last call, for those that add up sums
    overlap: str | None  # where its output begins that lies over what it reads


def stream_context(plan: Plan, stream: Stream, hashed: Mapping[str, str]) -> StreamContext:
    """The context of a stream."""
    sums = {turn.call.symbol for turn in stream.every_turn if turn.call is not None and turn.part is None}
    return StreamContext(
        PREFIX=plan.prefix.upper(),
        stops=plan.options.status,
        stream=stream,
        ports=tuple(_ports(plan, stream)),
        pushed=plan.pushed,
        numbers=_numbers(plan),
        hashed={symbol: text for symbol, text in hashed.items() if symbol not in sums},
        hashed_last=tuple(text for symbol, text in hashed.items() if symbol in sums),
        overlap=None if stream.overlap is None else overlap_place(stream.overlap.distance),
    )


def _unread(plan: Plan) -> list[str]:
    """The inputs on which no output depends."""
    read = {place.symbol for call in plan.calls for place in call.arguments if isinstance(place, Argument)}
    return [port.symbol for port in plan.inputs if port in plan.arguments and port.symbol not in read]


def parameters(plan: Plan) -> str:
    """Those of NAME_run: inputs, then outputs, in the model's order, unless they lie in the arena; then the arena.

    Those of NAME_end start with the arena, as do those of the functions before it.
    """
    ports = [f"{'const ' if p.direction == 'input' else ''}{p.tensor.dtype.c} *{p.symbol}" for p in plan.arguments]
    return ", ".join(["void *arena", *ports] if plan.pushed else [*ports, "void *arena"])


@dataclass(frozen=True)
class Pushed:
    """The input whose rows are pushed, and the stream that takes them.

    The arena's start needs no offset: a function that writes nowhere else does not use ``bytes``.
    """

    port: Port
    stream: Stream

    @property
    def turn_uses_offset(self) -> bool:
        """Whether the number of the next turn lies behind the arena's start."""
        return self.stream.turn is not None and self.stream.turn.offset > 0

    @property
    def begin_uses_offset(self) -> bool:
        """Whether anything that NAME_begin writes does."""
        return self.turn_uses_offset or any(fill.at.place.offset > 0 for fill in self.stream.above)


def _pushed(plan: Plan) -> Pushed | None:
    port = plan.pushed
    return None if port is None else Pushed(port, next(each for each in plan.streams if each.turn is not None))


@dataclass(frozen=True)
class Accessor:
    """The function ``symbol`` of the header tells where ``port`` lies in the arena."""

    symbol: str
    port: Port


def accessors(plan: Plan) -> list[Accessor]:
    """One for each input and output that lies in the arena."""
    found = []
    for kind, ports in (("input", plan.inputs), ("output", plan.outputs)):
        names = accessor_names([port.symbol for port in ports], kind)
        found += [Accessor(f"{plan.prefix}_{name}", port) for name, port in zip(names, ports, strict=True)]
    return [accessor for accessor in found if accessor.port.offset is not None]


def options_text(plan: Plan) -> str:
    """The options as the user would write them."""
    return " ".join(map(one_line, option_words(plan)))


def option_words(plan: Plan) -> list[str]:
    """The options as words of a command line."""
    return [*plan.options.words, *(OPTIONS["node"].words(plan.node) if plan.node else [])]


def _statements(plan: Plan, step: Step, hashed: Mapping[str, str]) -> list[str]:
    """What NAME_run does for a step."""
    match step:
        case Call():
            hook = f"{plan.prefix.upper()}_HOOK({_numbers(plan)[step.symbol]})"
            call = f"{step.symbol}({', '.join(map(place, step.arguments))})"
            called = [f"if ({call} != 0) {{", "    return 1;", "}"] if step.returns_status else [f"{call};"]
            hooked = _stopping(hook) if plan.options.status else [f"{hook};"]
            return [*called, *hooked, *(f"{text};" for text in filter(None, [hashed.get(step.symbol)]))]
        case Stream() if step.turn is not None:
            return []  # it has run when all rows have come
        case Stream():
            arguments = [*(port.symbol for port in _ports(plan, step)), "arena", *(["hashes"] if hashed else [])]
            call = f"{step.symbol}({', '.join(arguments)})"
            return _stopping(call) if plan.options.status else [f"{call};"]
        case TensorMove():
            by_library = "memcpy" if step.is_apart else "memmove"
            is_own = step.is_up and not step.is_apart
            function = f"{plan.prefix}_move_up" if is_own else f"(void){by_library}"
            return [f"{function}({place(step.place)}, {place(step.source)}, {step.bytes});"]
        case View():
            return []


def _stopping(call: str) -> list[str]:
    """A call that ends the run if it gives another number than 0."""
    return [f"status = {call};", "if (status != 0) {", "    return status;", "}"]


def _reset(state: KeptState, *, is_callers: bool) -> str:
    """What makes a state initial, which lies in the caller's memory for it or in the arena."""
    memory = Argument(STATE, state.offset, is_block=True) if is_callers else InArena(state.offset)
    at, name = place(memory), one_line(state.before.tensor.name)
    if isinstance(state.initial, int):
        return f"(void)memset({at}, {state.initial}, {state.before.bytes}); /* {name} */"
    return f"(void)memcpy({at}, {state.initial.symbol}, {state.before.bytes}); /* {name} */"


def _ports(plan: Plan, stream: Stream) -> list[Port]:
    """The inputs and outputs of the network that a stream reads or writes."""
    places = [row.place for row in stream.rows]
    if stream.first_pass is not None:
        places += [place for call in stream.first_pass.calls for place in call.arguments]
    symbols = {place.symbol for place in places if isinstance(place, Argument)}
    return [port for port in plan.ports if port.symbol in symbols]


# The files of a self-test.


@dataclass(frozen=True)
class SelfTestContext(Context):
    """What test.h.jinja and test.c.jinja show besides the model's own context."""

    template: ClassVar[str] = "test.c.jinja"
    own_ports: tuple[Port, ...]  # whose tensors are variables of the test
    places: Mapping[str, str]  # where the test finds inputs and outputs, by their symbols
    made: Mapping[str, str]  # the next element of an input, by its symbol
    tested: tuple[str, ...]  # the arguments of the function
    unchecked: str  # nodes without a hash
    seed: int  # of the random numbers, with the two of their recurrence
    factor: int  # by which a number is multiplied for the next one
    addend: int  # what is added then


def self_test_context(plan: Plan, test: SelfTest, accessors: Mapping[str, str]) -> SelfTestContext:
    """The context; ``accessors``: the functions that tell where tensors lie in the arena, by symbols."""
    recorded = {each.port.symbol: each.table.symbol for each in test.inputs if each.table is not None}
    own = tuple(port for port in plan.arguments if port.symbol not in recorded)
    variables = {port.symbol: f"{plan.prefix}_test_tensor_{port.symbol}" for port in own}
    return SelfTestContext(
        own_ports=own,
        places=variables | {symbol: f"{function}(arena)" for symbol, function in accessors.items()},
        made={each.port.symbol: _made(each) for each in test.inputs},
        tested=tuple(recorded.get(port.symbol) or variables[port.symbol] for port in plan.arguments),
        unchecked=", ".join(one_line(call.op.name) for call in plan.calls if call.symbol not in test.written),
        seed=test.seed,
        factor=FACTOR,
        addend=ADDEND,
    )


def _made(each: SelfTestInput) -> str:
    """The C expression of the next element of an input."""
    dtype, code = each.port.tensor.dtype, "random >> 24"
    if dtype is DType.FLOAT16:
        return "(uint16_t)((random >> 31 << 15) + 0x3c00 + ((random >> 24 & 127) << 3))"
    if not dtype.is_float:
        return f"({dtype.c})({code})"
    return f"({dtype.c})((int32_t)({code}) - {each.zero_point}) * {real(each.scale)}"


# What generated code offers its user: what the header has, what the source asks.


@dataclass(frozen=True)
class Conversion:
    """How the header converts between a port's numbers and codes."""

    low: int
    """The lowest code less the zero point; high, the highest."""
    high: int
    is_fraction: bool
    """The scale is 2^-1 to 2^-32."""


def _converted(plan: Plan) -> dict[str, Conversion]:
    """The ports whose codes the header converts, by their symbols."""
    found = {}
    for port in plan.ports:
        dtype, scale, zero_point = port.tensor.dtype, port.tensor.scale, port.tensor.zero_point
        if port.is_converted and scale is not None and zero_point is not None:
            low, high = dtype.low - zero_point, dtype.high - zero_point
            found[port.symbol] = Conversion(low, high, is_binary_fraction(scale))
    return found


def _arena_word(plan: Plan) -> str:
    """A type that is aligned as the arena must be."""
    return "uint64_t" if plan.arena_align > 4 else "uint32_t"


def _preconditions(plan: Plan, takes_r9: bool) -> Iterator[str]:
    """What the source asks of compiler and core beyond C99; docs/generated-code.md has the same on one page."""
    target = TARGETS[plan.options.target]
    yield "signed numbers are two's complement, >> of negative ones is arithmetic, conversions to signed types wrap"
    if target.reads_words_anywhere:
        yield "words that lie anywhere can be read: UNALIGN_TRP in CCR is 0, or -mno-unaligned-access is given"
    if target.is_small and target.has_fpu:
        what = "the floating-point unit and Helium are" if "mve" in target.features else "the floating-point unit is"
        yield f"{what} on (CPACR) before the first call, if the compiler may use {'them' if 'are' in what else 'it'}"
    if takes_r9:
        yield f"r9 is not reserved (-ffixed-r9, -msingle-pic-base), or {plan.prefix.upper()}_KEEP_R9 is defined"


def _numbers(plan: Plan) -> dict[str, int]:
    """The numbers of nodes, by their symbols: their places in the table at the head of the source."""
    return {call.symbol: number for number, call in enumerate(plan.calls)}


def hashing(plan: Plan, test: SelfTest | None) -> dict[str, str]:
    """What the source does behind each call that a self-test checks, by the calls' symbols."""
    if test is None:
        return {}
    found = {}
    for symbol, number in _numbers(plan).items():
        if symbol in test.written:
            at, size = test.written[symbol].at, test.written[symbol].bytes
            text = rows_at(at) if isinstance(at, RowsAt) else place(at)
            found[symbol] = f"{plan.prefix}_test_hash(hashes, {number}, {text}, {size})"
    return found


def _aligned(plan: Plan) -> str:
    """That the arena lies as the compiler aligns its type."""
    arena = f"{plan.prefix}_arena"
    return f"(uintptr_t)arena % (sizeof(struct {arena}_behind) - sizeof({arena})) == 0"


def _conditions(plan: Plan) -> Iterator[str]:
    """What must hold when the function is called: the arena is aligned, what is written lies apart from the rest."""
    macro = plan.prefix.upper()
    sizes = {port.symbol: port.bytes for port in plan.arguments}
    written = [port.symbol for port in plan.arguments if port.direction != "input"]
    if plan.arena_bytes:
        yield _aligned(plan)
        sizes["arena"] = plan.arena_bytes
        written.append("arena")
    read = [port.symbol for port in plan.arguments if port.direction == "input"]
    for index, b in enumerate(written):
        for a in (*read, *written[:index]):
            yield f"{macro}_ARE_APART({a}, {sizes[a]}, {b}, {sizes[b]})"


# How C code uses a generated function: the variables that it needs, and the calls.


@dataclass(frozen=True)
class Usage:
    """Definitions of the tensors that do not lie in the arena, and the statements of a run, as lines of C."""

    variables: tuple[str, ...]
    statements: tuple[str, ...]


def usage(plan: Plan, arena: str = "&arena") -> Usage:
    """How to run a network in an arena; of an input that is pushed row by row, the same row is pushed again."""
    ports = plan.arguments if plan.pushed is None else (plan.pushed, *plan.arguments)
    variables = tuple(f"static {port.tensor.dtype.c} {variable(plan, port)}[{_size(plan, port)}];" for port in ports)
    tensors = [variable(plan, port) for port in plan.arguments]
    if plan.pushed is None:
        call = f"{plan.prefix}_run({', '.join([*tensors, arena])})"
        kept = variable(plan, plan.state[0]) if plan.state else arena
        before = (f"{plan.prefix}_reset({kept}); /* before the first call, and to begin anew */",)
        return Usage(variables, (*(before if plan.states else ()), *_tested(call, plan)))
    rows = f"{_macro(plan, plan.pushed)}_ROWS"
    push = _tested(f"{plan.prefix}_push_row({arena}, {variable(plan, plan.pushed)})", plan)
    loop = (f"for (int32_t row = 0; row < {rows}; row++) {{", *(f"    {line}" for line in push), "}")
    end = _tested(f"{plan.prefix}_end({', '.join([arena, *tensors])})", plan)
    return Usage(variables, (f"{plan.prefix}_begin({arena});", *loop, *end))


def _tested(call: str, plan: Plan) -> Iterator[str]:
    """A call, and whether there are outputs, if it tells that."""
    if not plan.returns_status:
        yield f"{call};"
        return
    why = "Orion panics on these inputs" if plan.can_panic else f"{plan.prefix.upper()}_HOOK ended the run"
    yield f"if ({call} != 0) {{"
    yield f"    /* {why}: there are no outputs. */"
    yield "}"


def variable(plan: Plan, port: Port) -> str:
    """The name of the variable that holds a tensor."""
    return f"{plan.prefix}_tensor_{port.symbol}"


def _macro(plan: Plan, port: Port) -> str:
    return f"{plan.prefix}_{port.symbol}".upper()


def _size(plan: Plan, port: Port) -> str:
    return f"{_macro(plan, port)}_{'SIZE' if port.rows is None else 'ROW_SIZE'}"
