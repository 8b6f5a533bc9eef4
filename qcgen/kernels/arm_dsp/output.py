"""The output step of the DSP kernels, of sums as they are or scaled up, and where the outputs of windows go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_

import numpy as np

from qcgen.intervals import INT32_MAX
from qcgen.ir.context import Context, LayerField
from qcgen.ir.plan import Certificate
from qcgen.ir.program import Conv
from qcgen.kernels import fast_output
from qcgen.kernels.arm_dsp.segment import Segment, Tail
from qcgen.kernels.epilogue import Number, Output
from qcgen.kernels.fast_output import FAST, RARE, FastOutput, parameter
from qcgen.kernels.kernel import Constants, Setting
from qcgen.kernels.packing import Packed, pack

COMMON_RARE = 1  # in place of RARE where only channels with a guard band are tested: half of the exact codes are saved

MAX_BITS = 8
TOGETHER, WIDTH = 8, 4  # outputs that are found once more if one of them is near a tie, and their channels
EXACT_CYCLES = 30  # of an output that is found once more
UPPER_CYCLES = 1.5  # of parting the sums of channels that share words and adding an offset, which saves SHARED_CYCLES
SHARED_CYCLES = 1 / 8  # a pair


@dataclass(frozen=True)
class Outputs:
    """How outputs lie in memory, in elements.

    ``channel``: from one channel to the next. ``next``: from a pixel to the one that is computed at the same time, None
    if there is none, LayerField if it is the layer's own.
    """

    c_type: str
    channel: int
    next: int | LayerField | None

    @property
    def is_planar(self) -> bool:
        """Whether other pixels lie between the channels of one."""
        return self.channel != 1


@dataclass(frozen=True)
class BlockOutputs(Context):
    """What becomes of the sums of blocks of channels."""

    y: Outputs
    output: Output
    dsp: FastOutput
    segments: tuple[Segment, ...]  # blocks of one width each
    widest: int  # channels of a block, which qcgen bench --worst reads in a name
    owned: tuple[str, ...]  # what each channel has for itself, in the tail one behind the other
    word_at: str  # where the tail has the word that tells the channels
    tested: int  # 2^c for each channel c of a block that may be near a tie, where such channels are tested first
    tells_guarded: bool  # a block's word tells which of its channels have a guard band,
    is_told: bool  # and their number is needed, too


def block_outputs(op: Conv, packed: Packed, segments: Sequence[Segment], y: Outputs) -> BlockOutputs:
    """The blocks of a layer and their output step."""
    output, dsp, tail = packed.epilogue.output, dsp_output(op, packed), segments[0].tail
    owned = {"multiplier": tail.has_multipliers, "offset": tail.has_offsets}
    tells = tail.tells_guarded and dsp.has_windows
    tested = [s.tested for s in segments] if dsp.guard and not tells else []
    return BlockOutputs(
        y=y,
        output=output,
        dsp=dsp,
        segments=tuple(segments),
        widest=max(s.width for s in segments),
        owned=tuple(name for name, is_owned in owned.items() if is_owned),
        word_at=("0", "width", "2 * width")[sum(owned.values())],
        tested=reduce(or_, tested, 0),
        tells_guarded=tells,
        is_told=tells and output.is_per_channel,
    )


def place(base: str, count: int, step: str) -> str:
    """A pointer ``count`` steps behind ``base``, in C.

    >>> [place("out", i, "CHANNELS") for i in range(3)]
    ['out', 'out + CHANNELS', 'out + 2 * CHANNELS']
    """
    if count == 0:
        return base
    return f"{base} + {step}" if count == 1 else f"{base} + {count} * {step}"


@dataclass(frozen=True)
class KeptOutput(Context):
    """The output step, and which of its numbers stay in registers for a channel's whole plane."""

    output: Output
    dsp: FastOutput
    shared_offset: Number  # that of all channels, if it is kept

    @property
    def keeps_own(self) -> bool:
        """Whether the channel's multiplier is kept."""
        return self.dsp.is_fast and self.output.multiplier is None

    @property
    def keeps_offset(self) -> bool:
        """Whether the offset is."""
        return self.keeps_own and self.output.offset is None


def dsp_output(op: Conv, packed: Packed) -> FastOutput:
    """What the templates need to know of the output step: SMMUL or, with an offset, SMMLA; and a saturating shift."""
    rare = RARE if packed.epilogue.common is None else COMMON_RARE
    return fast_output.fast_output(op, packed, {"multiply-high": "dsp_scale"}, "dsp_saturate", "dsp_high", rare)


def certified(op: Conv, packed: Packed) -> Certificate:
    """The certificate of a node with this output step."""
    return fast_output.certified(op, packed, dsp_output(op, packed))


def output_tail(packed: Packed) -> Tail:
    """What the output step reads behind the weights of a block of channels."""
    output, guarded = packed.epilogue.output, packed.epilogue.guarded
    if output.kind == "raw":
        return Tail(None, None, None)
    channels = np.arange(packed.bias.size)
    if output.kind not in FAST:
        return Tail(None, None, channels if output.is_per_channel else None)
    return Tail(
        multiplier=parameter(packed, "multiplier") if output.multiplier is None else None,
        offset=parameter(packed, "offset") if output.offset is None else None,
        channel=np.where(np.isin(channels, guarded), channels, -1) if output.is_guarded else None,
        tells_guarded=packed.epilogue.common is not None,
    )


def parameter_text(packed: Packed, role: str) -> str:
    """What a parameter of the output step is, and in which unit, for comments."""
    meanings = [constants.meaning for constants in packed.epilogue.constants if constants.role == role]
    [meaning] = meanings or [f"y_zero_point and rounding, in units of 2^-{packed.epilogue.output.shift}."]
    return meaning.removesuffix(".")


def kept_output(output: Output, dsp: FastOutput) -> KeptOutput:
    """What stays in registers where one channel is computed after the other."""
    keeps_offset = dsp.is_fast and output.multiplier is None and not dsp.has_windows and not dsp.bare
    if not keeps_offset or output.offset is None:
        return KeptOutput(output, dsp, None)
    return KeptOutput(replace(output, offset=None), dsp, output.offset)


def pack_finely(op: Conv, setting: Setting, pairs: int, *, whole_weights: bool = False) -> Packed:
    """``pack`` for weights in words of int16, sums of so many ``pairs``; with ``bits`` where that saves cycles.

    A line that keeps more bits below its codes comes near a tie less often. Where channels would share words else, that
    must be worth more than sharing them.
    """
    packed = pack(op, setting, 0, whole_weights=whole_weights)
    if packed.epilogue.output.kind != "multiply-high" or packed.wraps or packed.is_corrected:
        return packed
    if _near_ties(op, packed) * EXACT_CYCLES + UPPER_CYCLES < SHARED_CYCLES * pairs:
        return packed
    bits = _free_bits(op, packed)
    for fewer in (0, 1):  # the addend of the finer line may take one
        found = pack(op, setting, 0, whole_weights=whole_weights, bits=max(bits - fewer, 0))
        if found.bits and not found.wraps:
            return found
    return packed


def _near_ties(op: Conv, packed: Packed) -> float:
    """The share of outputs that are found once more because they or their neighbours are near a tie."""
    guard, shift = dsp_output(op, packed).guard, packed.epilogue.output.shift
    blocks = np.unique(packed.epilogue.guarded // WIDTH).size / -(-op.geometry.out_channels // WIDTH)
    return float(blocks * (1 - (1 - 2 * guard / 2.0**shift) ** TOGETHER))


def _free_bits(op: Conv, packed: Packed) -> int:
    """How often sums may be doubled before a weight could leave int16 or some partial sum int32, at most MAX_BITS."""
    tap = max(abs(op.x.dtype.low), abs(op.x.dtype.high))
    largest = int((np.abs(packed.bias) + tap * np.abs(packed.weights).sum(axis=1)).max())
    weight_bits = max(int(packed.weights.max()), -1 - int(packed.weights.min())).bit_length()
    return max(0, min(MAX_BITS, 15 - weight_bits, INT32_MAX.bit_length() - largest.bit_length()))


def bias_text(packed: Packed) -> str:
    """What the numbers are that are initial accumulators, or which are added to them in the end."""
    [bias, *_] = packed.constants()
    return bias.meaning.removeprefix("initial accumulators: ").removesuffix(".") + times(packed.bits)


def bias_table(packed: Packed) -> Constants:
    """Where the sums of each channel start."""
    return Constants("bias", "int32_t", packed.bias, f"initial accumulators: {bias_text(packed)}.")


def times(bits: int) -> str:
    """What comments say of weights that are scaled up with their sums."""
    return f", times {2**bits}, as sums are" if bits else ""
