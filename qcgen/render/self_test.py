"""What the files of a self-test show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from qcgen.ir.context import Context
from qcgen.ir.plan import Plan, Port
from qcgen.ir.self_test import ADDEND, FACTOR, SelfTest, SelfTestInput
from qcgen.ir.types import DType
from qcgen.render.filters import one_line, real


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
