"""onnxruntime as the judge: inputs for a model, what onnxruntime makes of them, how far outputs may be off.

Everything here starts from the bytes of the ONNX model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx
import onnxruntime
from onnx import ModelProto, numpy_helper

from qcgen.verification.judge.engines import this_processor

Arrays = Mapping[str, np.ndarray]
FLOAT_TOLERANCE = 1e-4
OPTIONS = {"session.qdqisint8allowed": "1", "session.qdq_matmulnbits_accuracy_level": "0"}


def is_narrow() -> bool:
    """Whether int8 weights beside uint8 codes must have 7 bits: the processor saturates sums of two products."""
    return this_processor().is_x86 and not this_processor().has_dot_products


def unfit() -> str:
    """Why onnxruntime on this processor is not a judge of bits; "" if it is one."""
    processor = this_processor()
    return "" if processor.is_x86 and processor.has_fma else f"{processor} is not x86-64 with FMA"


def description() -> str:
    """The judge, its version and the instruction set, in a line."""
    weights = ", so int8 weights beside uint8 codes are within -64..64" if is_narrow() else ""
    options = ", ".join(f"{name}={value}" for name, value in OPTIONS.items())
    return f"judge: onnxruntime {onnxruntime.__version__}, {options}, one thread; {this_processor()}{weights}"


def session(content: bytes) -> onnxruntime.InferenceSession:
    """One thread, int8 codes kept as they are, products of 16-bit and of 4-bit codes in float32."""
    options = onnxruntime.SessionOptions()
    for name, value in OPTIONS.items():
        options.add_session_config_entry(name, value)
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


@dataclass(frozen=True)
class Port:
    """An input or output of the model, and the codes that it is quantized to or dequantized from, if it is.

    ``codes`` is the name of their tensor, "" if there is none.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    codes: str = ""
    scale: float = 1.0  # a float32 number
    zero: np.ndarray | None = None

    @property
    def code_type(self) -> np.dtype:
        """That of the codes."""
        return np.dtype(np.uint8) if self.zero is None else self.zero.dtype

    @property
    def zero_point(self) -> int:
        return 0 if self.zero is None else int(self.zero.reshape(-1)[0])

    def numbers(self, codes: np.ndarray) -> np.ndarray:
        """DequantizeLinear."""
        return (codes.astype(np.int32) - np.int32(self.zero_point)).astype(np.float32) * np.float32(self.scale)

    def quantized(self, numbers: np.ndarray) -> np.ndarray:
        """QuantizeLinear."""
        info = np.iinfo(self.code_type)
        rounded = np.rint(numbers / np.float32(self.scale)) + self.zero_point
        return np.clip(rounded, info.min, info.max).astype(self.code_type)


class Judge:
    """A model in onnxruntime; raises onnxruntime's error if it does not take the model."""

    def __init__(self, content: bytes) -> None:
        self.model = ModelProto.FromString(content)
        self._session = session(content)
        graph = self.model.graph
        self._constants = {each.name: each for each in graph.initializer}
        quantizing = {node.input[0]: node for node in graph.node if node.op_type == "QuantizeLinear"}
        dequantizing = {node.output[0]: node for node in graph.node if node.op_type == "DequantizeLinear"}
        self.inputs = [self._port(each, quantizing.get(each.name), 0) for each in self._session.get_inputs()]
        self.outputs = [self._port(each, dequantizing.get(each.name), 1) for each in self._session.get_outputs()]

    def _port(self, tensor: onnxruntime.NodeArg, node: onnx.NodeProto | None, direction: int) -> Port:
        element = tensor.type.removeprefix("tensor(").removesuffix(")")
        dtype = np.dtype("float32" if element == "float" else element)
        port = Port(tensor.name, tuple(tensor.shape), dtype)
        if node is None or dtype != np.float32:
            return port
        values = [numpy_helper.to_array(self._constants[name]) for name in node.input[1:] if name in self._constants]
        codes = node.input[0] if direction else node.output[0]
        scale = float(values[0].reshape(-1)[0])
        return Port(port.name, port.shape, dtype, codes, scale, values[1] if len(values) > 1 else None)

    def run(self, feeds: Arrays) -> dict[str, np.ndarray]:
        names = [port.name for port in self.outputs]
        return dict(zip(names, self._session.run(names, dict(feeds)), strict=True))

    def feeds(self, seed: int, cases: int) -> list[dict[str, np.ndarray]]:
        """Random, extreme and constant inputs, and such as lie halfway between codes."""
        rng = np.random.default_rng(seed)
        kinds = ["random", "ends", "narrow", "constant", "random", "between", "low", "high"]
        return [
            {port.name: drawn(port, kinds[case % len(kinds)], rng) for port in self.inputs} for case in range(cases)
        ]

    def allowed(self, outputs: Arrays, tolerance: str) -> dict[str, np.ndarray]:
        """How far outputs of a network of this ``tolerance`` may be off.

        Floats that no codes stand for are exact with "bits" alone.
        """
        found = {}
        for port in self.outputs:
            y = outputs[port.name]
            most = 0.0
            if tolerance == "code":
                most = 1.001 * port.scale if port.codes else 1.0
            elif y.dtype == np.float32 and tolerance != "bits" and (tolerance == "float" or not port.codes):
                most = FLOAT_TOLERANCE * max(1.0, float(np.abs(y).max(initial=0)))
            found[port.name] = np.full(y.shape, most)
        return found


def drawn(port: Port, kind: str, rng: np.random.Generator) -> np.ndarray:
    dtype = port.code_type if port.dtype == np.float32 else port.dtype
    if dtype.kind not in "iu" or dtype.itemsize > 2:
        return rng.integers(0, 5, port.shape).astype(port.dtype)
    if port.dtype == np.float32 and not port.codes:
        return rng.normal(0, {"ends": 3, "narrow": 0.1}.get(kind, 1), port.shape).astype(np.float32)
    info = np.iinfo(dtype)
    low, high = int(info.min), int(info.max)
    middle = port.zero_point if port.codes else int(rng.integers(low, high + 1))
    match kind:
        case "ends":
            codes = rng.choice([low, high], port.shape)
        case "narrow":
            codes = np.clip(middle + rng.integers(-4, 5, port.shape), low, high)
        case "constant":
            codes = np.full(port.shape, rng.integers(low, high + 1))
        case "low" | "high":
            codes = np.full(port.shape, low if kind == "low" else high)
        case _:
            codes = rng.integers(low, high + 1, port.shape)
    codes = codes.astype(dtype)
    if port.dtype != np.float32:
        return codes
    numbers = port.numbers(codes)
    if kind == "between":
        numbers = numbers + np.float32(port.scale) * rng.choice(np.float32([-0.5, 0.5, 0.49999, 0.3]), port.shape)
    return np.asarray(numbers, np.float32)
