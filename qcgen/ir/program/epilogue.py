"""What becomes of an accumulator."""

from __future__ import annotations

from dataclasses import dataclass

from qcgen.ir.program.tensor import Float32s


@dataclass(frozen=True)
class Requantize:
    """y = clamp(round_half_even(fl32(fl32(acc) * scale[m])) + zero_point, low, high) in float32 arithmetic.

    ``scale`` (M,) float32, positive and finite: fl32(fl32(x_scale * w_scale[m]) / y_scale). ``low`` and ``high`` are
    the bounds of the output's type, or tighter where an activation clips.
    """

    scale: Float32s
    zero_point: int
    low: int
    high: int


@dataclass(frozen=True)
class RawAccumulator:
    """y = acc modulo 2^32, as int32."""


@dataclass(frozen=True)
class FloatActivation:
    """y = activation(acc) in float32; ``kind`` as onnxruntime spells it, "" for none.

    ``params``: LeakyRelu (alpha,), Clip (min, max), HardSigmoid (alpha, beta), Celu, Elu, ThresholdedRelu and QuickGelu
    (alpha,), Selu (alpha, gamma), Pow (exponent,); other kinds have none. A Relu with two parameters has become a Clip.
    """

    kind: str = ""
    params: tuple[float, ...] = ()


Epilogue = Requantize | RawAccumulator | FloatActivation
