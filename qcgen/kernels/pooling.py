"""What poolings share: the loops of windows, MaxPool among them, and the sums and pixels of means of whole images."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import product
from math import prod
from typing import ClassVar, TypeVar

import numpy as np

from qcgen.cores import BRANCHLESS
from qcgen.errors import prove
from qcgen.intervals import INT32_MAX, AccumulatorInterval
from qcgen.ir.context import Context, Struct
from qcgen.ir.plan import Certificate
from qcgen.ir.program import ConvGeometry, GlobalAveragePool, MaxPool, Operator, RoundOnce, Tensor
from qcgen.ir.types import DType, Layout
from qcgen.kernels.epilogue import Output, OutputStep, prepare_requantize, prepare_round_once
from qcgen.kernels.kernel import Constants, Prepared, Setting, number
from qcgen.kernels.loop_nest import loop_nest_of_one, pixel_stride, strides
from qcgen.kernels.text import KINDS
from qcgen.kernels.windows import Axis, any_at_border, any_inside, axes, images, output_steps

Numbers = TypeVar("Numbers", int, tuple[int, ...])
MAX_AXES = 4  # of a struct
MAX_TAPS = 64  # written out one by one; larger windows get a loop over their taps


@dataclass(frozen=True)
class PoolContext(Context):
    """A pooling, by a function of the library."""

    template: ClassVar[str] = "kernels/portable/pool.c.jinja"

    window: str  # in words
    type: str  # of C, of both images
    kind: str  # how the names of functions end that take it
    layer: Struct
    mean: Struct | None  # the output step of means of codes
    run: str  # what computes a run of outputs whose windows lie within the image
    inner: str  # what computes one of them; "" if `run` does
    any: str  # what computes those of any window; "" if all lie within it
    counts_taps: bool = False  # divisors are the taps in the image
    zero: str = ""  # behind the table of what codes stand for, in C: where that of code 0 is
    is_guarded: bool = False  # some sums are so near a step that their outputs are computed as at the border
    lowest: str = ""  # what maxima start with, in C
    keep: str = ""  # what takes elements to maxima; "" if the pooling has none


def why_not_max(op: Operator, _setting: Setting) -> str | None:
    """Serves every max pooling of int8, uint8 and float32."""
    return None if isinstance(op, MaxPool) else f"{op.op_type} is not a max pooling"


def prepare_max(op: Operator, setting: Setting) -> Prepared:
    """No constants; outputs are kept where they belong while the loop over its window runs."""
    assert isinstance(op, MaxPool)
    is_float = op.x.dtype is DType.FLOAT32
    context = pooling_of(op.geometry, op.x, setting, "largest")
    inner = keep = "largest"
    if BRANCHLESS in setting.features and not is_float:
        inner = keep = "largest_branchless"
    elif _chooses_by_branches(setting):
        # Codes are compared as words: compilers extend bytes for each comparison. Cortex-M0 then takes up to two fifths
        # fewer instructions, RV32IMC half; with gcc -O3 a third more if windows are neighbours in a row, which share
        # what they find.
        inner = "largest" if is_float or op.geometry.strides[-1] == 1 else "largest_word"
        keep = "larger"
    # That of the type, which onnxruntime gives of a window without a tap on the image.
    lowest = f"{np.finfo(np.float32).min}f" if is_float else str(op.x.dtype.low)
    context = replace(context, inner=inner, lowest=lowest, keep=f"keep_{keep}" if context.any else "")
    return Prepared((), context, (), Certificate(), operations=operations(context))


def operations(context: PoolContext) -> float:
    """What the functions become: fitted to what gcc -O2 makes of layers; a float32 sum in integers is worth 25."""
    taps = len(context.layer.arrays["tap"])
    means = context.mean is not None and (context.is_guarded or bool(context.any))
    return 30.0 + 3.0 * taps + (47.0 if context.any else 40.0 if means else 0.0) + (27.0 if means else 0.0)


def _chooses_by_branches(setting: Setting) -> bool:
    """Whether a choice is a branch; elsewhere bytes are compared as fast as words, or in vectors."""
    return setting.target.is_small and not (setting.target.chooses_without_branches or "mve" in setting.features)


def is_written_out(spatial: tuple[Axis, ...]) -> bool:
    """Whether there are windows wholly within the image, and few taps: then these are written out."""
    return prod(axis.kernel for axis in spatial) <= MAX_TAPS and any_inside(spatial)


def pooling_of(
    g: ConvGeometry,
    x: Tensor,
    setting: Setting,
    what: str,
    more: Mapping[str, int] | None = None,
    *,
    mean: Struct | None = None,
    has_line: bool = True,
) -> PoolContext:
    """``what`` is computed of windows, ``more``: fields of the struct on that.

    ``has_line``: windows in the image are computed otherwise than those at the border.
    """
    x_last = setting.x_layout is Layout.CHANNELS_LAST
    spatial = axes(g, setting.x_layout)
    across = spatial[-1]
    steps = output_steps(g, setting.y_layout)
    has_inside = has_line and is_written_out(spatial)
    has_border = not has_inside or any_at_border(spatial)
    columns = across.inside_end - across.inside_begin
    numbers = {
        "batch": g.batch,
        "planes": 1 if x_last else g.in_channels,
        "lanes": g.in_channels if x_last else 1,
        "inside": across.inside_begin,
        "beyond": across.inside_end,
        "x_plane": prod(g.input),
        "run": g.in_channels if x_last else columns,
        "columns": 1 if x_last else columns,
        "run_step": 1 if x_last else across.stride,
        "run_out": steps.y_channel if x_last else steps.y_pixel,
        "taps": prod(g.kernel) if has_inside else 0,
    }
    numbers |= asdict(images(g)) | asdict(steps)
    last = _of_axes((axis.input - axis.span for axis in spatial), 0) if has_inside else (-1,) * MAX_AXES
    arrays = {
        "input": _of_axes(g.input, 1),
        "output": _of_axes(g.output, 1),
        "kernel": _of_axes(g.kernel, 1),
        "stride": _of_axes(g.strides, 1),
        "dilation": _of_axes(g.dilations, 1),
        "pad": _of_axes(g.pads_begin, 0),
        "step": _of_axes((axis.step for axis in spatial), 0),
        "last": last,
        "tap": _taps(spatial) if has_inside else (0,),
    }
    is_rolled = not x_last and any(axis.stride < axis.span for axis in spatial)
    return PoolContext(
        window=_kind(g),
        type=x.dtype.c,
        kind=KINDS[x.dtype],
        layer=Struct("wpool", (), _told(numbers | dict(more or {})), arrays=_told(arrays)),
        mean=mean,
        run="rolled_loop" if is_rolled else "indexed_loop" if setting.target.isa == "armv6-m" else "loop",
        inner=what,
        any=f"any_{what}" if has_border else "",
    )


def _told(fields: Mapping[str, Numbers]) -> dict[str, Numbers]:
    """Those that are not 0: a struct has this anyway."""
    return {name: value for name, value in fields.items() if value not in (0, (0,) * MAX_AXES)}


def _of_axes(own: Iterable[int], other: int) -> tuple[int, ...]:
    """A number of each axis; ``other``: of those that the image does not have."""
    found = tuple(own)
    return (other,) * (MAX_AXES - len(found)) + found


def _kind(g: ConvGeometry) -> str:
    return "window " + "x".join(map(str, g.kernel)) + ", stride " + "x".join(map(str, g.strides))


def _taps(spatial: tuple[Axis, ...]) -> tuple[int, ...]:
    """The distance of each tap from the first element of the window, rows from top to bottom."""
    places = product(*(range(axis.kernel) for axis in spatial))
    return tuple(sum(k * axis.tap_step for k, axis in zip(place, spatial, strict=True)) for place in places)


@dataclass(frozen=True)
class MeansCall(Context):
    """What computes means of images of codes."""

    function: str  # of the library
    means: Struct  # of it
    y_type: str  # of C
    in_rows: bool  # rows come one by one, and the function gets their sums so far
    stands_alone: bool  # the function is not inlined


@dataclass(frozen=True)
class MeansContext(Context):
    """Means of images of codes, by a function of the library."""

    template: ClassVar[str] = "kernels/means.c.jinja"

    call: MeansCall
    output: Output
    x_type: str  # of C


@dataclass(frozen=True)
class Mean:
    """The output step of means in integers, and where their sums ``start``, in codes."""

    start: int
    epilogue: OutputStep
    certificate: Certificate

    @property
    def output(self) -> Output:
        """What templates show of the output step."""
        return self.epilogue.output

    @property
    def constants(self) -> tuple[Constants, ...]:
        """The tables of the output step, and the start if it may become another."""
        if self.epilogue.common is None or not self.epilogue.common.is_free:
            return self.epilogue.constants
        return (*self.epilogue.constants, number("start", "int32_t", self.start, "where sums of codes start."))


ROW_BY_ROW = "its rows come one by one"


def why_no_mean(op: Operator) -> str | None:
    """The operator is not a global average pooling."""
    return None if isinstance(op, GlobalAveragePool) else f"{op.op_type} is not a mean of whole images"


def prepare_mean(op: GlobalAveragePool, setting: Setting) -> Mean:
    """The output step of means of codes, with its certificate."""
    requantize = op.requantize
    assert requantize is not None, "its numbers are codes"
    interval = _interval_of(op)
    scale = "x_scale / (pixels * y_scale)"
    if isinstance(requantize, RoundOnce):
        epilogue = prepare_round_once(requantize, op.y.dtype.c, interval, scale)
    else:
        prove(requantize.scale.size == 1, "all channels have one scale")
        epilogue = prepare_requantize(
            requantize,
            op.y.dtype.c,
            interval,
            setting.features,
            common=setting.common,
            scale=scale,
            is_alone=not setting.is_free,
        )
    start = epilogue.addend - op.pixels * (op.x.zero_point or 0)
    levels = op.x.dtype.high - op.x.dtype.low
    prove(bool(abs(start).max() + levels * op.pixels <= INT32_MAX), "no sum of an image that fits a memory overflows")
    numbers = epilogue.certificate.numbers
    certificate = replace(epilogue.certificate, numbers={**numbers, "kind": "mean"} if numbers else numbers)
    return Mean(int(start[0]), epilogue, certificate)


def _interval_of(op: GlobalAveragePool) -> AccumulatorInterval:
    """The interval of the sums of (x - x_zero_point), (1,)."""
    zero_point = op.x.zero_point or 0
    lo, hi = (np.array([op.pixels * (end - zero_point)]) for end in (op.x.dtype.low, op.x.dtype.high))
    return AccumulatorInterval(lo, hi, False)


def are_lanes(op: GlobalAveragePool, setting: Setting) -> bool:
    """Whether the channels of a pixel lie side by side, and pixels one after the other."""
    x = strides(op.x.shape, setting.xs[0])
    averaged = [axis for axis in range(1, len(op.x.shape)) if axis != op.channel_axis]
    pixels = loop_nest_of_one((op.x.shape[axis], x[axis]) for axis in averaged)
    channels, step = op.x.shape[op.channel_axis], x[op.channel_axis]
    # Behind a Transpose channels may lie side by side and pixels further apart, with those of other images between.
    is_row = channels > 1 and step == 1 and pixel_stride(op.x.shape, setting.xs[0], averaged) in (1, channels)
    return is_row and not pixels.outer


def means_call(op: GlobalAveragePool, setting: Setting, function: str, mean: Mean, width: int = 0) -> MeansCall:
    """By a ``function`` of the library, whose name ends with the type that it reads.

    ``width``: of rows that come one by one.
    """
    numbers = {**places_of(op, setting), "start": mean.start} | ({"width": width} if width else {})
    return MeansCall(
        function=f"{function}_{KINDS[op.x.dtype]}",
        means=Struct("code_means", (), numbers),
        y_type=op.y.dtype.c,
        in_rows=setting.in_rows,
        stands_alone=function.startswith("code_"),
    )


def prepare_means(
    op: GlobalAveragePool,
    setting: Setting,
    function: str,
    *,
    width: int = 0,
    operations: Mapping[str, float] | None = None,
) -> Prepared:
    """Means of codes by such a function; ``operations``: those that functions become."""
    mean = prepare_mean(op, setting)
    context = MeansContext(means_call(op, setting, function, mean, width), mean.output, op.x.dtype.c)
    return Prepared(mean.constants, context, (), mean.certificate, folded=operations or {})


def places_of(op: GlobalAveragePool, setting: Setting) -> dict[str, int]:
    """The images and where their channels and means lie, as structs of the library have it."""
    x, y = strides(op.x.shape, setting.xs[0]), strides(op.y.shape, setting.y)
    y_channel_axis = op.channel_axis if len(op.y.shape) == len(op.x.shape) else 1
    return {
        "batch": op.x.shape[0],
        "channels": op.x.shape[op.channel_axis],
        "pixels": op.pixels,
        "x_image": x[0],
        "x_channel": x[op.channel_axis],
        "y_image": y[0],
        "y_channel": y[y_channel_axis],
    }
