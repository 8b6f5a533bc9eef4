"""Float normalizations of (nearly) equal numbers: the C gave 0.0097, or 0.9995 with a small epsilon, where onnxruntime
gives 0, since a mean of float32 sums is not what it is the mean of. At 16 bits that was up to 112 codes.
"""

import numpy as np
import pytest
from batch import require
from judged import judge
from models import node_model

import qcgen

DRAW = np.random.default_rng(0)
ROWS = {
    "equal": lambda n: np.full(n, 35.55),
    "nearly equal": lambda n: 35.55 + DRAW.integers(-3, 4, n) * 3.8e-6,
    "far from 0": lambda n: DRAW.normal(1000, 1, n),
    "around 0": lambda n: DRAW.normal(0, 1, n),
    "of all sizes": lambda n: DRAW.normal(0, 1, n) * 10.0 ** DRAW.integers(-6, 6, n),
}


def drawn(kind: str, *shape: int) -> np.ndarray:
    return ROWS[kind](shape).astype(np.float32)


def differing(model, *shape: int) -> dict[str, int]:
    """How many numbers of the C are not onnxruntime's, by the kind of rows where any are not."""
    require("gcc")
    loaded, found = qcgen.compile(model, name="normal").load(("-O0",)), {}
    for kind in ROWS:
        x = drawn(kind, *shape)
        [y] = loaded.run(None, {"x": x})
        found[kind] = int((y != judge(model, {"x": x})[0]).sum())
    return {kind: count for kind, count in found.items() if count}


def layer_norm(length: int, has_bias: bool, epsilon: float):
    operands = {"x": ("float", (6, length)), "scale": DRAW.normal(1, 1, length).astype(np.float32)}
    operands |= {"bias": DRAW.normal(0, 1, length).astype(np.float32)} if has_bias else {}
    return node_model("LayerNormalization", operands, opset=17, epsilon=epsilon)


@pytest.mark.parametrize(("epsilon", "has_bias"), [(1e-5, True), (1e-12, False)])
@pytest.mark.parametrize("length", [1, 2, 7, 8, 12, 15, 96])
def test_layers_are_onnxruntimes(length, epsilon, has_bias):
    assert differing(layer_norm(length, has_bias, epsilon), 6, length) == {}


@pytest.mark.parametrize("epsilon", [1e-5, 1e-12])
@pytest.mark.parametrize("pixels", [1, 3, 16, 41, 96])
def test_instances_are_onnxruntimes(pixels, epsilon):
    scale, bias = (DRAW.normal(1, 1, 3).astype(np.float32) for _ in range(2))
    operands = {"x": ("float", (2, 3, pixels)), "scale": scale, "bias": bias}
    assert differing(node_model("InstanceNormalization", operands, epsilon=epsilon), 2, 3, pixels) == {}


@pytest.mark.parametrize("epsilon", [1e-5, 1e-12])
def test_equal_numbers_give_the_bias(epsilon):
    require("gcc")
    operands = {"x": ("float", (1, 96)), "scale": np.ones(96, np.float32), "bias": np.zeros(96, np.float32)}
    model = node_model("LayerNormalization", operands, opset=17, epsilon=epsilon)
    [y] = qcgen.compile(model, name="normal").load().run(None, {"x": drawn("equal", 1, 96)})
    assert not y.any()


def test_verify_measures_normalizations_of_numbers(tmp_path, capsys):
    from qcgen.cli import main

    require("gcc")
    path = tmp_path / "norm.onnx"
    path.write_bytes(layer_norm(12, True, 1e-5).SerializeToString())
    assert main(["verify", str(path), "--oracle", "own"]) == 0
    assert "total: 0 of " in capsys.readouterr().out
