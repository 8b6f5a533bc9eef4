"""How C code uses a generated function: the variables that it needs, and the calls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from qcgen.ir.plan import Plan, Port


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
