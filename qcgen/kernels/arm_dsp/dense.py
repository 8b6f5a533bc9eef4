"""arm_dsp/dense: convolutions with a single window, the whole image; a matrix times a vector."""

from __future__ import annotations

from dataclasses import dataclass, replace

from qcgen.ir.program import Conv, Operator
from qcgen.kernels.arm_dsp.conv import stream_constants, stream_support
from qcgen.kernels.arm_dsp.cost import dense_terms
from qcgen.kernels.arm_dsp.figures import FIGURES
from qcgen.kernels.arm_dsp.lanes import ONE_LANE, Outputs
from qcgen.kernels.arm_dsp.output import dsp_output, output_support, output_tail
from qcgen.kernels.arm_dsp.weights import stream
from qcgen.kernels.arm_dsp.window import whole_image
from qcgen.kernels.cost import Estimate
from qcgen.kernels.fast_output import exact_constants
from qcgen.kernels.kernel import Kernel, Prepared, Setting
from qcgen.kernels.packing import pack
from qcgen.kernels.reasons import why_no_dense
from qcgen.kernels.text import describe, x_kind
from qcgen.kernels.unroll import unrolled

WIDTHS = {"size": (8, 4, 2, 1), "speed": (4, 2, 1)}  # output channels at a time; four load their weights at once
MAX_UNROLL = {"size": 4, "speed": 32}  # steps of four elements, of 31 instructions with eight channels, 13 with four


@dataclass(frozen=True)
class Lone:
    """Elements behind the last whole word that make a pair; ``high`` is None if there is no second one."""

    low: int
    high: int | None


def why_not(op: Operator, setting: Setting) -> str | None:
    """Serves kernels that are as large as the image, without padding."""
    return why_no_dense(op, setting)


def prepare(op: Operator, setting: Setting) -> Prepared:
    """Weights as words in the order in which the image's words are unpacked; no scratch."""
    assert isinstance(op, Conv)
    g = op.geometry
    packed = pack(op, setting.features, 0)
    planned = whole_image(g, setting.x_layout)
    wide = setting.optimize == "speed"
    words = stream(
        op,
        packed,
        planned.order,
        output_tail(packed),
        WIDTHS[setting.optimize],
        shares=setting.optimize == "size",
        wide=wide,
        most_bytes=4,
    )
    segments = tuple(replace(segment, is_apart=not wide) for segment in words.segments)
    steps = unrolled(g.taps // 4, MAX_UNROLL[setting.optimize])
    whole = g.taps // 4 * 4
    offsets = range(g.taps - whole)
    lone = tuple(Lone(i, i + 1 if i + 1 in offsets else None) for i in offsets if i % 2 == 0)
    context = {
        "g": g,
        "description": describe(op),
        "x_type": op.x.dtype.c,
        "x_kind": x_kind(op),
        "y": Outputs(op.y.dtype.c, 1, None),
        "output": packed.epilogue.output,
        "dsp": dsp_output(op, packed),
        "segments": segments,
        "lanes": ONE_LANE,
        "words": steps,
        "words_round": 4 * steps.unroll,
        "lone": lone,
        "has_zero_pair": planned.has_zero_pair,
        "uses_string": True,
    }
    constants = (stream_constants(words), *exact_constants(packed))
    widening = (f"dsp_even_{x_kind(op)}", f"dsp_odd_{x_kind(op)}", "dsp_load_word") if steps.total else ()
    loads = {"dsp_load_four" if s.loads_four else "dsp_load_two" for s in segments if s.word_twos}
    support = ("dsp", *sorted(loads), *widening, *(("dsp_pair",) if lone else ()), *stream_support(words))
    return Prepared(constants, context, (), support + output_support(op, packed), packed.certificate)


DENSE_COST = Estimate(prepare, dense_terms, FIGURES["arm_dsp/dense"])
DENSE = Kernel("arm_dsp/dense", "kernels/arm_dsp/dense.c.jinja", frozenset({"dsp"}), why_not, prepare, DENSE_COST)
