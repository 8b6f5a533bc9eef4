"""portable/top_k: where the largest or the smallest elements of an axis are; portable/gather_elements: those there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from qcgen.ir.context import Context
from qcgen.ir.plan import Certificate
from qcgen.ir.program import GatherElements, Operator, TopK
from qcgen.kernels.groups import kept_nest
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Scratch, Setting
from qcgen.kernels.loop_nest import LoopNest, nest_of, strides


@dataclass(frozen=True)
class TopKContext(Context):
    """Where the largest or the smallest elements of an axis are."""

    template: ClassVar[str] = "kernels/portable/top_k.c.jinja"

    nest: LoopNest  # the loops over the other axes
    x_type: str  # of C
    count: int  # elements that are compared
    k: int  # of them are found
    x_along: int  # from one of them to the next
    y_along: int  # from one place to the next


def why_not(op: Operator, _setting: Setting) -> str | None:
    """Serves every search for several elements."""
    return None if isinstance(op, TopK) else f"{op.op_type} does not look for several elements"


def prepare(op: Operator, setting: Setting) -> Prepared:
    """The best elements so far are kept in scratch memory, in their order."""
    assert isinstance(op, TopK)
    k = op.y.shape[op.axis]
    context = TopKContext(
        nest=kept_nest(op.x, op.y, (op.axis,), setting),
        x_type=op.x.dtype.c,
        count=op.x.shape[op.axis],
        k=k,
        x_along=strides(op.x.shape, setting.xs[0])[op.axis],
        y_along=strides(op.y.shape, setting.y)[op.axis],
    )
    return Prepared((), context, (Scratch(k * op.x.dtype.bytes, op.x.dtype.bytes),), Certificate())


@dataclass(frozen=True)
class GatherElementsContext(Context):
    """Elements at computed places of an axis."""

    template: ClassVar[str] = "kernels/portable/gather_elements.c.jinja"

    nest: LoopNest  # the loops over the elements of y
    types: Mapping[str, str]  # of C, by "x", "places" and "y"
    place_type: str  # of C, of one place
    given: tuple[str, ...]  # operands that are parameters: of "x", "places"
    constant: tuple[str, ...]  # operands that are tables
    count: int  # elements of the axis
    along: int  # from one of them to the next


def why_not_gather(op: Operator, _setting: Setting) -> str | None:
    """Serves all elements at computed places."""
    return None if isinstance(op, GatherElements) else f"{op.op_type} takes no elements at computed places"


def prepare_gather(op: Operator, setting: Setting) -> Prepared:
    """One element of y after the other; x has steps along the other axes only. A constant operand is a table."""
    assert isinstance(op, GatherElements)
    operands = {"x": op.x, "places": op.places}
    tables = tuple(
        Constants(role, tensor.dtype.c, setting.constants[tensor.name].reshape(-1), f"the model's {tensor.name}.")
        for role, tensor in operands.items()
        if tensor.name in setting.constants
    )
    constant = tuple(table.role for table in tables)
    orders = dict(zip(operands, setting.xs, strict=True)) | {role: range(len(op.y.shape)) for role in constant}
    steps = {role: list(strides(tensor.shape, tuple(orders[role]))) for role, tensor in operands.items()}
    along, steps["x"][op.axis] = steps["x"][op.axis], 0
    nest = nest_of(op.y.shape, {**steps, "y": strides(op.y.shape, setting.y)})
    types = {"x": f"const {op.x.dtype.c}", "places": f"const {op.places.dtype.c}", "y": op.y.dtype.c}
    given = tuple(role for role in operands if role not in constant)
    context = GatherElementsContext(nest, types, op.places.dtype.c, given, constant, op.x.shape[op.axis], along)
    return Prepared(tables, context, (), Certificate())


TOP_K = Kernel("portable/top_k", TopKContext, frozenset(), why_not, prepare)
GATHER_ELEMENTS = Kernel("portable/gather_elements", GatherElementsContext, frozenset(), why_not_gather, prepare_gather)
