"""Shapes that a model declares beside those that its operators give."""

import numpy as np
import pytest
from batch import require
from judged import assert_judged
from models import graph_model, node_model, problems, tensor_info
from onnx import helper, shape_inference
from qdq import Chain

import qcgen
from qcgen import ModelRejected
from qcgen.ir.plan import Options
from qcgen.ir.program import Program, Reshape, Slice, Tensor, require_sizes
from qcgen.ir.types import DType
from qcgen.plan import plan
from qcgen.verification import verify


# A declared shape of an inner tensor that is another one than the operators give was refused.
@pytest.mark.parametrize("stale", ["r", "x_q_dq"])
def test_what_the_operators_give_holds_and_is_noted(stale):
    require("gcc")
    chain = Chain()
    x = chain.through("x", (0.07, np.uint8(3)))
    other = chain.weights("w", np.ones((8, 8), np.uint8), (0.019, np.uint8(0)))
    chain.through(chain.node("Add", [x, other], "r"), (0.46, np.uint8(0)), "y")
    model = chain.model((8, 8))
    model.graph.value_info.append(tensor_info(stale, "float", (4, 8)))
    artifact = qcgen.compile(model)
    assert f"the shape of {stale!r} is (8, 8), not (4, 8) as declared" in artifact.notes
    assert verify(artifact, cases=2, flags=("-O0",)).is_right


def pooled(last="Neg"):
    """A window of opset 11 that would begin in the padding: onnx's own inference counts it, onnxruntime does not."""
    pool = {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [1, 0, 0, 1], "ceil_mode": 1}
    nodes = [
        helper.make_node("Abs", ["x"], ["a"], name="first"),
        helper.make_node("AveragePool", ["a"], ["z"], name="pool", **pool),
        helper.make_node(last, ["z"], ["y"], name="last"),
    ]
    return graph_model(nodes, {"x": ("float", (1, 3, 8, 8))}, {"y": ("float", ("n", 3, "h", "w"))}, opset=11)


def test_what_shape_inference_wrote_wrongly_is_computed_as_onnxruntime_does():
    model = shape_inference.infer_shapes(pooled())
    [z] = [value for value in model.graph.value_info if value.name == "z"]
    assert [dim.dim_value for dim in z.type.tensor_type.shape.dim] == [1, 3, 4, 4]
    model.graph.output[0].CopyFrom(pooled().graph.output[0])
    artifact = assert_judged(model, named=None, exact=True)
    assert artifact.notes == ("the shape of 'z' is (1, 3, 4, 3), not (1, 3, 4, 4) as declared",)
    assert artifact.program.outputs[0].shape == (1, 3, 4, 3)


def test_an_output_that_is_declared_wrongly_is_refused():
    model = pooled()
    model.graph.output[0].CopyFrom(tensor_info("y", "float", (1, 3, 4, 4)))
    with pytest.raises(ModelRejected, match="tensor 'y': the model declares it as \\(1, 3, 4, 4\\)"):
        qcgen.compile(model)


# Movements that contradict the shape of their input became C that read and wrote outside of its buffers.
def indices(*values):
    return np.array(values, np.int64)


def movement(op_type, shape, *lists, dtype="float", outputs=("y",), declared=None, opset=13, **attributes):
    """A node with constant lists of integers behind its data; None is an absent input."""
    names = ["" if values is None else f"list{index}" for index, values in enumerate(lists)]
    node = helper.make_node(op_type, ["x", *names], outputs, name="node", **attributes)
    constants = {name: values for name, values in zip(names, lists, strict=True) if name}
    declared = (dtype, declared) if declared else None
    return graph_model([node], {"x": (dtype, shape)}, {y: declared for y in outputs if y}, constants, opset=opset)


def joined(*shapes, declared=None, **attributes):
    names = [f"x{index}" for index in range(len(shapes))]
    inputs = {name: ("float", shape) for name, shape in zip(names, shapes, strict=True)}
    node = helper.make_node("Concat", names, ["y"], name="node", **attributes)
    return graph_model([node], inputs, {"y": ("float", declared) if declared else None})


BAD = {
    "fewer elements": (
        movement("Reshape", (2, 12), indices(1, 12)),
        "its input of shape (2, 12) has 24 elements, but the new shape (1, 12) has 12",
    ),
    "more elements": (
        movement("Reshape", (2, 12), indices(4, 0), dtype="int8"),
        "its input of shape (2, 12) has 24 elements, but the new shape (4, 0) has 48",
    ),
    "elements that cannot be divided": (
        movement("Reshape", (2, 12), indices(-1, 7), declared=(4, 7)),
        "its input of shape (2, 12) has 24 elements, which (-1, 7) cannot divide",
    ),
    "two dimensions left open": (
        movement("Reshape", (2, 12), indices(-1, -1), declared=(4, 7)),
        "its new shape is (-1, -1)",
    ),
    "negative dimensions": (movement("Reshape", (2, 12), indices(-2, -12)), "its new shape is (-2, -12)"),
    "a dimension that is not there": (
        movement("Reshape", (2, 12), indices(2, 12, 0), declared=(2, 12, 3)),
        "its new shape (2, 12, 0) keeps a dimension that its input, of shape (2, 12), does not have",
    ),
    "a squeezed axis that is longer": (
        movement("Squeeze", (2, 12), indices(0)),
        "it removes axis 0 of its input of shape (2, 12), which has 2 elements",
    ),
    "a squeezed axis that is not there": (
        movement("Squeeze", (1, 12), indices(5), declared=(12,)),
        "it names axis 5, but its input has 2 dimensions",
    ),
    "an axis inserted twice": (
        movement("Unsqueeze", (2, 12), indices(0, -4), declared=(7, 1, 2, 12)),
        "it names axis 0 twice",
    ),
    "an axis inserted outside": (
        movement("Unsqueeze", (2, 12), indices(9), declared=(7, 2, 12)),
        "it names axis 9, but its result has 3 dimensions",
    ),
    "flattened behind the last axis": (
        movement("Flatten", (2, 12), axis=7),
        "axis is 7, but its input has 2 dimensions",
    ),
    "an axis sliced twice": (
        movement("Slice", (8, 8), indices(0, 4), indices(8, 8), indices(0, 0)),
        "it names axis 0 twice",
    ),
    "a slice of too few axes": (
        movement("Slice", (8, 8), indices(0, 4), indices(8, 8), indices(0), declared=(20, 8)),
        "starts, ends, axes and steps have different lengths",
    ),
    "a step of 0": (
        movement("Slice", (8, 8), indices(0), indices(8), indices(0), indices(0), declared=(20, 8)),
        "a step is 0",
    ),
    "an empty slice that is declared larger": (
        movement("Slice", (8, 8), indices(8), indices(8), indices(0), declared=(20, 8)),
        "'y' has shape (0, 8): it is empty",
    ),
    "an axis transposed twice": (
        movement("Transpose", (2, 12), perm=[0, 0], declared=(12, 5)),
        "perm is (0, 0), but its input has 2 dimensions",
    ),
    "too few pads": (movement("Pad", (2, 12), indices(1, 1), declared=(12, 55)), "it has 2 pads for 2 axes"),
    "parts that do not add up": (
        movement("Split", (8, 2), indices(3, 9), outputs=("a", "b")),
        "split is (3, 9), which adds up to 12, but axis 0 has 8 elements",
    ),
    "a part of negative length": (movement("Split", (8, 2), indices(-3, 11), outputs=("a", "b")), "split is (-3, 11)"),
    "more lengths than parts": (
        movement("Split", (8, 2), indices(4, 2, 2), outputs=("a", "b")),
        "split gives 3 lengths, but it has 2 outputs",
    ),
    "parts that are not equal": (
        movement("Split", (8, 2), outputs=("a", "b", "c")),
        "axis 0 has 8 elements, which 3 outputs cannot share",
    ),
    "a last part without elements": (
        movement("Split", (8, 2), outputs=tuple("abcdef"), opset=18, num_outputs=6),
        "axis 0 has 8 elements, which 6 outputs cannot share",
    ),
    "another number of parts": (
        movement("Split", (9, 2), outputs=("a", "b", "c"), opset=18, num_outputs=2),
        "num_outputs is 2, but it has 3 outputs",
    ),
    "tensors that cannot be joined": (
        joined((1, 2, 3), (1, 2, 4), axis=1, declared=(1, 4, 4)),
        "it joins tensors of shapes (1, 2, 3) and (1, 2, 4) along axis 1",
    ),
    "joined tensors of several ranks": (
        joined((1, 2, 3), (1, 2), axis=1, declared=(1, 4, 4)),
        "it joins tensors of shapes (1, 2, 3) and (1, 2) along axis 1",
    ),
    "tensors joined along no axis": (joined((1, 2, 3), (1, 2, 3)), "it has no axis"),
    "a size without a scale": (
        node_model("Resize", {"X": ("int8", (1, 2)), "r": None, "scales": np.ones(3, np.float32)}),
        "scales has 3 numbers for 2 axes",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_this_contradiction_is_refused_as_one_problem(name):
    model, what = BAD[name]
    [problem] = problems(qcgen.compile, model)
    assert problem.what == what
    assert problem.where.startswith("node 'node' (")


def test_a_dimension_that_does_not_fit_a_constant_shape_is_explained():
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Reshape", ["a", "shape"], ["y"], name="flat"),
    ]
    model = graph_model(nodes, {"x": ("int8", ("N", 3, 4))}, {"y": None}, {"shape": indices(1, 12)}, opset=14)
    assert qcgen.compile(model, dims={"N": 1}).program.outputs[0].shape == (1, 12)
    [problem] = problems(qcgen.compile, model, dims={"N": 2})
    assert str(problem) == (
        "node 'flat' (Reshape): its input of shape (2, 3, 4) has 24 elements, but the new shape (1, 12) has 12\n"
        '    the model was exported for another size than dims={"N": 2} gives it: '
        "compile it for that size, or export it with this dimension dynamic here, too"
    )


@pytest.mark.parametrize("simplify", [True, False])
def test_a_skipped_output_of_a_split_takes_its_share(simplify):
    model = movement("Split", (8, 2), indices(2, 3, 3), outputs=("a", "", "c"))
    artifact = qcgen.compile(model, simplify=simplify)
    starts = {op.y.name: op.starts for op in artifact.program.operators}
    assert starts == {"a": (0, 0), "c": (5, 0)}


def test_an_empty_slice_is_refused_although_its_list_of_steps_is_empty():
    model = movement("Slice", (2, 12), indices(0, -1), indices(2, -20), indices(0, 1), indices(), dtype="int8")
    with pytest.raises(ModelRejected, match="it is empty"):
        qcgen.compile(model)


def tensor(name, *shape):
    return Tensor(name, DType.FLOAT32, shape)


@pytest.mark.parametrize(
    "op",
    [
        Reshape("node", "Reshape", tensor("x", 2, 12), tensor("y", 1, 12)),
        Slice("node", "Split", tensor("x", 8, 2), tensor("y", 4, 2), (5, 0), (1, 1)),
        Slice("node", "Slice", tensor("x", 8, 2), tensor("y", 4, 2), (2, 0), (-1, 1)),
    ],
)
def test_the_planner_refuses_a_program_that_leaves_its_tensors(op):
    program = Program("net", (op.x,), (op.y,), (op,), "0")
    with pytest.raises(AssertionError, match="the sizes of 'node'"):
        require_sizes(program.operators)
    with pytest.raises(AssertionError, match="the sizes of 'node'"):
        plan(program, Options(), "net", "net.onnx")
