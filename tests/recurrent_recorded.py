"""LSTM and GRU whose outputs onnxruntime computed: a model of each, and their inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from models import graph_model
from onnx import ModelProto
from qdq import Chain

GATES = {"LSTM": 4, "GRU": 3}
OUTPUTS = {"LSTM": ("y", "y_h", "y_c"), "GRU": ("y", "y_h")}


@dataclass(frozen=True)
class Recorded:
    """A layer of ``sizes`` T, B, I, H; ``codes`` is the type of W and R behind DequantizeLinear, by ``axis``."""

    op_type: str
    sizes: tuple[int, int, int, int] = (6, 2, 5, 4)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    codes: str = "float32"
    axis: int | None = None
    has_states: bool = True
    size: float = 1.0

    @property
    def directions(self) -> int:
        return 2 if self.attributes.get("direction") == "bidirectional" else 1


BOTH, BACK, LATE = {"direction": "bidirectional"}, {"direction": "reverse"}, {"linear_before_reset": 1}
CASES: Mapping[str, Recorded] = {
    "lstm": Recorded("LSTM"),
    "lstm back": Recorded("LSTM", attributes=BACK, has_states=False),
    "lstm both": Recorded("LSTM", attributes=BOTH),
    "lstm one step": Recorded("LSTM", (1, 1, 3, 5)),
    "lstm long": Recorded("LSTM", (60, 1, 4, 8), size=3.0),
    "lstm clipped": Recorded("LSTM", attributes={"clip": 0.5}, size=3.0),
    "lstm coupled": Recorded("LSTM", attributes={"input_forget": 1}),
    "lstm int8": Recorded("LSTM", codes="int8"),
    "lstm int8 rows": Recorded("LSTM", attributes=BOTH, codes="int8", axis=1),
    "lstm uint8": Recorded("LSTM", codes="uint8"),
    "lstm uint8 directions": Recorded("LSTM", attributes=BOTH, codes="uint8", axis=0),
    "gru": Recorded("GRU"),
    "gru back": Recorded("GRU", attributes=BACK),
    "gru both": Recorded("GRU", attributes=BOTH, has_states=False),
    "gru late": Recorded("GRU", attributes=LATE),
    "gru late both": Recorded("GRU", attributes={**BOTH, **LATE}),
    "gru late one step": Recorded("GRU", (1, 1, 3, 5), LATE),
    "gru long": Recorded("GRU", (60, 1, 4, 8), LATE, size=3.0),
    "gru clipped": Recorded("GRU", attributes={"clip": 0.5}, size=3.0),
    "gru int8": Recorded("GRU", codes="int8"),
    "gru late int8 rows": Recorded("GRU", attributes=LATE, codes="int8", axis=1),
    "gru uint8": Recorded("GRU", attributes=BACK, codes="uint8"),
}
"""By the name under which they are recorded."""


def drawn(name: str) -> np.random.RandomState:
    return np.random.RandomState(list(CASES).index(name))


def model(name: str) -> ModelProto:
    """The layer with all of its outputs."""
    case, draw, chain = CASES[name], drawn(name), Chain()
    (steps, batch, inputs, units), ways = case.sizes, case.directions
    rows = GATES[case.op_type] * units
    parts = [_weights(chain, case, draw, letter, (ways, rows, n)) for letter, n in (("w", inputs), ("r", units))]
    parts.append(chain.constant("bias", draw.normal(0, 0.3, (ways, 2 * rows)).astype(np.float32)))
    outputs = OUTPUTS[case.op_type]
    states = ["h", "c"][: len(outputs) - 1] if case.has_states else []
    chain.node(
        case.op_type, ["x", *parts, *(["", *states] if states else [])], "y", hidden_size=units, **case.attributes
    )
    chain.nodes[-1].output.extend(outputs[1:])
    given = {"x": ("float", (steps, batch, inputs)), **dict.fromkeys(states, ("float", (ways, batch, units)))}
    return graph_model(chain.nodes, given, dict.fromkeys(outputs), chain.constants, opset=14)


def _weights(chain: Chain, case: Recorded, draw: np.random.RandomState, name: str, shape: tuple[int, ...]) -> str:
    """Weights of around 0.4; codes use their whole type."""
    if case.codes == "float32":
        return chain.constant(name, draw.normal(0, 0.4, shape).astype(np.float32))
    zero = {"int8": 0, "uint8": 117}[case.codes]
    codes = np.clip(np.rint(draw.normal(0, 40, shape)) + zero, *_ends(case.codes))
    codes.flat[0], codes.flat[-1] = _ends(case.codes)
    count = 1 if case.axis is None else shape[case.axis]
    scale = (0.01 * draw.uniform(0.6, 1.4, count)).astype(np.float32)
    zeros = (zero + np.arange(count) * (case.axis == 0)).astype(case.codes)
    meaning = (scale, zeros) if case.axis is not None else (scale[0], zeros[0])
    return chain.weights(name, codes.astype(case.codes), meaning, axis=case.axis or 0)


def _ends(dtype: str) -> tuple[int, int]:
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)


def feeds(name: str) -> dict[str, np.ndarray]:
    case, draw = CASES[name], drawn(name)
    shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in model(name).graph.input}
    return {x: (case.size * draw.normal(0, 1, shape)).astype(np.float32) for x, shape in shapes.items()}


def wake_word() -> ModelProto:
    """Sound through a convolution, two layers in float side by side, and a product: what quantize_static is given."""
    draw, chain = np.random.RandomState(7), Chain()

    def numbers(name: str, *shape: int, size: float = 0.4) -> str:
        return chain.constant(name, draw.normal(0, size, shape).astype(np.float32))

    conv = chain.node("Conv", ["x", numbers("cw", 6, 3, 3), numbers("cb", 6, size=0.1)], "conv", strides=[2])
    rows = chain.node("Transpose", [chain.node("Relu", [conv])], "rows", perm=[2, 0, 1])
    first = [rows, numbers("w1", 2, 16, 6), numbers("r1", 2, 16, 4), numbers("b1", 2, 32, size=0.2)]
    both = chain.node("LSTM", first, "both", hidden_size=4, direction="bidirectional")
    joined = chain.node("Transpose", [both], "turned", perm=[0, 2, 1, 3])
    joined = chain.node("Reshape", [joined, chain.constant("shape", np.int64([0, 1, 8]))], "joined")
    second = [joined, numbers("w2", 1, 15, 8), numbers("r2", 1, 15, 5), numbers("b2", 1, 30, size=0.2)]
    chain.node("GRU", second, "", hidden_size=5, linear_before_reset=1)
    last = f"{chain.nodes[-1].output[0]}_last"
    chain.nodes[-1].output[:] = ["", last]
    flat = chain.node("Squeeze", [last, chain.constant("axes", np.int64([0]))], "flat")
    chain.node("Gemm", [flat, numbers("dw", 5, 3, size=0.8), numbers("db", 3, size=0.1)], "y")
    return chain.model((1, 3, 21), opset=14)
