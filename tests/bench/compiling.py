"""Networks as large as those that people compile, with random weights: how long compiling takes.

The shapes are those of the papers: keyword spotting is the depthwise separable network of "Hello Edge" (MLPerf Tiny),
MobileNetV2 of 1801.04381 and EfficientNet-B0 of 1905.11946. The time does not depend on what a network has learnt.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from onnx import ModelProto, helper, numpy_helper

MICROSOFT = "com.microsoft"
SCALE, ZERO_POINT = 0.05, 3  # of every tensor of codes


class Network:
    """QOperator nodes one after the other; a tensor is known by its name and its shape."""

    def __init__(self, x: Sequence[int], seed: int = 1) -> None:
        self._random = np.random.RandomState(seed)
        self._nodes: list = []
        self._constants = {"s": np.float32(SCALE), "z": np.int8(ZERO_POINT)}
        self._x = tuple(x)
        self._shapes = {"x": self._x}

    def _add(self, op_type: str, inputs: Sequence[str], shape: Sequence[int], **attributes: object) -> str:
        name = f"{op_type.lower()}_{len(self._nodes)}"
        domain = "" if op_type in ("QLinearConv", "Flatten") else MICROSOFT
        self._nodes.append(helper.make_node(op_type, inputs, [name], name=name, domain=domain, **attributes))
        self._shapes[name] = tuple(shape)
        return name

    def _constant(self, name: str, values: np.ndarray) -> str:
        self._constants[f"{name}_{len(self._nodes)}"] = values
        return f"{name}_{len(self._nodes)}"

    def conv(self, x: str, channels: int, kernel: int = 1, stride: int = 1, group: int = 1) -> str:
        """A convolution whose outputs spread over much of the range of the codes."""
        batch, inputs, *image = self._shapes[x]
        shape = (channels, inputs // group, kernel, kernel)
        weights = np.clip(np.rint(self._random.laplace(0, 25, shape)), -128, 127).astype(np.int8)
        spread = (0.7 + 0.7 * self._random.rand(channels)) / np.sqrt(weights[0].size) / 60
        before, after = (kernel - stride) // 2 if kernel > stride else 0, (kernel - 1) // 2
        operands = [
            x, "s", "z",
            self._constant("w", weights), self._constant("ws", spread.astype(np.float32)),
            self._constant("wz", np.zeros(channels, np.int8)), "s", "z",
            self._constant("b", self._random.randint(-3000, 3000, channels).astype(np.int32)),
        ]  # fmt: skip
        y = [batch, channels, *((size + before + after - kernel) // stride + 1 for size in image)]
        pads = [before, before, after, after]
        return self._add("QLinearConv", operands, y, strides=[stride] * 2, group=group, pads=pads)

    def depthwise(self, x: str, kernel: int = 3, stride: int = 1) -> str:
        channels = self._shapes[x][1]
        return self.conv(x, channels, kernel, stride, channels)

    def sum(self, a: str, b: str) -> str:
        return self._add("QLinearAdd", [a, "s", "z", b, "s", "z", "s", "z"], self._shapes[a])

    def product(self, a: str, b: str) -> str:
        return self._add("QLinearMul", [a, "s", "z", b, "s", "z", "s", "z"], self._shapes[a])

    def sigmoid(self, x: str) -> str:
        return self._add("QLinearSigmoid", [x, "s", "z", "s", "z"], self._shapes[x])

    def mean(self, x: str) -> str:
        batch, channels, *image = self._shapes[x]
        shape = [batch, channels, *(1 for _ in image)]
        return self._add("QLinearGlobalAveragePool", [x, "s", "z", "s", "z"], shape, channels_last=0)

    def channels(self, x: str) -> int:
        return self._shapes[x][1]

    def image(self, x: str) -> tuple[int, ...]:
        return self._shapes[x]

    def model(self, y: str) -> ModelProto:
        graph = helper.make_graph(
            self._nodes,
            "network",
            [helper.make_tensor_value_info("x", 3, self._x)],
            [helper.make_tensor_value_info(y, 3, self._shapes[y])],
            [numpy_helper.from_array(np.asarray(values), name) for name, values in self._constants.items()],
        )
        imports = [helper.make_opsetid("", 13), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=8)


def keyword_spotting() -> ModelProto:
    n = Network((1, 1, 49, 10))
    x = n.conv("x", 64, 5, 2)
    for _ in range(4):
        x = n.conv(n.depthwise(x), 64)
    return n.model(n.conv(n.mean(x), 12))


def mobilenet_v2(width: float = 1, size: int = 224) -> ModelProto:
    """MobileNetV2 with channels times ``width``, rounded to multiples of 8, on images of ``size`` by ``size``."""
    n = Network((1, 3, size, size))
    x = n.conv("x", _eighths(32 * width), 3, 2)
    for expansion, channels, repeats, stride in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
    ):  # fmt: skip
        for index in range(repeats):
            wide = n.conv(x, expansion * n.channels(x)) if expansion > 1 else x
            y = n.conv(n.depthwise(wide, 3, stride if index == 0 else 1), _eighths(channels * width))
            x = n.sum(x, y) if n.image(x) == n.image(y) and n.channels(x) == n.channels(y) else y
    return n.model(n.conv(n.mean(n.conv(x, _eighths(1280 * max(width, 1)))), 1000))


def mcunet(height: int = 128, width: int = 160) -> ModelProto:
    """MCUNet for visual wake words (arXiv 2007.10319), blocks as in TinyEngine's generated code, on larger images."""
    n = Network((1, 3, height, width))
    x = n.conv(n.depthwise(n.conv("x", 16, 3, 2)), 8)
    for kernel, wide, channels, stride in (
        (3, 48, 16, 2), (3, 48, 16, 1), (3, 48, 16, 1), (7, 48, 24, 2), (3, 144, 24, 1), (5, 120, 24, 1),
        (7, 144, 40, 2), (7, 240, 40, 1), (3, 240, 48, 1), (3, 192, 48, 1), (5, 240, 96, 2), (3, 480, 96, 1),
        (3, 384, 96, 1), (7, 288, 160, 1),
    ):  # fmt: skip
        y = n.conv(n.depthwise(n.conv(x, wide), kernel, stride), channels)
        x = n.sum(x, y) if n.image(x) == n.image(y) else y
    return n.model(n.conv(n.mean(x), 2))


def _eighths(channels: float) -> int:
    """Channels as MobileNetV2 rounds them: to a multiple of 8, not more than a tenth below."""
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * channels else rounded


def efficientnet_b0() -> ModelProto:
    n = Network((1, 3, 224, 224))

    def swish(x: str) -> str:
        return n.product(x, n.sigmoid(x))

    x = swish(n.conv("x", 32, 3, 2))
    for expansion, channels, repeats, stride, kernel in (
        (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5), (6, 192, 4, 2, 5),
        (6, 320, 1, 1, 3),
    ):  # fmt: skip
        for index in range(repeats):
            wide = swish(n.conv(x, expansion * n.channels(x))) if expansion > 1 else x
            wide = swish(n.depthwise(wide, kernel, stride if index == 0 else 1))
            few = swish(n.conv(n.mean(wide), max(1, n.channels(x) // 4)))
            wide = n.product(wide, n.sigmoid(n.conv(few, n.channels(wide))))
            y = n.conv(wide, channels)
            x = n.sum(x, y) if n.image(x) == n.image(y) else y
    return n.model(n.conv(n.mean(swish(n.conv(x, 1280))), 1000))


NETWORKS: Mapping[str, tuple[Callable[[], ModelProto], float]] = {
    "keyword spotting": (keyword_spotting, 0.7),
    "MobileNetV2-1.0 224x224": (mobilenet_v2, 3),
    "EfficientNet-B0": (efficientnet_b0, 10),
}
"""How each is made, and in how many seconds of processor time it should compile."""

COMPILE = """
import resource, sys
from qcgen.cli import main
status = main(["compile", sys.argv[1], "-o", sys.argv[2], "--target", sys.argv[3]])
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime, used.ru_maxrss, file=sys.stderr)
sys.exit(status)
"""


def measure(model: ModelProto, folder: Path, target: str) -> tuple[float, float, int]:
    """Seconds of processor time with start-up, MiB of memory, bytes of C, of ``qcgen compile``."""
    (folder / "network.onnx").write_bytes(model.SerializeToString())
    command = [sys.executable, "-c", COMPILE, str(folder / "network.onnx"), str(folder), target]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds, kibibytes = result.stderr.split()[-2:]
    return float(seconds), int(kibibytes) / 1024, (folder / "network.c").stat().st_size


def main() -> int:
    """Prints a table."""
    target = sys.argv[1] if len(sys.argv) > 1 else "cortex-m4"
    print(f"qcgen compile --target {target}, processor time with start-up")
    print(f"{'network':26} {'seconds':>8} {'goal':>6} {'MiB':>6} {'C in MB':>8}")
    for name, (build, goal) in NETWORKS.items():
        with tempfile.TemporaryDirectory() as folder:
            seconds, memory, size = measure(build(), Path(folder), target)
        print(f"{name:26} {seconds:8.2f} {goal:6} {memory:6.0f} {size / 1e6:8.1f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
