"""Operators between DequantizeLinear and QuantizeLinear whose codes onnxruntime computed: a model of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from qdq import Chain

Attributes = Mapping[str, Any]


@dataclass(frozen=True)
class Recorded:
    """One operator on ``shape``; ``operands`` are its further inputs, ``y`` its output's scale beside the input's."""

    op_type: str
    shape: tuple[int, ...]
    attributes: Attributes = field(default_factory=dict)
    operands: tuple[np.ndarray, ...] = ()
    y: float = 1.0
    opset: int = 18


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


IMAGE = (2, 4, 5, 6)
OPERATORS: Mapping[str, Recorded] = {
    "mean of channels": Recorded("ReduceMean", IMAGE, {"axes": [1]}, opset=13, y=0.43),
    "mean of rows": Recorded("ReduceMean", IMAGE, {"keepdims": 0}, (ints(-2),), 0.61),
    "mean of all": Recorded("ReduceMean", IMAGE, {}, (), 0.13),
    "mean of batches": Recorded("ReduceMean", IMAGE, {"keepdims": 0}, (ints(0, 3),), 0.37),
    "sum of channels": Recorded("ReduceSum", IMAGE, {}, (ints(1),), 3.1, opset=13),
    "sum of columns": Recorded("ReduceSum", IMAGE, {"keepdims": 0}, (ints(-1, 1),), 9.7),
    "sum of all": Recorded("ReduceSum", (3, 5, 7), {"keepdims": 0}, (), 31.3),
    "largest of time": Recorded("ReduceMax", (2, 9, 4), {"axes": [1], "keepdims": 0}, (), 0.7, 13),
    "largest of channels": Recorded("ReduceMax", IMAGE, {}, (ints(1),), 1.0),
    "smallest of pixels": Recorded("ReduceMin", IMAGE, {}, (ints(-1, -2),), 1.3),
    "largest of images": Recorded("GlobalMaxPool", IMAGE, {}, (), 0.9),
    "one element": Recorded("Gather", IMAGE, {"axis": 1}, (np.array(-2, np.int64),)),
    "a shuffle": Recorded("Gather", IMAGE, {"axis": 1}, (np.array([0, 2, 1, 3], np.int32),)),
    "a table of elements": Recorded("Gather", IMAGE, {"axis": -1}, (np.array([[5, 0], [-1, 3]], np.int64),), 1.2),
    "backwards": Recorded("Gather", (7, 3), {}, (ints(6, 4, 2, 0),)),
    "depth to space": Recorded("DepthToSpace", (1, 8, 3, 2), {"blocksize": 2}),
    "columns to space": Recorded("DepthToSpace", (2, 8, 3, 2), {"blocksize": 2, "mode": "CRD"}, (), 0.8),
    "space to depth": Recorded("SpaceToDepth", (1, 3, 4, 6), {"blocksize": 2}),
    "the best class": Recorded("ArgMax", (3, 300), {"axis": -1, "keepdims": 0}),
    "the best channel": Recorded("ArgMax", IMAGE, {"axis": 1}),
    "the last best row": Recorded("ArgMax", (2, 40, 30), {"axis": 1, "select_last_index": 1}),
    "the least": Recorded("ArgMin", (2, 300), {"axis": 0, "keepdims": 0, "select_last_index": 1}),
    "expanded": Recorded("Expand", (3, 1, 2), {}, (ints(2, 3, 4, 1),)),
    "tiled": Recorded("Tile", (2, 1, 3), {}, (ints(1, 4, 2),), 1.1),
}
"""By the name under which they are recorded."""

PLACES = ("ArgMax", "ArgMin")
"""Operators whose outputs are int64, and not quantized."""

TYPES = ("int8", "uint8")


def model(name: str, dtype: str) -> bytes:
    """DequantizeLinear, the operator, QuantizeLinear, if there is something to quantize."""
    case, low = OPERATORS[name], np.iinfo(dtype).min
    scale = np.float32(0.0317)
    chain = Chain()
    x = chain.dequantize("x", (scale, np.array(low + 117, dtype)))
    further = [chain.constant(f"operand{index}", values) for index, values in enumerate(case.operands)]
    if case.op_type in PLACES:
        chain.node(case.op_type, [x, *further], "y", **case.attributes)
        return bytes(chain.model(case.shape, opset=case.opset, x_type=dtype).SerializeToString())
    value = chain.node(case.op_type, [x, *further], "value", **case.attributes)
    # Where y's scale is x's, its zero point is, too: nothing is requantized.
    zero_point = np.array(low + (117 if case.y == 1.0 else 64), dtype)
    chain.quantize(value, (np.float32(scale * np.float32(case.y)), zero_point), "y")
    return bytes(chain.model(case.shape, opset=case.opset, x_type=dtype).SerializeToString())


def codes(name: str, dtype: str) -> np.ndarray:
    """Its input: codes over the whole type, both ends among them."""
    bounds = np.iinfo(dtype)
    # RandomState's numbers are the same in every version of numpy.
    seed = list(OPERATORS).index(name)
    x = np.random.RandomState(seed).randint(bounds.min, bounds.max + 1, OPERATORS[name].shape)
    if OPERATORS[name].op_type in PLACES:
        x //= 64  # many are equal
    x.reshape(-1)[:2] = bounds.min, bounds.max
    return x.astype(dtype)
