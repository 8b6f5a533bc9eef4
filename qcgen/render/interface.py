"""What generated code offers its user: what the header has, what the source asks, the variables and calls of a run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from qcgen.arithmetic import is_binary_fraction
from qcgen.cores import TARGETS
from qcgen.ir.plan import Plan, Port, RowsAt
from qcgen.ir.self_test import SelfTest
from qcgen.render.c_text import place, rows_at


@dataclass(frozen=True)
class Conversion:
    """How the header converts between a port's numbers and codes."""

    low: int
    """The lowest code less the zero point; high, the highest."""
    high: int
    is_fraction: bool
    """The scale is 2^-1 to 2^-32."""


def converted(plan: Plan) -> dict[str, Conversion]:
    """The ports whose codes the header converts, by their symbols."""
    found = {}
    for port in plan.ports:
        dtype, scale, zero_point = port.tensor.dtype, port.tensor.scale, port.tensor.zero_point
        if port.is_converted and scale is not None and zero_point is not None:
            low, high = dtype.low - zero_point, dtype.high - zero_point
            found[port.symbol] = Conversion(low, high, is_binary_fraction(scale))
    return found


def arena_word(plan: Plan) -> str:
    """A type that is aligned as the arena must be."""
    return "uint64_t" if plan.arena_align > 4 else "uint32_t"


def preconditions(plan: Plan, takes_r9: bool) -> Iterator[str]:
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


def numbers(plan: Plan) -> dict[str, int]:
    """The numbers of nodes, by their symbols: their places in the table at the head of the source."""
    return {call.symbol: number for number, call in enumerate(plan.calls)}


def hashing(plan: Plan, test: SelfTest | None) -> dict[str, str]:
    """What the source does behind each call that a self-test checks, by the calls' symbols."""
    if test is None:
        return {}
    found = {}
    for symbol, number in numbers(plan).items():
        if symbol in test.written:
            at, size = test.written[symbol].at, test.written[symbol].bytes
            text = rows_at(at) if isinstance(at, RowsAt) else place(at)
            found[symbol] = f"{plan.prefix}_test_hash(hashes, {number}, {text}, {size})"
    return found


def aligned(plan: Plan) -> str:
    """That the arena lies as the compiler aligns its type."""
    arena = f"{plan.prefix}_arena"
    return f"(uintptr_t)arena % (sizeof(struct {arena}_behind) - sizeof({arena})) == 0"


def conditions(plan: Plan) -> Iterator[str]:
    """What must hold when the function is called: the arena is aligned, what is written lies apart from the rest."""
    macro = plan.prefix.upper()
    sizes = {port.symbol: port.bytes for port in plan.arguments}
    written = [port.symbol for port in plan.arguments if port.direction != "input"]
    if plan.arena_bytes:
        yield aligned(plan)
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
