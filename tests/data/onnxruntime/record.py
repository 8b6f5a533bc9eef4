"""Records what onnxruntime computes for functions of one number: run it by hand, where onnxruntime is installed.

    PYTHONPATH=tests python tests/data/onnxruntime/record.py

It writes functions.npz beside itself: ``x`` numbers, ``float.NAME`` their values; ``x_scale``, ``x_zero_point``,
``y_scale``, ``y_zero_point`` one each for a table, ``table.NAME`` (tables, 256) the codes of QuantizeLinear behind the
function behind DequantizeLinear, for all codes from -128 on; ``tables.NAME`` (tables,
CHANNELS, 256) those of a function whose constants differ from channel to channel; ``version`` onnxruntime's.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
from functions_recorded import CHANNELS, FUNCTIONS, OF_CHANNELS, WITH_NUMBERS, alone, between_codes

FILE = Path(__file__).parent / "functions.npz"


def run(model: bytes, x: np.ndarray) -> np.ndarray:
    """The one output of a model with one input."""
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.qdqisint8allowed", "1")
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"x": x})[0])


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


def main() -> None:
    """Writes the file."""
    x, meanings = numbers(), quantizations()
    codes = np.arange(-128, 128).astype(np.int8)
    found = {"x": x, **meanings, "version": np.array(onnxruntime.__version__)}
    for name in WITH_NUMBERS:
        found[f"float.{name}"] = run(alone(name, x.shape), x)
    for name in FUNCTIONS:
        rows = zip(*meanings.values(), strict=True)
        found[f"table.{name}"] = np.stack([run(between_codes(name, *row), codes) for row in rows])
    for name in OF_CHANNELS:
        rows = zip(*meanings.values(), strict=True)
        x_codes = np.broadcast_to(codes, (1, CHANNELS, 256)).copy()
        found[f"tables.{name}"] = np.stack([run(between_codes(name, *row), x_codes)[0] for row in rows])
    np.savez_compressed(FILE, **found)
    print(FILE, FILE.stat().st_size, "bytes, onnxruntime", onnxruntime.__version__)


if __name__ == "__main__":
    main()
