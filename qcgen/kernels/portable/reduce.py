"""portable/reduce, float_sum: sums, means, largest and smallest elements, norms along any axes.

portable/global_average_pool, mean_of_rows, float_mean, float_mean_of_rows: the mean of each channel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

import numpy as np

from qcgen.errors import prove
from qcgen.intervals import AccumulatorInterval, element_sums
from qcgen.ir.context import Context, Struct
from qcgen.ir.plan import Certificate
from qcgen.ir.program import GlobalAveragePool, Operator, Reduce, Requantize
from qcgen.kernels.elements import Elements, elements
from qcgen.kernels.epilogue import Output, OutputStep, prepare_requantize
from qcgen.kernels.kernel import Constants, Kernel, Order, Prepared, Setting
from qcgen.kernels.loop_nest import LoopNest, kept_nest, loop_nest_of_one, step_along, strides
from qcgen.kernels.pooling import (
    MAX_AXES,
    ROW_BY_ROW,
    MeansCall,
    MeansContext,
    are_lanes,
    means_call,
    places_of,
    prepare_mean,
    prepare_means,
    why_no_mean,
)
from qcgen.kernels.text import LibraryCall, library_call


@dataclass(frozen=True)
class ReduceContext(Context):
    """Sums, means, largest and smallest elements, norms along any axes. Texts are C with blanks."""

    template: ClassVar[str] = "kernels/portable/reduce.c.jinja"

    loops: Elements  # over the elements of y
    group: LoopNest  # the loops over the elements of x that become one
    group_what: str  # what becomes of them, in words
    x_type: str  # of C
    group_type: str  # of what they become
    before: str  # these loops
    inside: str  # of them
    behind: str  # them
    output: Output | None  # None: the largest or the smallest element, or float32


FLOATS = {
    "sum": ("sum", "0.0f", "result += {x};", "result"),
    "mean": ("mean", "0.0f", "result += {x};", "result / {count}"),
    "product": ("product", "1.0f", "result *= {x};", "result"),
    "l1": ("norm", "0.0f", "result += fabsf({x});", "result"),
    "squares": ("norm", "0.0f", "result += qcgen_rounded({x} * {x});", "result"),
    "l2": ("norm", "0.0f", "result += qcgen_rounded({x} * {x});", "sqrtf(result)"),
    "max": ("largest", "x[0]", "result = {x} > result ? {x} : result;", "result"),
    "min": ("smallest", "x[0]", "result = {x} < result ? {x} : result;", "result"),
}
"""In words, and in C where it starts, what each element does, and what becomes of it: codes have the last two, too."""


def why_not_reduce(op: Operator, setting: Setting) -> str | None:
    """Serves every reduction but those of rows of float32."""
    if not isinstance(op, Reduce):
        return f"{op.op_type} is not a reduction along axes"
    return "it adds up rows of float32" if why_no_rows(op, setting) is None else None


def prepare_reduce(op: Operator, setting: Setting) -> Prepared:
    """One element of y after the other, in the order of its memory."""
    assert isinstance(op, Reduce)
    what = f" over {_named(op.axes)}."
    if op.requantize is not None:
        step = _requantized(op, op.requantize, setting)
        start = int(step.addend[0]) - op.count * (op.x.zero_point or 0)
        return Prepared(
            step.constants, _sum_of_codes(op, op.axes, setting, start, step.output, what), (), step.certificate
        )
    word, begin, each, end = FLOATS[op.kind]
    group_what = f"the {word} of {op.count} element{'s' * (op.count > 1)}, from the first of them on"
    group = (group_what, op.y.dtype.c, begin, each, end)
    return Prepared(
        (),
        _reduced(op, op.axes, setting, what, group, "{symbol}_group(&{x})", {"count": float(op.count)}),
        (),
        Certificate(),
    )


def _sum_of_codes(
    op: Reduce | GlobalAveragePool, axes: tuple[int, ...], setting: Setting, start: int, output: Output, what: str
) -> ReduceContext:
    """The context of sums that ``start`` so, which the output step makes codes."""
    count = prod(op.x.shape[axis] for axis in axes)
    group_what = f"the sum of {count} element{'s' * (count > 1)}, from the first of them on, less their zero points"
    channel = ", 0" if output.is_per_channel else ""
    stored = f"{{symbol}}_requantize({{symbol}}_group(&{{x}}){channel})"
    group = (group_what, "int32_t", "{start}", "result += {x};", "result")
    return _reduced(op, axes, setting, what, group, stored, {"start": start}, output)


def _reduced(
    op: Reduce | GlobalAveragePool,
    axes: tuple[int, ...],
    setting: Setting,
    what: str,
    group: tuple[str, str, str, str, str],
    stored: str,
    numbers: Mapping[str, float],
    output: Output | None = None,
) -> ReduceContext:
    """The context; ``group``: what becomes of elements in words, its type, its start, step and end."""
    group_what, group_type, start, step, end = group
    types = {"x": op.x.dtype.c, "y": op.y.dtype.c}
    nest = kept_nest(op.x, op.y, axes, setting)
    return ReduceContext(
        loops=elements(op, nest, types, stored, what=what, is_apart=True, numbers=numbers),
        group=loop_nest_of_one((op.x.shape[axis], strides(op.x.shape, setting.xs[0])[axis]) for axis in axes),
        group_what=group_what,
        x_type=op.x.dtype.c,
        group_type=group_type,
        before=f"{group_type} result = {start};",
        inside=step,
        behind=f"return {end};",
        output=output,
    )


def _requantized(op: Reduce, requantize: Requantize, setting: Setting) -> OutputStep:
    """The output step of sums, with its certificate: any codes of x's type may come."""
    interval = element_sums(op, *(np.array([end], np.int64) for end in (op.x.dtype.low, op.x.dtype.high)))
    prove(not interval.wraps, "no sum leaves int32")
    scale = "x_scale / (count * y_scale)" if op.kind == "mean" else "x_scale / y_scale"
    epilogue = prepare_requantize(requantize, op.y.dtype.c, interval, setting.features, scale=scale, is_alone=True)
    prove(_starts_in_range(op, epilogue, interval), "no sum leaves int32 on its way")
    numbers = {**epilogue.certificate.numbers, "kind": "sum"}
    return replace(epilogue, certificate=replace(epilogue.certificate, word=None, numbers=numbers))


def _starts_in_range(op: Reduce, epilogue: OutputStep, interval: AccumulatorInterval) -> bool:
    """Whether sums of codes that start with the zero points and the addend stay within int32 at each step."""
    start = int(epilogue.addend[0]) - op.count * (op.x.zero_point or 0)
    steps = (start, start + op.count * op.x.dtype.low, start + op.count * op.x.dtype.high)
    return all(-(2**31) <= step < 2**31 for step in steps) and bool((interval.lo <= interval.hi).all())


REDUCE = Kernel("portable/reduce", ReduceContext, frozenset(), why_not_reduce, prepare_reduce)


def why_no_rows(op: Operator, setting: Setting) -> str | None:
    """Serves sums of float32 numbers in rows at equal distances, as the planner lays them."""
    if not isinstance(op, Reduce) or op.row is None:
        return f"{op.op_type} does not add up rows of float32"
    return None if _steps(op, setting) is not None else "rows of its input do not lie at equal distances"


def _steps(op: Reduce, setting: Setting) -> tuple[int, int] | None:
    """From an element of a row to the next, and from one of the rows that become one element to the next."""
    assert op.row is not None
    inner = op.row[1]
    step = step_along(op.x.shape, setting.xs[0], inner)
    between = step_along(op.x.shape, setting.xs[0], [axis for axis in op.axes if axis not in inner])
    return None if step is None or between is None else (step, between)


def prepare_float_sum(op: Operator, setting: Setting) -> Prepared:
    """One element of y after the other, in the order of its memory."""
    assert isinstance(op, Reduce)
    assert op.row is not None
    way, inner = op.row
    outer = tuple(axis for axis in op.axes if axis not in inner)
    steps = _steps(op, setting)
    assert steps is not None, "it has rows"
    length, rows = (prod(op.x.shape[axis] for axis in axes) for axes in (inner, outer))
    has_place, is_even = way == "eights" and length % 4 != 0, _is_row_major(op, setting.y)
    tables = (_places(op, setting.y),) if has_place and not is_even else ()
    place = "0" if not has_place else f"(uint32_t)(&{{y}} - y) * {length}" if is_even else "{place}"
    arguments = ["&layer", "&{x}", *([place] * (way == "eights"))]
    mean = " / {count}" if op.kind == "mean" else ""
    numbers = {"length": length, "step": steps[0], "rows": rows, "row_step": steps[1]}
    numbers["places"] = op.y.size * length if has_place else 0
    roles = tuple(table.role for table in tables)
    types = {"x": "float", **dict.fromkeys(roles, "uint8_t"), "y": "float"}
    context = elements(
        op,
        kept_nest(op.x, op.y, op.axes, setting, roles),
        types,
        f"qcgen_float_sum_of_{way}({', '.join(arguments)}){mean}",
        what=f" over {_named(op.axes)}, in onnxruntime's order.",
        tables=roles,
        numbers={"count": float(op.count)},
        layer=Struct("float_rows", (), numbers),
    )
    return Prepared(tables, context, (), Certificate())


def _named(axes: tuple[int, ...]) -> str:
    """Axes in words."""
    return f"ax{'i' if len(axes) == 1 else 'e'}s {', '.join(map(str, axes))}"


def _is_row_major(op: Reduce, order: Order) -> bool:
    """Whether y lies in memory as the model numbers its elements."""
    moving = [axis for axis in order if op.y.shape[axis] > 1]
    return moving == sorted(moving)


def _places(op: Reduce, order: Order) -> Constants:
    """The places of rows in x modulo 4, as y lies in memory."""
    kept = [axis for axis in range(len(op.x.shape)) if axis not in op.axes]
    named = kept if len(op.y.shape) == len(op.x.shape) else list(range(len(kept)))
    in_memory = [kept[named.index(axis)] for axis in order if axis in named]
    first = np.arange(op.x.size).reshape(op.x.shape)
    for axis in op.axes:
        first = first.take([0], axis)
    places = first.transpose([*in_memory, *op.axes]).reshape(-1) % 4
    return Constants("place", "uint8_t", places, "the place of each row in x, modulo 4.")


FLOAT_SUM = Kernel("portable/float_sum", Elements, frozenset(), why_no_rows, prepare_float_sum)


FEWEST_LANES = 4
"""Sums that every core has registers for."""


@dataclass(frozen=True)
class GlobalAveragePoolContext(Context):
    """The mean of each channel."""

    template: ClassVar[str] = "kernels/portable/global_average_pool.c.jinja"

    has_lanes: bool  # channels lie side by side, not fewer than those whose sums fit in registers
    lanes: MeansCall
    others: ReduceContext


def why_not_global_average_pool(op: Operator, setting: Setting) -> str | None:
    """Serves every global average pooling of a whole image."""
    if isinstance(op, GlobalAveragePool) and op.requantize is None:
        return "its numbers are floats"
    return why_no_mean(op) or (ROW_BY_ROW if setting.in_rows else None)


def prepare_global_average_pool(op: Operator, setting: Setting) -> Prepared:
    """Channels last: as many sums as registers hold, or vectors on the host. Else channel by channel."""
    assert isinstance(op, GlobalAveragePool)
    mean = prepare_mean(op, setting)
    function = "code_means_by_fours" if setting.target.is_small else "code_means_by_vectors"
    axes = tuple(axis for axis in range(1, len(op.x.shape)) if axis != op.channel_axis)
    context = GlobalAveragePoolContext(
        has_lanes=are_lanes(op, setting) and op.x.shape[op.channel_axis] >= FEWEST_LANES,
        lanes=means_call(op, setting, function, mean),
        others=_sum_of_codes(op, axes, setting, mean.start, mean.output, f" of {op.pixels} pixels."),
    )
    return Prepared(mean.constants, context, (), mean.certificate)


GLOBAL_AVERAGE_POOL = Kernel(
    "portable/global_average_pool",
    GlobalAveragePoolContext,
    frozenset(),
    why_not_global_average_pool,
    prepare_global_average_pool,
)


def why_not_mean_of_rows(op: Operator, setting: Setting) -> str | None:
    """Serves global average pooling of codes in a stream."""
    if not setting.in_rows:
        return "its rows do not come one by one"
    if isinstance(op, GlobalAveragePool) and op.requantize is None:
        return "its numbers are floats"
    return why_no_mean(op)


def prepare_mean_of_rows(op: Operator, setting: Setting) -> Prepared:
    """The operator is the whole one; its function takes a row, the output, and the sums, in memory of the stream's."""
    assert isinstance(op, GlobalAveragePool)
    return prepare_means(op, setting, "code_means_of_rows", width=op.pixels // _rows(op, setting))


def _rows(op: GlobalAveragePool, setting: Setting) -> int:
    """The rows of an image."""
    return op.x.shape[next(axis for axis in setting.xs[0][1:] if axis != op.channel_axis)]


MEAN_OF_ROWS = Kernel("portable/mean_of_rows", MeansContext, frozenset(), why_not_mean_of_rows, prepare_mean_of_rows)


def why_not_float_mean(op: Operator, setting: Setting) -> str | None:
    """Serves every float global average pooling of a whole image."""
    if isinstance(op, GlobalAveragePool) and op.requantize is not None:
        return "its numbers are codes"
    return why_no_mean(op) or (ROW_BY_ROW if setting.in_rows else None)


def prepare_float_mean(op: Operator, setting: Setting) -> Prepared:
    """One pixel after the other; or four sums of every fourth, then what they add up to, then those that are left."""
    assert isinstance(op, GlobalAveragePool)
    axes = _pixel_axes(op, setting)
    sizes, steps = zip(*axes, *((1, 0),) * (MAX_AXES - len(axes)), strict=True)
    return _float_means(op, setting, "float_means", arrays={"size": sizes, "step": steps})


def _pixel_axes(op: GlobalAveragePool, setting: Setting) -> list[tuple[int, int]]:
    """The sizes and steps of the axes of pixels, in the model's order; one axis if pixels lie at equal distances."""
    steps = strides(op.x.shape, setting.xs[0])
    axes = [axis for axis in range(1, len(op.x.shape)) if axis != op.channel_axis and op.x.shape[axis] > 1]
    step = step_along(op.x.shape, setting.xs[0], axes)
    return [(op.x.shape[axis], steps[axis]) for axis in axes] if step is None else [(op.pixels, step)]


def _float_means(
    op: GlobalAveragePool,
    setting: Setting,
    function: str,
    more: Mapping[str, int] | None = None,
    arrays: Mapping[str, tuple[int, ...]] | None = None,
) -> Prepared:
    """A call of the library's ``function`` for means in onnxruntime's order; ``more``, ``arrays``: of its struct."""
    numbers = {**places_of(op, setting), "sums": op.sums, **(more or {})}
    layer = Struct("float_mean", (), numbers, arrays=arrays or {})
    parameters, arguments = "const float *restrict x, float *restrict y", ["x", "y"]
    if setting.in_rows:
        parameters, arguments = f"{parameters}, float *sums", [*arguments, "sums"]
    how = "one pixel after the other" if op.sums == 1 else "four sums side by side"
    what = f"Of {op.pixels} pixels, added up in onnxruntime's order: {how}."
    return Prepared((), library_call(op, what, parameters, function, *arguments, layer=layer), (), Certificate())


FLOAT_MEAN = Kernel("portable/float_mean", LibraryCall, frozenset(), why_not_float_mean, prepare_float_mean)


def why_not_float_mean_of_rows(op: Operator, setting: Setting) -> str | None:
    """Serves float global average pooling in a stream."""
    if not setting.in_rows:
        return "its rows do not come one by one"
    if isinstance(op, GlobalAveragePool) and op.requantize is not None:
        return "its numbers are codes"
    return why_no_mean(op)


def prepare_float_mean_of_rows(op: Operator, setting: Setting) -> Prepared:
    """The operator is the whole one; its function takes a row, the output, and the sums."""
    assert isinstance(op, GlobalAveragePool)
    return _float_means(op, setting, "float_means_of_rows", {"width": op.pixels // _rows(op, setting)})


FLOAT_MEAN_OF_ROWS = Kernel(
    "portable/float_mean_of_rows", LibraryCall, frozenset(), why_not_float_mean_of_rows, prepare_float_mean_of_rows
)
