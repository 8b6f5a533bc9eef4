"""scalar/depthwise: one filter per channel, on a copy of few channels of the image that has padding around it."""

from __future__ import annotations

from math import prod

from qcgen.ir.program import Conv, ConvGeometry, Int64s, Operator
from qcgen.kernels.access import bands, channel_by_channel, plane
from qcgen.kernels.fast_output import output_constants
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Scratch, Setting
from qcgen.kernels.packing import Packed, names_of_conv, pack, unsigned_shift
from qcgen.kernels.reasons import why_no_depthwise, why_taps, why_wraps
from qcgen.kernels.scalar.output import certified, output_support, scalar_output
from qcgen.kernels.scalar.planes import Group, Plane, Rows, SteppedAxis, Weight, core, rows_of
from qcgen.kernels.unroll import unrolled

MAX_TAPS = 64  # written out one by one
MAX_COPIES = 16  # pixels of a row that are copied without a loop
LOOP_COPIES = 8  # at most, else, in each of at least two rounds
MANY_TAPS, MANY_FAR = 32, 2
NEAR_BYTES = 24  # of the 31 that a load's instruction can hold, those that a row of the plane may begin at


def why_not(op: Operator, setting: Setting) -> str | None:
    """Serves depthwise convolutions of images of one or two axes."""
    reason = why_no_depthwise(op, setting)
    if reason is not None:
        return reason
    assert isinstance(op, Conv)
    return why_taps(prod(op.geometry.kernel), MAX_TAPS) or why_wraps(_packed(op, setting))


def _packed(op: Conv, setting: Setting) -> Packed:
    shift = unsigned_shift(op) if core(setting).is_unsigned else 0
    return pack(op, setting.features, shift, whole_weights=True)


def prepare(op: Operator, setting: Setting) -> Prepared:
    """A plane as scratch; weights [channels][taps]."""
    assert isinstance(op, Conv)
    packed, planned = _packed(op, setting), rows_of(op.geometry, core(setting))
    context = {
        **names_of_conv(op, packed),
        **_image_context(op, planned),
        "weight_type": packed.weights_type,
        "weights": _used(planned.groups, packed.padding),
        "taps": prod(op.geometry.kernel),
        "fast": scalar_output(op, packed),
        "shift": packed.x_shift,
        "padding": packed.padding,
        "has_skipped": packed.padding != 0 and any(any(group.skipped) for group in planned.groups),
    }
    multiply = ("scalar_multiply_add",) if planned.how.reloads else ()
    return Prepared(
        _constants(op, packed, planned),
        context,
        (Scratch(planned.plane.bytes, 1),),
        (*multiply, *output_support(op, packed)),
        certified(op, packed),
        access=channel_by_channel(op, setting, _units(op.geometry, planned), gathers=True),
    )


def _units(g: ConvGeometry, planned: Rows) -> Int64s:
    """The outputs that the plane serves at a time, of one channel.

    Where channels are no multiple of the plane's, the last ones are computed a second time, from the same rows.
    """
    pixels = plane(g).T if planned.width.is_first else plane(g)
    return bands(pixels, planned.plane.band, repeats=2 if g.in_channels % planned.plane.lanes else 1)


def _image_context(op: Conv, planned: Rows) -> dict[str, object]:
    """What the template needs to know of the image, of its copy and of how outputs are grouped."""
    g, how, width = op.geometry, planned.how, planned.width
    return {
        "tap_type": "uint8_t" if how.is_unsigned else op.x.dtype.c,
        "reloads": how.reloads,
        "is_fenced": how.is_fenced,
        "height": planned.height,
        "width": width,
        "groups": planned.groups,
        "plane": planned.plane,
        "is_row": planned.count == 1,
        "rows_left": planned.rows_left,
        "copies": unrolled(width.copied, MAX_COPIES if width.copied <= MAX_COPIES else LOOP_COPIES),
        "is_padded": planned.has_padding,
        "has_rest": g.in_channels % planned.plane.lanes != 0,
        "x_image": g.in_channels * prod(g.input),
        "y_image": g.out_channels * prod(g.output),
        "uses_string": True,
    }


def _constants(op: Conv, packed: Packed, planned: Rows) -> tuple[Constants, ...]:
    """The weights in the order of the plane's rows, where sums start, and the tables of the output step."""
    g = op.geometry
    taps = packed.weights.reshape(g.out_channels, *g.kernel)
    weights = taps.transpose(0, 2, 1) if planned.width.is_first else taps
    meaning = f"weights [{g.out_channels} channels][{prod(g.kernel)} taps]{packed.weights_remark}."
    return (
        Constants("weights", packed.weights_type, weights.reshape(g.out_channels, -1), meaning),
        Constants("start", "int32_t", packed.start, "where each accumulator starts."),
        *output_constants(packed),
    )


COST = {
    "cortex-m0": (0.3, 4.21, 48.7, 1.51, 0.1, 24.1, 4.8),
    "cortex-m3": (0.3, 0.22, 19.3, 1.29, 0, 3.51, 15.7),
    "rv32imc": (0.3, 1.68, 52.4, 1.54, 0, 5.55, 19.7),
}
"""Instructions for each of what ``_work`` counts, fitted to measurements with gcc -O3."""

EXACT = {"raw": -5, "narrow": 6, "wide": 12, "emulated": 100}
"""Instructions for an output that is not requantized by the fast output step, beyond those of one that is."""


def cost(op: Operator, setting: Setting) -> float | None:
    """Instructions of one call with gcc -O3; None for cores that were not measured."""
    if setting.core not in COST:
        return None
    assert isinstance(op, Conv)
    packed = _packed(op, setting)
    exact = EXACT.get(packed.epilogue.output.kind, 0) * prod(op.y.shape)
    return exact + sum(each * count for each, count in zip(COST[setting.core], _work(op, packed, setting), strict=True))


def _work(op: Conv, packed: Packed, setting: Setting) -> tuple[float, ...]:
    """Bytes cleared, pixels copied, calls for a channel, loads and multiply-adds, loads that are far away, outputs.

    Far away is what a Cortex-M0 reaches only through another register. Last the outputs of channels with tie windows.
    """
    g, planned = op.geometry, rows_of(op.geometry, core(setting))
    height, width, groups, plane = planned.height, planned.width, planned.groups, planned.plane
    lanes = plane.lanes
    quads = g.batch * -(-g.in_channels // lanes)
    bands = -(-height.output // plane.band)
    rows = min(height.input, height.reached) + (bands - 1) * max(height.span - height.stride, 0)
    lines = quads * lanes * height.output
    products = sum(group.count * sum(len(tap.places) for tap in group.taps) for group in groups)
    places = sum(group.count * len({place for tap in group.taps for _, place in tap.places}) for group in groups)
    weights = sum(group.count * len(group.taps) for group in groups)
    return (
        g.batch * bands * plane.bytes * planned.has_padding,
        quads * rows * (width.copied + 2),
        quads * lanes * bands,
        lines * (products + weights + (products if planned.how.reloads else places)),
        lines * products * _far(height, width, plane),
        lines * width.output,
        lines * width.output * packed.epilogue.guarded.size / g.out_channels,
    )


def _far(height: SteppedAxis, width: SteppedAxis, plane: Plane) -> float:
    """The part of a kernel's rows that begin farther from the first than an instruction can say; more if there are many
    taps, whose weights and addresses then take turns in the registers."""
    far = sum(r * height.dilation * plane.row > NEAR_BYTES for r in range(height.kernel)) / height.kernel
    return far + MANY_FAR * (height.kernel * width.kernel > MANY_TAPS)


def _used(groups: tuple[Group, ...], padding: int) -> tuple[tuple[int, Weight], ...]:
    """The weights that the C reads, each with its number."""
    taps = groups[0].taps
    return tuple((i, tap.weight) for i, tap in enumerate(taps) if tap.places or padding)


DEPTHWISE = Kernel(
    "scalar/depthwise", "kernels/scalar/depthwise.c.jinja", frozenset({"scalar"}), why_not, prepare, cost
)
