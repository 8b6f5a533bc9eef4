"""What the files of a self-test show."""

from __future__ import annotations

from collections.abc import Mapping

from qcgen.ir.plan import Plan
from qcgen.ir.self_test import ADDEND, FACTOR, SEED, SelfTest, SelfTestInput
from qcgen.ir.types import DType
from qcgen.render.filters import one_line, real


def shown(plan: Plan, test: SelfTest, accessors: Mapping[str, str]) -> dict[str, object]:
    """What the templates need; ``accessors``: the functions that tell where tensors lie in the arena, by symbols."""
    recorded = {each.port.symbol: each.table.symbol for each in test.inputs if each.table is not None}
    own = [port for port in plan.arguments if port.symbol not in recorded]
    variables = {port.symbol: f"{plan.prefix}_test_tensor_{port.symbol}" for port in own}
    places = variables | {symbol: f"{function}(arena)" for symbol, function in accessors.items()}
    return {
        "own_ports": own,
        "places": places,
        "made": {each.port.symbol: _made(each) for each in test.inputs},
        "tested": [recorded.get(port.symbol) or variables[port.symbol] for port in plan.arguments],
        "unchecked": ", ".join(one_line(call.op.name) for call in plan.calls if call.symbol not in test.written),
        "seed": SEED,
        "factor": FACTOR,
        "addend": ADDEND,
    }


def _made(each: SelfTestInput) -> str:
    """The C expression of the next element of an input."""
    dtype, code = each.port.tensor.dtype, "random >> 24"
    if dtype is not DType.FLOAT32:
        return f"({dtype.c})({code})"
    return f"(float)((int32_t)({code}) - {each.zero_point}) * {real(each.scale)}"
