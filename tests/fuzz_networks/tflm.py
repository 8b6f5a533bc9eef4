"""TensorFlow Lite Micro's interpreter as the judge of .tflite files: nothing of ours reads the bytes."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Mapping

import numpy as np

from fuzz_networks.judge import Arrays, Port, drawn

ARENA = 1 << 20


def is_here() -> bool:
    """Whether the interpreter is installed."""
    return importlib.util.find_spec("tflite_micro") is not None


def description() -> str:
    """The judge and its version, in a line."""
    return f"judge: tflite-micro {importlib.metadata.version('tflite-micro')}, reference kernels"


class TfliteJudge:
    """A .tflite file whose inputs are called input0, input1, ..., and its outputs alike.

    Raises the interpreter's error if it does not take the file.
    """

    def __init__(self, content: bytes) -> None:
        self._content = content
        first = self._interpreter()
        self.inputs = [_port(f"input{place}", details) for place, details in _details(first.get_input_details)]
        self.outputs = [_port(f"output{place}", details) for place, details in _details(first.get_output_details)]

    def _interpreter(self):
        from tflite_micro.python.tflite_micro import runtime

        return runtime.Interpreter.from_bytes(self._content, arena_size=ARENA)

    def run(self, feeds: Arrays) -> dict[str, np.ndarray]:
        """Outputs by name, by an interpreter of its own: some keep numbers from one run to the next."""
        interpreter = self._interpreter()
        for place, port in enumerate(self.inputs):
            interpreter.set_input(feeds[port.name], place)
        interpreter.invoke()
        return {port.name: np.array(interpreter.get_output(place)) for place, port in enumerate(self.outputs)}

    def feeds(self, seed: int, cases: int) -> list[dict[str, np.ndarray]]:
        """Random, extreme and constant inputs."""
        rng = np.random.default_rng(seed)
        kinds = ["random", "ends", "narrow", "constant", "random", "random", "low", "high"]
        return [
            {port.name: drawn(port, kinds[case % len(kinds)], rng) for port in self.inputs} for case in range(cases)
        ]

    def allowed(self, outputs: Arrays, tolerance: str) -> dict[str, np.ndarray]:
        """Nothing: all outputs are equal."""
        del tolerance
        return {name: np.zeros(y.shape) for name, y in outputs.items()}


def _details(of) -> list[tuple[int, Mapping[str, object]]]:
    found = []
    while True:
        try:
            found.append((len(found), of(len(found))))
        except (IndexError, RuntimeError, ValueError):
            return found


def _port(name: str, details: Mapping[str, object]) -> Port:
    return Port(name, tuple(int(size) for size in details["shape"]), np.dtype(details["dtype"]))
