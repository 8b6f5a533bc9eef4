"""The head of the C claimed onnxruntime's codes for nodes between codes that onnxruntime computes in float.

What sums up in float32 rounds otherwise next to a tie: the C is a code off there, which nothing said.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from judged import optimized
from onnx import ModelProto, TensorProto, helper
from qdq import A, B, C, Chain, Meaning

import qcgen

LOWEST: Meaning = (0.05, np.uint8(0))
MIDDLE: Meaning = (0.05, np.uint8(128))
SIX: Meaning = (6 / 255, np.uint8(0))
IMAGE = (1, 4, 6, 6)
WEIGHTS = np.random.default_rng(0).integers(-60, 61, (4, 4, 1, 1)).astype(np.int8)


def chain(*operators: tuple[str, dict], to: Meaning = MIDDLE, x: Meaning = A, w: np.ndarray = WEIGHTS, bias=None):
    """A convolution, these operators, QuantizeLinear."""
    made = Chain()
    inputs = [made.dequantize("x", x, "values"), made.weights("w", w, (0.01, w.dtype.type(0)))]
    inputs += [] if bias is None else [made.weights("b", np.int32([100, -200, 3, 4]), (bias, np.int32(0)))]
    y = made.node("Conv", inputs, "conv")
    for op_type, attributes in operators:
        constants = attributes.get("constants", [])
        names = [made.constant(f"{op_type}_{i}", each) if each is not None else "" for i, each in enumerate(constants)]
        rest = {name: value for name, value in attributes.items() if name != "constants"}
        y = made.node(op_type, [y, *names], **rest)
    made.quantize(y, to, "y")
    return made.model(IMAGE, opset=13, x_type=np.dtype(type(x[1])).name)


def of_4_bits() -> ModelProto:
    model = chain()
    model.opset_import[0].version = 21
    model.ir_version = 10
    for tensor in model.graph.initializer:
        if tensor.name in ("w", "w_dq_zp"):
            numbers = [5] * 16 if tensor.name == "w" else [0]
            tensor.CopyFrom(helper.make_tensor(tensor.name, TensorProto.INT4, tensor.dims, numbers))
    return model


def other(op_type: str, *others: str, to: Meaning = MIDDLE, **attributes) -> ModelProto:
    """An operator of x, dequantized, and where it has two inputs of its transpose."""
    made = Chain()
    inputs = [made.dequantize("x", A, "values")]
    if op_type in ("Add", "Mul"):
        inputs.append(made.dequantize(made.node("Transpose", ["x"], "turned", perm=[0, 1, 3, 2]), B, "others"))
    y = made.node(op_type, inputs, "result", **attributes)
    for each in others:
        y = made.node(each, [y])
    made.quantize(y, to, "y")
    return made.model(IMAGE, x_type="uint8")


def behind(op_type: str, *constants: np.ndarray, reader: str = "Conv", **attributes) -> ModelProto:
    """Codes that a movement, or a clamp, gives to a convolution or to a sum."""
    made = Chain()
    names = [made.constant(f"c{i}", each) if each.size else "" for i, each in enumerate(constants)]
    x = made.dequantize("x", (0.05, np.uint8(3)), "values")
    moved = made.node(op_type, [x, x] if op_type == "Concat" else [x, *names], "moved", **attributes)
    w = np.random.default_rng(0).integers(-60, 61, (5, {"Concat": 8, "DepthToSpace": 1}.get(op_type, 4), 1, 1))
    other = made.weights("w", w.astype(np.int8), (0.01, np.int8(0))) if reader == "Conv" else moved
    made.quantize(made.node(reader, [moved, other], "result"), MIDDLE, "y")
    return made.model(IMAGE, opset=13, x_type="uint8")


def transposed() -> ModelProto:
    made = Chain()
    inputs = [made.dequantize("x", A, "values"), made.weights("w", WEIGHTS, (0.01, np.int8(0)))]
    made.quantize(made.node("ConvTranspose", inputs, "conv"), MIDDLE, "y")
    return made.model(IMAGE, x_type="uint8")


BORDER = np.int64([0, 0, 1, 1, 0, 0, 1, 1])
BOUNDS = [np.float32(0), np.float32(6)]
CASES: dict[str, Callable[[], ModelProto]] = {
    "alone": chain,
    "Relu at the lowest code": partial(chain, ("Relu", {}), to=LOWEST),
    "Relu in the middle": partial(chain, ("Relu", {})),
    "Clip that the codes do": partial(chain, ("Clip", {"constants": BOUNDS}), to=SIX),
    "Clip within the codes": partial(chain, ("Clip", {"constants": BOUNDS}), to=LOWEST),
    "Transpose": partial(chain, ("Transpose", {"perm": [0, 2, 3, 1]})),
    "Reshape": partial(chain, ("Reshape", {"constants": [np.int64([-1])]})),
    "MaxPool": partial(chain, ("MaxPool", {"kernel_shape": [2, 2]})),
    "Flatten": partial(chain, ("Flatten", {})),
    "Pad": partial(chain, ("Pad", {"constants": [np.int64([0, 0, 1, 1, 0, 0, 1, 1])]})),
    "Resize": partial(chain, ("Resize", {"constants": [None, np.float32([1, 1, 2, 2])], "mode": "nearest"})),
    "Relu behind a MaxPool": partial(chain, ("MaxPool", {"kernel_shape": [2, 2]}), ("Relu", {})),
    "another type": partial(chain, to=C),
    "int8 codes": partial(chain, x=C, to=(0.05, np.int8(0))),
    "int8 codes by uint8 weights": partial(chain, x=C, to=(0.05, np.int8(0)), w=np.abs(WEIGHTS).astype(np.uint8)),
    "uint8 weights": partial(chain, w=np.abs(WEIGHTS).astype(np.uint8)),
    "weights of 4 bits": of_4_bits,
    "a bias in units of the sum": partial(chain, bias=0.0002),
    "a bias in other units": partial(chain, bias=0.00041),
    "ConvTranspose": transposed,
    "Add": partial(other, "Add"),
    "Add, Relu": partial(other, "Add", "Relu"),
    "Mul to another type": partial(other, "Mul", to=C),
    "AveragePool": partial(other, "AveragePool", kernel_shape=[2, 2]),
    "AveragePool to another type": partial(other, "AveragePool", kernel_shape=[2, 2], to=C),
    "GlobalAveragePool": partial(other, "GlobalAveragePool"),
    "ReduceMean of all pixels": partial(other, "ReduceMean", axes=[2, 3]),
    "ReduceMean": partial(other, "ReduceMean", axes=[1]),
    "Softmax": partial(other, "Softmax", to=(1 / 256, np.uint8(0))),
    "behind a Transpose": partial(behind, "Transpose", perm=[0, 1, 3, 2]),
    "behind a MaxPool": partial(behind, "MaxPool", kernel_shape=[2, 2]),
    "behind a Slice": partial(behind, "Slice", np.int64([1]), np.int64([3]), np.int64([2])),
    "behind a Reshape": partial(behind, "Reshape", np.int64([1, 4, 3, 12])),
    "behind a Pad of zeros": partial(behind, "Pad", BORDER),
    "behind a Pad of ones": partial(behind, "Pad", BORDER, np.float32(1)),
    "a sum behind a Pad of zeros": partial(behind, "Pad", BORDER, reader="Add"),
    "behind a Relu": partial(behind, "Relu"),
    "behind a Concat": partial(behind, "Concat", axis=1),
    "behind a DepthToSpace": partial(behind, "DepthToSpace", blocksize=2),
    "behind a nearest Resize": partial(behind, "Resize", np.empty(0), np.float32([1, 1, 2, 2]), mode="nearest"),
    "a sum behind a Flatten": partial(behind, "Flatten", reader="Add"),
    "a sum behind a Reshape": partial(behind, "Reshape", np.int64([-1]), reader="Add"),
    "Sigmoid to another type, a table": partial(other, "Sigmoid", to=C),
}
FLOAT = {
    "Conv",
    "FusedConv",
    "ConvTranspose",
    "Add",
    "Mul",
    "AveragePool",
    "GlobalAveragePool",
    "ReduceMean",
}


@pytest.mark.parametrize("name", CASES)
def test_a_node_is_named_if_onnxruntime_computes_it_in_float(name, tmp_path):
    model = CASES[name]()
    in_float = not FLOAT.isdisjoint(optimized(model, tmp_path))
    artifact = qcgen.compile(model, name="kept")
    named = [node.name for node in artifact.report.nodes if node.in_float]
    assert bool(named) == in_float
    assert ("computes this node in float" in artifact.files["kept.c"]) == in_float


def test_compile_names_them_in_a_line(tmp_path, capsys):
    from qcgen.cli import main

    path = tmp_path / "m.onnx"
    path.write_bytes(chain(("Relu", {})).SerializeToString())
    assert main(["compile", str(path), "-o", str(tmp_path)]) == 0
    line = "onnxruntime computes in float, one code more or less next to a tie: conv_node"
    assert line in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(("op_type", "number"), [("Elu", np.expm1(-1.0)), ("Log", np.log(2.0)), ("Sin", np.sin(1.0))])
def test_a_table_is_named_where_a_function_of_the_c_library_lies_next_to_a_step(op_type, number):
    x = {"Elu": -1.0, "Log": 2.0, "Sin": 1.0}[op_type]
    for steps, is_near in ((7.5, True), (7.31, False)):
        made = Chain()
        y = made.node(op_type, [made.dequantize("x", (abs(x), np.uint8(1 if x < 0 else 0)))])
        made.quantize(y, (np.float32(abs(number) / steps), np.uint8(128)), "y")
        report = qcgen.compile(made.model((1, 4), opset=13, x_type="uint8"), name="m").report
        assert [node.in_float for node in report.nodes] == [is_near]
