"""Records what TensorFlow Lite Micro's reference kernels give for the models of the tests: run it by hand.

pip install --pre tflite-micro; the file here was made with 0.dev20261023182759.
"""

import sys
from pathlib import Path

import numpy as np
from tflite_micro.python.tflite_micro import runtime

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parents[2])]

from tflite_models import MODELS, cases  # noqa: E402  # beside the tests
from tflite_states import STREAMS, frames  # noqa: E402
from tflite_wide import WIDE_MODELS  # noqa: E402


def run(data: bytes, x: np.ndarray) -> np.ndarray:
    """What a fresh interpreter gives for one input."""
    interpreter = runtime.Interpreter.from_bytes(data, arena_size=2**20)
    interpreter.set_input(x, 0)
    interpreter.invoke()
    return interpreter.get_output(0)


def run_all(data: bytes) -> list[np.ndarray]:
    """The first output of calls one after the other."""
    interpreter, found = runtime.Interpreter.from_bytes(data), []
    for x in frames(data):
        interpreter.set_input(x, 0)
        interpreter.invoke()
        found.append(interpreter.get_output(0))
    return found


np.savez_compressed(HERE / "streams.npz", **{name: np.stack(run_all(data)) for name, data in STREAMS.items()})
ALL = MODELS | WIDE_MODELS
outputs = {name: np.stack([run(data, x) for x in cases(data)]) for name, data in ALL.items()}
np.savez_compressed(HERE / "recorded.npz", **outputs)
print({name: array.shape for name, array in outputs.items()})
