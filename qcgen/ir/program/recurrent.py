"""Operators that carry a state from one time step to the next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from qcgen.ir.program.elementwise import Scaling
from qcgen.ir.program.operands import Float32s, Int64s, Tensor
from qcgen.ir.types import Array

BLOCK = 256
"""The products with packed weights that onnxruntime sums by themselves."""

GATES = {"lstm": "iofc", "gru": "zrh"}
"""The gates of a unit, in the order in which ONNX stores their weights."""


@dataclass(frozen=True)
class GateWeights:
    """One row of weights for each gate of each unit: (codes - zero_point) * scale, in float32.

    ``codes`` (D, G, H, n) are int8, uint8 or int16, and ``scale`` (D, G, H) is positive; or ``codes`` are float32 and
    ``scale`` is None, ``zero_point`` 0.
    """

    codes: Array
    scale: Float32s | None = None
    zero_point: int = 0


@dataclass(frozen=True)
class Recurrent:
    """LSTM or GRU in float32, as ONNX defines them, over sequences x (T, B, I) in D directions with H units.

    y (rows, D, B, H) holds first, if ``keeps_states``, the state h after each of the T steps, by the step's place in x;
    then, if ``keeps_last``, the state after the last one; then, if ``keeps_cell``, the LSTM's cell after it.
    ``initial_h`` and ``initial_c`` (D, B, H) are what the states start with, None: zeros. ``bias`` (D, G, H) is the sum
    of both biases; ``state_bias`` (D, H) is what a GRU adds to R h before it is multiplied by the reset gate, None: the
    reset gate multiplies h itself (linear_before_reset is 0). ``reverses`` says of each direction whether it begins
    with the last step. ``clip`` bounds what gates are given, None: nothing does. ``couples``: the forget gate of an
    LSTM is 1 less its input gate (input_forget).

    With ``scale`` () float32 and ``zero_point`` () uint8, which are computed, x are codes uint8 of an LSTM, and h is
    quantized before each step: like x, by its smallest and largest element (DynamicQuantizeLSTM). Sums of codes are
    int32, and every number is rounded as in equation (91). Then B is 1.
    """

    name: str
    op_type: str
    kind: Literal["lstm", "gru"]
    x: Tensor
    initial_h: Tensor | None
    initial_c: Tensor | None
    y: Tensor
    weights: GateWeights
    state_weights: GateWeights
    bias: Float32s
    state_bias: Float32s | None
    reverses: tuple[bool, ...]
    keeps_states: bool
    keeps_last: bool
    keeps_cell: bool
    clip: float | None = None
    couples: bool = False
    scale: Tensor | None = None
    zero_point: Tensor | None = None

    @property
    def reads(self) -> tuple[Tensor, ...]:
        """x, what its codes mean, and the states that are given."""
        return (self.x, *(tensor for tensor in self._besides if tensor is not None))

    def with_reads(self, change: Callable[[Tensor], Tensor]) -> Recurrent:
        """The same of other tensors."""
        scale, zero_point, h, c = (None if t is None else change(t) for t in self._besides)
        return replace(self, x=change(self.x), scale=scale, zero_point=zero_point, initial_h=h, initial_c=c)

    @property
    def _besides(self) -> tuple[Tensor | None, ...]:
        return (self.scale, self.zero_point, self.initial_h, self.initial_c)

    @property
    def is_in_order(self) -> bool:
        """Whether it has float32 numbers and weights, which onnxruntime adds up by (94).

        Weights behind a DequantizeLinear it does not pack, and takes products of one row in another order.
        """
        return all(scale is None for scale in (self.weights.scale, self.state_weights.scale, self.scale))

    @property
    def gates(self) -> int:
        """G, the gates of a unit."""
        return len(GATES[self.kind])

    @property
    def units(self) -> int:
        """H, the elements of a state."""
        return int(self.state_weights.codes.shape[-1])

    @property
    def rows(self) -> int:
        """What y must have along its first axis."""
        return self.keeps_states * self.x.shape[0] + self.keeps_last + self.keeps_cell

    @property
    def macs(self) -> int:
        """Multiply-accumulates: every weight once a step."""
        weights = sum(int(given.codes.size) for given in (self.weights, self.state_weights))
        steps, batch, _ = self.x.shape
        return steps * batch * weights


@dataclass(frozen=True)
class IntegerRows:
    """A row of weights for each gate of each unit: a sum of codes less their zero point, and a scale for each gate.

    ``codes`` (4, H, n) int8; ``bias`` (4, H) int64 is what sums of the codes themselves begin with, so the zero point
    is in it; ``scales`` are those to units of 2^-12, rounded twice.
    """

    codes: Array
    bias: Int64s
    scales: tuple[Scaling, Scaling, Scaling, Scaling]


@dataclass(frozen=True)
class IntegerLstm:
    """TensorFlow Lite's LSTM in integers (arithmetic.lstm_step_in_integers) over sequences x (B, T, I), with H units.

    The gates are the input, forget, cell and output gate. y (B, T + 2, H) int8 holds the state after each step, and in
    its last two rows the cell after the last one: the two bytes of each int16 code, the low one first. ``h`` (B, H) and
    ``c`` (B, 2 * H), in the same bytes, are what the states start with. Products of two numbers below 1, in units of
    2^-15, are scaled: ``forget_by`` that of the forget gate and the cell, ``input_by`` that of the input and the cell
    gate, ``output_by`` that of the output gate and the cell's tangent, to a code of y with its zero point. The cell is
    in units of 2^``power``, between ``-clip`` and ``clip``.
    """

    name: str
    op_type: str
    x: Tensor
    h: Tensor
    c: Tensor
    y: Tensor
    weights: IntegerRows
    state_weights: IntegerRows
    forget_by: Scaling
    input_by: Scaling
    output_by: Scaling
    zero_point: int
    power: int
    clip: int

    @property
    def units(self) -> int:
        """H, the elements of a state."""
        return int(self.state_weights.codes.shape[-1])

    @property
    def macs(self) -> int:
        """Multiply-accumulates: every weight once a step."""
        batch, steps, _ = self.x.shape
        return batch * steps * int(self.weights.codes.size + self.state_weights.codes.size)
