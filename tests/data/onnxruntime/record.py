"""Records what onnxruntime computes: run it by hand, where onnxruntime is installed.

    PYTHONPATH=tests:. python tests/data/onnxruntime/record.py NAME ...

It writes NAME.npz beside itself, with ``version``, onnxruntime's, and the outputs of the models in
tests/NAME_recorded.py by their names, behind which operators and wide have a type.

functions.npz: ``x`` numbers, ``float.NAME`` their values; ``x_scale``, ``x_zero_point``, ``y_scale``, ``y_zero_point``
one each for a table, ``table.NAME`` (tables, 256) the codes of QuantizeLinear behind the function behind
DequantizeLinear, for all codes from -128 on; ``tables.NAME`` (tables, CHANNELS, 256) those of a function whose
constants differ from channel to channel.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import blocks_recorded as blocks
import float16_recorded as float16
import numpy as np
import onnxruntime
import operators_recorded as operators
import rows_recorded as rows
import wide_recorded as wide
from data.recording import INT8, session
from functions_recorded import CHANNELS, FUNCTIONS, OF_CHANNELS, WITH_NUMBERS, alone, between_codes
from onnx import ModelProto

IN_FLOAT = {**INT8, "session.qdq_matmulnbits_accuracy_level": "0"}
"""The second keeps MatMul in float: by default its input is quantized once more, to 8 bits."""


def run(
    model: bytes | ModelProto, x: np.ndarray | Mapping[str, np.ndarray], entries: Mapping[str, str] = INT8
) -> np.ndarray:
    """The one output of a model, whose one input is an array."""
    return np.asarray(session(model, entries).run(None, dict(x) if isinstance(x, Mapping) else {"x": x})[0])


def numbers() -> np.ndarray:
    """Where the functions bend, where they are clamped, where they saturate, tiny and huge ones: 640 numbers."""
    draw = np.random.RandomState(0)
    near = [0.0, 1.0, 3.0, 9.0, 17.93, 18.0, 88.7, 88.78, 103.97, 104.0]
    parts = [
        np.array([*near, *(-value for value in near)]),
        draw.uniform(-20, 20, 300),
        draw.normal(0, 1, 160),
        draw.uniform(-110, 90, 80),
        draw.choice([-1.0, 1.0], 80) * 10.0 ** draw.uniform(-40, 38, 80),
    ]
    return np.concatenate(parts).astype(np.float32)


def quantizations() -> dict[str, np.ndarray]:
    """Scales and zero points for tables: 2/255 as quantizers choose it for Tanh, 1/256, others at random."""
    draw = np.random.RandomState(1)
    count = 12
    y_scale = np.concatenate([[2 / 255, 1 / 256, 1 / 127, 1 / 255], 10.0 ** draw.uniform(-3, 0, count - 4)])
    return {
        "x_scale": (10.0 ** draw.uniform(-2.5, -0.5, count)).astype(np.float32),
        "x_zero_point": draw.randint(-128, 128, count).astype(np.int8),
        "y_scale": y_scale.astype(np.float32),
        "y_zero_point": np.concatenate([[0, -128, 0, -128], draw.randint(-128, 128, count - 4)]).astype(np.int8),
    }


def functions() -> dict[str, np.ndarray]:
    x, meanings = numbers(), quantizations()
    codes = np.arange(-128, 128).astype(np.int8)
    found = {"x": x, **meanings}
    for name in WITH_NUMBERS:
        found[f"float.{name}"] = run(alone(name, x.shape), x)
    for name in FUNCTIONS:
        settings = zip(*meanings.values(), strict=True)
        found[f"table.{name}"] = np.stack([run(between_codes(name, *each), codes) for each in settings])
    for name in OF_CHANNELS:
        settings = zip(*meanings.values(), strict=True)
        x_codes = np.broadcast_to(codes, (1, CHANNELS, 256)).copy()
        found[f"tables.{name}"] = np.stack([run(between_codes(name, *each), x_codes)[0] for each in settings])
    return found


def of_types(models, feed, entries: Mapping[str, str]) -> dict[str, np.ndarray]:
    cases = [(name, dtype) for name in models.OPERATORS for dtype in models.TYPES]
    return {f"{name}.{dtype}": run(models.model(name, dtype), feed(name, dtype), entries) for name, dtype in cases}


def of_blocks() -> dict[str, np.ndarray]:
    found = {blocks.name(*case): run(blocks.model(*case), blocks.feed(case[-1]), IN_FLOAT) for case in blocks.CASES}
    networks = {dtype: [run(blocks.network(dtype), x, IN_FLOAT) for x in blocks.images()] for dtype in blocks.NETWORKS}
    return found | {dtype: np.concatenate(outputs) for dtype, outputs in networks.items()}


FILES = {
    "functions": functions,
    "operators": lambda: of_types(operators, operators.codes, INT8),
    "wide": lambda: of_types(wide, wide.feed, IN_FLOAT),
    "rows": lambda: {name: run(build(), rows.feeds(name)) for name, (build, _) in rows.CASES.items()},
    "float16": lambda: {name: run(float16.model(name), float16.feed(name), {}) for name in float16.NETWORKS},
    "blocks": of_blocks,
}

if __name__ == "__main__":
    for name in sys.argv[1:]:
        file = Path(__file__).parent / f"{name}.npz"
        np.savez_compressed(file, **FILES[name](), version=np.array(onnxruntime.__version__))
        print(file, file.stat().st_size, "bytes, onnxruntime", onnxruntime.__version__)
