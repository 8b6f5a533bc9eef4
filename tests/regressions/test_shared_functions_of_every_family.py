"""Two equal depthwise layers, channels first: the macro before the function that they share was not defined."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from itertools import product

import onnx
import pytest
from batch import require
from bench.compiling import Network
from marks import some_at_first
from onnx import TensorProto, helper

import qcgen
from qcgen.build import STRICT_FLAGS
from qcgen.cores import TARGETS

LAYERS: dict[str, Callable[[Network, str], str]] = {
    "window": lambda n, x: n.conv(x, 6, 3),
    "pointwise": lambda n, x: n.conv(x, 6),
    "groups": lambda n, x: n.conv(x, 6, 3, group=2),
    "depthwise": lambda n, x: n.depthwise(x, 3),
    "large": lambda n, x: n.depthwise(x, 5),
    "narrow": lambda n, x: n.conv(x, 6, 2),
    "dense": lambda n, x: n.conv(x, 16),
}


def pairs(kind: str, depth: int) -> onnx.ModelProto:
    """Two layers from input to output, or two behind two others: they differ in nothing but weights and scales.

    No other layer defines what their functions need.
    """
    n = Network((1, 16, 1, 1) if kind == "dense" else (1, 6, 12, 11))
    ys = ["x", "x"]
    for _ in range(depth):
        ys = [LAYERS[kind](n, y) for y in ys]
    model = n.model(ys[0])
    model.graph.output.append(helper.make_tensor_value_info(ys[1], TensorProto.INT8, n.image(ys[1])))
    return model


@pytest.mark.parametrize("layout", some_at_first(["nhwc", "nchw"]))
@pytest.mark.parametrize("target", some_at_first(list(TARGETS), "cortex-m4"))
def test_the_c_of_layers_that_share_functions_compiles(target, layout, tmp_path):
    require("gcc")
    options = {"target": target, "layout": layout, "io": "quantized"}
    artifacts = [
        qcgen.compile(pairs(kind, depth), name=f"{kind}_{depth}", **options) for kind, depth in product(LAYERS, (1, 2))
    ]
    assert sum(bool(artifact.plan.shared) for artifact in artifacts) >= 4
    for artifact in artifacts:
        artifact.write(tmp_path)
    command = ["gcc", *STRICT_FLAGS, "-fsyntax-only", *(path.name for path in tmp_path.glob("*.c"))]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[:3000]
