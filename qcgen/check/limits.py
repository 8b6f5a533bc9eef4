"""Rules for single attributes, inputs and scales: what is not supported, or leaves the range of the arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import isinf, prod
from typing import Concatenate, ParamSpec, TypeVar

import numpy as np

from qcgen import arithmetic
from qcgen.check.node import AGAIN, EIGHT_BITS, Extra, NodeView, not_positive
from qcgen.errors import Problem
from qcgen.geometry import AUTO_PADS, COORDINATES
from qcgen.infer.facts import counted, shape_text
from qcgen.ir.graph import element_type
from qcgen.ir.types import CODES, Q8, Array, DType

MAX_TAPS = 2**14
"""The most elements of a window of codes that are averaged."""


P = ParamSpec("P")
T = TypeVar("T")


def of_a_node(function: Callable[Concatenate[NodeView, P], T]) -> Callable[P, Callable[[NodeView], T]]:
    """A function that is told of the node later: rules of several operators differ in the other arguments."""
    return lambda *args, **kwargs: lambda view: function(view, *args, **kwargs)


@of_a_node
def flag(view: NodeView, name: str, *values: int) -> Iterator[Problem]:
    """An integer attribute has one of these values, the first of them if it is absent."""
    value = view.integer(name, values[0])
    if value not in values:
        yield view.problem(f"{name} is {value}, but must be {' or '.join(map(str, values))}", f"correct {name}")


@of_a_node
def one_of(view: NodeView, name: str, *values: str) -> Iterator[Problem]:
    """A string attribute has one of these values, the first of them if it is absent."""
    value = view.node.attributes.get(name, values[0])
    if isinstance(value, str) and value not in values:
        yield view.problem(f"{name} {value!r} is not supported", f"use one of {', '.join(values)}")


def auto_pad_exists(view: NodeView) -> Iterator[Problem]:
    """The attribute auto_pad has one of its values."""
    value = view.node.attributes.get("auto_pad", "NOTSET")
    if isinstance(value, str) and value not in AUTO_PADS:
        meant = value.strip().upper()
        hint = f"write {meant}" if meant in AUTO_PADS else f"use one of {', '.join(AUTO_PADS)}"
        yield view.problem(f"auto_pad is {value!r}, which does not exist", hint)


def few_taps(view: NodeView) -> Iterator[Problem]:
    """The means of all windows are proved, each with all its elements."""
    taps = prod(view.integers("kernel_shape") or ())
    if taps > MAX_TAPS:
        what = f"its window has {taps} elements, more than {MAX_TAPS}"
        yield view.problem(what, "use QLinearGlobalAveragePool, or smaller windows one after the other")


def sorted_elements(view: NodeView) -> Iterator[Problem]:
    """Several elements come in their order: without ``sorted`` onnxruntime has one of its own."""
    array = view.array("K")
    if view.node.attributes.get("sorted", 1) == 0 and array is not None and array.max(initial=0) > 1:
        yield view.problem("sorted is 0: onnxruntime gives them in an order of its own", "export it with sorted=1")


def finite_constants(view: NodeView) -> Iterator[Problem]:
    """Float constants are written into C as numbers."""
    for index, role in view.roles():
        array = view.array(index)
        broken = 0 if array is None or array.dtype.kind != "f" else int(np.count_nonzero(~np.isfinite(array)))
        if broken:
            what = f"{counted(broken, 'element')} of {role} {'is' if broken == 1 else 'are'} not finite"
            hint = "put the largest float32 number, or its negative, in an infinity's place, or train or export again"
            yield view.problem(what, hint)


def bounds_are_numbers(view: NodeView) -> Iterator[Problem]:
    """The bounds of a Clip, NaN is neither above nor below anything."""
    for role in ("min", "max"):
        array = view.array(role)
        if array is not None and array.dtype.kind == "f" and np.isnan(array).any():
            yield view.problem(f"{role} is NaN", f"correct {role}, or export the model again")


def bounds_in_order(view: NodeView) -> Iterator[Problem]:
    """A Clip with bounds as attributes, those before opset 11, is refused by onnxruntime if min is above max."""
    low, high = (view.node.attributes.get(name) for name in ("min", "max"))
    if isinstance(low, int | float) and isinstance(high, int | float) and low > high:
        what = f"its min {low:g} is above its max {high:g}, which onnxruntime refuses before opset 11"
        yield view.problem(what, "correct the bounds; if the upper one shall win, export with opset 11 or later")


def finite_numbers(view: NodeView) -> Iterator[Problem]:
    """Float attributes are finite."""
    for name, value in view.node.attributes.items():
        if name in view.signature.attributes and isinstance(value, float) and isinf(value):
            yield view.problem(f"{name} is not finite", f"correct {name}")


def same_types(view: NodeView) -> Iterator[Problem]:
    """Tensors that are joined have one type."""
    dtypes = {dtype for index in range(len(view.node.inputs)) if (dtype := view.dtype(index)) is not None}
    if len(dtypes) > 1:
        names = ", ".join(sorted(dtype.value for dtype in dtypes))
        yield view.problem(f"its inputs have different types: {names}", "give them one type")


def converts(view: NodeView) -> Iterator[Problem]:
    """A Cast is accepted between all types but to unsigned ones of 32 and 64 bits, which are no codes."""
    if "to" not in view.node.attributes:
        yield view.problem("it has no attribute to", "add to, the type that is meant")
    before, after = view.dtype(0), element_type(view.integer("to", 0))
    if before is None or after is None or before is after:
        return
    if DType.OTHER in (before, after) or before is DType.UINT64 or after in (DType.UINT32, DType.UINT64):
        yield view.problem(
            f"it converts {before.value} to {after.value}",
            "convert between int8, uint8, int16, uint16, int32, int64, bool, float16 and float",
        )


def quantized_result(view: NodeView) -> Iterator[Problem]:
    """QuantizeLinear gives codes of 8 or 16 bits."""
    dtype = view.graph.value(view.node.outputs[0]).dtype
    if dtype is not None and dtype not in CODES:
        must = " or ".join(each.value for each in CODES)
        yield view.problem(f"its result is {dtype.value}, but must be {must}", EIGHT_BITS)


def zero_point_is_zero(view: NodeView) -> Iterator[Problem]:
    """int32 numbers are dequantized without a zero point."""
    array = view.array("x_zero_point")
    if view.dtype(0) is DType.INT32 and array is not None and (array != 0).any():
        yield view.problem("x is int32, but x_zero_point is not 0", "use 0, or leave x_zero_point out")


def pads_forward(view: NodeView) -> Iterator[Problem]:
    """Pad makes tensors larger, codes by codes."""
    if min(view.integers("pads") or (), default=0) < 0:
        yield view.problem("its pads are negative", "use Slice to remove elements")
    value = view.array("constant_value")
    if value is not None and value.size != 1:
        yield view.problem(f"constant_value has {counted(value.size, 'element')}", "give one number")
    filling, dtype = view.node.attributes.get("value", 0.0), view.dtype(0)
    if dtype in CODES and dtype and isinstance(filling, float | int):
        code = int(np.clip(np.nan_to_num(filling), dtype.low, dtype.high))
        if filling != code:
            yield view.problem(f"it fills codes of {dtype.value} with {filling:.6g}", "give a code of this type")


def norm_of_something(view: NodeView) -> Iterator[Problem]:
    """Runtimes do not agree on what a norm along no axis is."""
    if view.integer("noop_with_empty_axes", 0) and not view.integers("axes"):
        yield view.problem("it names no axes and has noop_with_empty_axes", "name the axes")


def computed_indices_of_rows(view: NodeView) -> Iterator[Problem]:
    """Gather: indices that are computed, or given, name rows of a constant table."""
    if view.array(1) is not None:
        return
    x, axis = view.shape(0), view.integer("axis", 0)
    if view.array(0) is None:
        what = f"neither its data nor its indices are constant: {view.source(1)}"
        yield view.problem(what, "store either in the model as an initializer")
    elif x is not None and 0 in x:
        yield view.problem(f"its table has shape {shape_text(x)}: it is empty", AGAIN)
    elif x is not None and axis % max(len(x), 1) != 0:
        hint = "transpose the table, so that its rows are taken"
        yield view.problem(f"it takes elements of axis {axis} of a table at places that are not constant", hint)


def is_nearest(view: NodeView) -> Iterator[Problem]:
    """Resize takes the nearest element, or weighs codes channels last; other linear ones have been written out."""
    mode, axes = view.node.attributes.get("mode", "nearest"), "the last two of four axes"
    is_known = view.node.attributes.get("coordinate_transformation_mode", "half_pixel") in COORDINATES
    if mode == "linear" and is_known and not _is_image_of_codes(view):
        hint = f"it works along {axes}, channels last along the middle two; scales or sizes are constant"
        yield view.problem("mode 'linear' is not supported in this form", f"{hint}, the opset 11 or newer")
    elif isinstance(mode, str) and mode not in ("linear", "nearest"):
        yield view.problem(f"mode {mode!r} is not supported", f"use nearest, or linear along {axes}")
    for name in ("roi", "scales", "sizes"):
        if view.node.version >= 11 and view.has(name) and view.array(name) is None:
            yield view.problem(f"{name} is not constant: {view.source(name)}", "store it as an initializer")
    if view.node.version < 11 and view.array(1) is None:
        yield view.problem("scales is not constant", "store it as an initializer")
    for name, meant in (("antialias", 0), ("exclude_outside", 0)):
        if view.integer(name, meant) != meant:
            yield view.problem(f"{name} is not supported", f"remove {name}")


def _is_image_of_codes(view: NodeView) -> bool:
    x, y = view.fixed_shape(0), view.graph.value(view.node.outputs[0]).fixed_shape
    if view.dtype(0) not in Q8 or view.node.version < 11 or x is None or y is None:
        return False
    mode = view.node.attributes.get("coordinate_transformation_mode")
    return len(x) == 4 and (x[0], x[3]) == (y[0], y[3]) and not view.has("axes") and mode != "tf_half_pixel_for_nn"


def not_training(view: NodeView) -> Iterator[Problem]:
    """Dropout does nothing in inference."""
    mode = view.array("training_mode")
    if (view.has("training_mode") and mode is None) or (mode is not None and mode.any()):
        yield view.problem("it drops elements at random", "export the model for inference")


# Scales whose arithmetic would leave the range of float32 or int32.

RESCALE = "the scales are too far apart: quantize the model again"
LARGER = "use a larger y_scale, such as 1/256"


def scale_at(view: NodeView, operand: int | str) -> float | None:
    """A per-tensor scale, None if it is absent, malformed or wrong, which is reported elsewhere."""
    array = view.array(operand)
    if array is None or array.size != 1 or array.dtype != np.float32:
        return None
    value = float(array.reshape(()))
    return value if np.isfinite(value) and value > 0 else None


Scales = Callable[[NodeView], list[float | None]]
"""From a node to the scales of its inputs and its output."""


@of_a_node
def at(view: NodeView, *roles: str) -> list[float | None]:
    """Those of these names."""
    return [scale_at(view, role) for role in roles]


@of_a_node
def between(view: NodeView, count: int) -> list[float | None]:
    """Those of the codes of 8 bits of which the first inputs, ``count``, are dequantized, and of the output."""
    graph, codes = view.graph, [view.graph.dequantizer(view.node.input(index)) for index in range(count)]
    ends = [(node, node.input(0)) for node in codes if node is not None]
    quantize = graph.quantizer(view.node)
    ends += [] if quantize is None else [(quantize, quantize.outputs[0])]
    found = [scale_at(view.beside(node), 1) for node, name in ends if graph.dtype(name) in Q8]
    return found if len(found) == count + 1 else [None]


@of_a_node
def of_codes(view: NodeView, rule: Extra) -> Iterator[Problem]:
    """A rule for operators of one input between codes of 8 bits alone."""
    yield from rule(view) if None not in between(1)(view) else ()


ScaleRange = Callable[..., str]
"""From a node, and its scales, to what is out of range of the arithmetic of codes, "" if nothing is."""


@of_a_node
def in_range(view: NodeView, what: ScaleRange, scales: Scales, hint: str = RESCALE) -> Iterator[Problem]:
    """These scales are in this range."""
    found = scales(view)
    wrong = "" if None in found else what(view, *found)
    if wrong:
        yield view.problem(wrong, hint)


def sums(_: NodeView, a: float, b: float, y: float) -> str:
    """QLinearAdd converts its float sum to int32."""
    return "" if (a + b) / y * 256 + 256 < 2**31 else f"(A_scale + B_scale) / C_scale is {(a + b) / y:.6g}"


def products(_: NodeView, a: float, b: float, y: float) -> str:
    """QLinearMul converts its float product to int32; a ratio that underflows makes every output the zero point."""
    ratio = float(arithmetic.multiplier_scale(np.asarray(a), np.asarray(b), np.asarray(y)))
    return "" if ratio < (2**31 - 256) / 255**2 else f"A_scale * B_scale / C_scale is {ratio:.6g}"


def averages(_: NodeView, x: float, y: float) -> str:
    """QLinearAveragePool adds floats, emulated for normal numbers, and converts their mean to int32."""
    if not 2.0**-100 <= x <= 2.0**100:
        return f"x_scale is {x:.6g}: float32 does not hold all sums of such numbers"
    return "" if x / y * 256 + 256 < 2**31 else f"x_scale / y_scale is {x / y:.6g}"


def means(view: NodeView, x: float, y: float) -> str:
    """onnxruntime refuses global means whose multiplier leaves [2^-32, 256)."""
    shape = view.fixed_shape(0)
    if shape is None or min(shape, default=0) < 1:
        return ""
    pixels = prod(shape[1:-1] if view.integer("channels_last", 0) == 1 else shape[2:])
    scale = float(arithmetic.global_average_scale(x, y, pixels))
    is_right = 2.0**-32 <= scale < 256 and pixels < 2**24
    return "" if is_right else f"x_scale / (y_scale * {pixels} pixels) is {scale:.6g}"


def softmaxes(_: NodeView, __: float, y: float) -> str:
    """QLinearSoftmax multiplies by floor(1 / y_scale)."""
    is_right = arithmetic.softmax_factor(y) <= arithmetic.SOFTMAX_LARGEST_FACTOR
    return "" if is_right else f"y_scale is {y:.6g}: every code saturates"


def says_which_softmax(view: NodeView) -> Iterator[Problem]:
    """QLinearSoftmax says which Softmax is meant."""
    if "opset" not in view.node.attributes:
        yield view.problem("it has no attribute opset", "add opset, the version of Softmax that is meant")


@of_a_node
def multiplier_in_range(view: NodeView, x: str, w: str, y: str) -> Iterator[Problem]:
    """x_scale * w_scale / y_scale is finite in float32, of which these are the names."""
    return _multiplier(view, f"{x} * {w} / {y}", scale_at(view, x), view.array(w), scale_at(view, y))


def multiplier_between_in_range(view: NodeView) -> Iterator[Problem]:
    """The same of a product between codes of 8 bits."""
    x_scale, y_scale = (*between(1)(view), None)[:2]
    weights = view.graph.dequantizer(view.node.input(1))
    w_scale = None if weights is None else view.graph.constants.get(weights.input(1))
    return _multiplier(view, "the product of its scales", x_scale, w_scale, y_scale)


def _multiplier(
    view: NodeView, name: str, x_scale: float | None, w_scale: Array | None, y_scale: float | None
) -> Iterator[Problem]:
    if x_scale is None or y_scale is None or w_scale is None or w_scale.dtype != np.float32:
        return
    scale = arithmetic.requantization_scale(np.asarray(x_scale), w_scale.reshape(-1), np.asarray(y_scale))
    wrong = not_positive(name, scale)
    if wrong is not None and not_positive(name, w_scale) is None:
        yield view.problem(f"{wrong} in float32", RESCALE)
