"""Why a network cannot get its input row by row."""

from __future__ import annotations

from collections.abc import Sequence

from qcgen.errors import Problem
from qcgen.ir.plan import Port
from qcgen.ir.program import Operator, inputs_of
from qcgen.options import spelt
from qcgen.plan.arrange import Arranged
from qcgen.plan.stream.stages import MOST_ROWS, stage_of


def require_one_input(ports: Sequence[Port]) -> Problem | None:
    """What is wrong if there is not exactly one input."""
    inputs = [port for port in ports if port.direction == "input"]
    if len(inputs) == 1:
        return None
    what = f"it has {len(inputs)} inputs, and rows are pushed of a single one"
    return Problem("the network", what, f"leave {spelt(input='rows')} out")


def why_not_pushed(steps: Sequence[Arranged], ports: Sequence[Port]) -> Problem:
    """The first cause for which no chain of layers starts with rows of the only input."""
    [x] = [port for port in ports if port.direction == "input"]
    hint = f"leave {spelt(input='rows')} out"
    where = f"input {x.tensor.name!r}"
    if not x.tensor.dtype.is_quantized:
        what = f"its elements are {x.tensor.dtype.value}, and layers of 8-bit integers alone run row by row"
        return Problem(where, what, f"use {spelt(io='quantized')} if the network begins with QuantizeLinear, or {hint}")
    if len(x.tensor.shape) != 4 or x.tensor.shape[0] != 1:
        shape = ", ".join(map(str, x.tensor.shape))
        return Problem(where, f"its shape is [{shape}], and rows are those of one image", hint)
    first = steps[0].op
    if "channels first" in x.layout:
        what = "its channels lie first, so that no row lies in one piece"
        return Problem(where, what, f"use {spelt(layout='nhwc')}, or {hint}")
    if x.shape[1] > MOST_ROWS:
        what = f"it has {x.shape[1]:,} rows, and images of at most {MOST_ROWS:,} run row by row"
        return Problem(where, what, hint)
    if steps[0].is_view or stage_of(steps[0], 0, 1) is None:
        what = "it reads the input and does not run row by row"
        return Problem(_node(first), what, hint)
    readers = [step.op for step in steps if any(each.name == x.tensor.name for each in inputs_of(step.op))]
    if len(readers) > 1:
        what = "it reads the input, too, and no chain of layers that run row by row reaches from the first one to it"
        return Problem(_node(readers[-1]), what, hint)
    what = "it computes an output while rows come, before the caller says where outputs lie"
    return Problem(_node(first), what, f"use {spelt(io_memory='arena')}, or {hint}")


def _node(op: Operator) -> str:
    return f"node {op.name!r} ({op.op_type})"
