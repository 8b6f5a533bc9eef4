"""Sums of floats near transpositions: onnxruntime moves these, and adds up in the order of memory there is then."""

from __future__ import annotations

import random

import numpy as np
import pytest
from judged import judge
from marks import share_at_first
from models import graph_model
from onnx import helper

import qcgen
from qcgen.reference import evaluate

BY = {"scale": np.float32(0.1), "zero": np.int8(3), "axis": np.array([1])}
BY |= {"w": np.random.default_rng(0).integers(-40, 40, (4, 4, 3, 3)).astype(np.int8), "shape": np.array([1, 4, 42])}


class Steps:
    """Nodes, one after the other; ``shapes`` of what they make."""

    def __init__(self, inputs: dict[str, tuple[str, tuple[int, ...]]]) -> None:
        self.nodes: list = []
        self.inputs, self.shapes = inputs, {name: shape for name, (dtype, shape) in inputs.items() if dtype == "float"}

    def add(self, op_type: str, inputs: list[str], shape=None, **attributes) -> str:
        y = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [y], **attributes))
        self.shapes[y] = () if shape is None else tuple(shape)
        return y

    def numbers(self, x: str, shape=None) -> str:
        return self.add("DequantizeLinear", [x, "scale", "zero"], shape)

    def quantized(self, x: str) -> str:
        return self.numbers(self.add("QuantizeLinear", [x, "scale", "zero"]), self.shapes[x])

    def conv(self, x: str) -> str:
        w = self.numbers("w")
        return self.quantized(self.add("Conv", [x, w], pads=(1, 1, 1, 1)))

    def transposed(self, x: str, *perm: int) -> str:
        return self.add(
            "Transpose", [x], [self.shapes[x][axis] for axis in perm] if self.shapes[x] else None, perm=perm
        )


def equal(steps: Steps, outputs: list[str], seed: int = 0) -> None:
    constants = {name: value for name, value in BY.items() if any(name in node.input for node in steps.nodes)}
    model = graph_model(steps.nodes, steps.inputs, dict.fromkeys(outputs), constants, opset=13)
    rng, feeds = np.random.default_rng(seed), {}
    for name, (dtype, shape) in steps.inputs.items():
        drawn = rng.normal(size=shape) if dtype == "float" else rng.integers(-128, 128, shape)
        feeds[name] = drawn.astype("float32" if dtype == "float" else dtype)
    artifact = qcgen.compile(model, name="net")
    if artifact.report.inexact or any(node.in_float for node in artifact.report.nodes):
        return  # named
    found = evaluate(artifact.program, feeds)
    for name, expected in zip(outputs, judge(model, feeds), strict=True):
        np.testing.assert_array_equal(found[name], expected, err_msg=f"{seed} {name}")


CHAINS = {
    "mean": lambda n, x: n.add("ReduceMean", [n.transposed(x, 0, 2, 3, 1)], axes=(1, 2)),
    "mean without axes": lambda n, x: n.add("ReduceMean", [n.transposed(x, 0, 2, 3, 1)], axes=(1, 2), keepdims=0),
    "sum of all": lambda n, x: n.add("ReduceMean", [n.transposed(x, 3, 2, 0, 1)]),
    "and back": lambda n, x: n.transposed(n.add("ReduceSum", [n.transposed(x, 0, 2, 3, 1), "axis"]), 0, 3, 1, 2),
    "a function between": lambda n, x: n.add("ReduceSum", [n.add("Abs", [n.transposed(x, 0, 2, 3, 1)]), "axis"]),
    "read twice": lambda n, x: n.add("Sub", [t := n.transposed(x, 0, 2, 3, 1), n.add("ReduceSum", [t, "axis"])]),
    "codes between": lambda n, x: n.add("ReduceMean", [n.quantized(n.transposed(x, 0, 2, 3, 1))], axes=(1, 2)),
    "behind a convolution": lambda n, x: n.add("ReduceMean", [n.conv(n.transposed(x, 0, 3, 1, 2))], axes=(1,)),
    "between convolutions": lambda n, x: n.conv(
        n.quantized(n.add("Mul", [c := n.conv(n.transposed(x, 0, 3, 1, 2)), n.add("ReduceMean", [c], axes=(1,))]))
    ),
    "a function behind a convolution": lambda n, x: n.transposed(
        n.add("ReduceMean", [n.add("Neg", [n.conv(n.transposed(x, 0, 3, 1, 2))])], axes=(1,)), 0, 2, 3, 1
    ),
    "rows behind a convolution": lambda n, x: n.add(
        "ReduceMean",
        [n.transposed(n.add("Reshape", [n.conv(n.transposed(x, 0, 3, 1, 2)), "shape"]), 0, 2, 1)],
        axes=(1,),
    ),
}


@pytest.mark.parametrize("dtype", ["float", "int8"])
@pytest.mark.parametrize("name", CHAINS)
def test_sums_are_in_the_order_of_onnxruntime(name, dtype):
    is_coded = "convolution" in name
    steps = Steps({"x": ("int8" if is_coded else dtype, (1, 6, 7, 4))})
    x = steps.numbers("x", (1, 6, 7, 4)) if is_coded or dtype == "int8" else "x"
    equal(steps, [CHAINS[name](steps, x)])


def drawn(seed: int) -> tuple[Steps, list[str]]:
    """Some operators, most of them of one of the last tensors, and the outputs of the network."""
    draw = random.Random(seed)
    shape = draw.choice([(2, 9, 33), (1, 5, 7, 3), (3, 1, 17, 2), (6, 40)])
    steps = Steps({"x": (draw.choice(["float", "int8"]), shape)})
    if steps.inputs["x"][0] == "int8":
        steps.numbers("x", shape)
    for _ in range(draw.randint(3, 8)):
        names = list(steps.shapes)
        x = draw.choice([*names[-3:], *[names[-1]] * 3])
        shape, rank = steps.shapes[x], len(steps.shapes[x])
        kind = draw.choice(["transpose", "transpose", "reduce", "reduce", "function", "codes", "two", "parts"])
        if rank < 2:
            continue
        if kind == "transpose":
            steps.transposed(x, *draw.sample(range(rank), rank))
        elif kind == "reduce":
            axes, keeps_axes = sorted(draw.sample(range(rank), draw.randint(1, rank - 1))), draw.random() < 0.6
            left = [
                1 if axis in axes else length for axis, length in enumerate(shape) if keeps_axes or axis not in axes
            ]
            steps.add("ReduceMean", [x], left, axes=axes, keepdims=int(keeps_axes))
        elif kind == "function":
            steps.add(draw.choice(["Relu", "Abs", "Neg", "LeakyRelu"]), [x], shape)
        elif kind == "parts":
            axis = draw.randrange(rank)
            steps.add("Concat", [x, x], [*shape[:axis], 2 * shape[axis], *shape[axis + 1 :]], axis=axis)
        elif kind == "two":
            other = draw.choice([name for name in names if steps.shapes[name] == shape])
            steps.add(draw.choice(["Add", "Sub", "Mul"]), [x, other], shape)
        else:
            steps.shapes.pop(steps.quantized(x), None) if draw.random() < 0.3 else steps.quantized(x)
            steps.shapes = {name: each for name, each in steps.shapes.items() if each or name == x}
    read = {name for node in steps.nodes for name in node.input}
    made = [name for node in steps.nodes for name in node.output]
    return steps, [name for name in made if name not in read]


@pytest.mark.parametrize("part", share_at_first(range(10), 10))
def test_sums_of_random_networks_are_in_the_order_of_onnxruntime(part):
    for seed in range(40 * part, 40 * (part + 1)):
        steps, outputs = drawn(seed)
        if any(node.op_type == "ReduceMean" for node in steps.nodes):
            equal(steps, outputs, seed)
