"""Where tensors lie in memory, and what lay there before."""

from dataclasses import replace

import numpy as np
import pytest
from batch import require
from bench.compiling import Network
from computed import computed, element
from judged import assert_judged
from models import graph_model, node_model, qlinear_conv
from onnx import TensorProto, helper

import qcgen
from qcgen.compiler import compile
from qcgen.ir.plan import AccessOrder
from qcgen.plan import storage
from qcgen.verification import verify

# A Concat whose parts were computed in place, in the memory of its result, gave wrong outputs in two cases.
# A part that an output is a view of made the caller's buffer, of the part's size, hold the whole. And a whole that was
# a part of another Concat took its place there, while its own parts stayed where the whole would have been.
ROWS = {name: np.random.default_rng(len(name)).normal(size=(1, 8)).astype(np.float32) for name in ("x", "xx", "xxx")}
SPECS = {name: ("float", x.shape) for name, x in ROWS.items()}


def joined(outputs, *nodes):
    """A model of nodes, ("Op", "inputs", "output") each, that reads those of FEEDS that they name."""
    made = [helper.make_node(op, x.split(), [y], **({"axis": 1} if op == "Concat" else {})) for op, x, y in nodes]
    used = {name: spec for name, spec in SPECS.items() if any(name in node.input for node in made)}
    return graph_model(made, used, dict.fromkeys(outputs), {"shape": np.array([2, -1], np.int64)})


PARTS = (("Sigmoid", "x", "s"), ("Tanh", "xx", "t"))
VIEW = ("Reshape", "s shape", "view")
JOINED = {
    "an output is a view of the first part": joined(
        ("view", "z"), *PARTS, VIEW, ("Concat", "s t", "w"), ("Sigmoid", "w", "z")
    ),
    "an output is a view of the last part": joined(
        ("view", "z"), *PARTS, ("Concat", "t s", "w"), VIEW, ("Sigmoid", "w", "z")
    ),
    "an operator reads a view of the last part": joined(
        ("y", "z"), *PARTS, ("Concat", "t s", "w"), VIEW, ("Sigmoid", "view", "y"), ("Sigmoid", "w", "z")
    ),
    "the whole is an output, too": joined(("view", "w"), *PARTS, VIEW, ("Concat", "s t", "w")),
    "an output is a view of what is written over a part": joined(
        ("view", "z"), *PARTS, ("Concat", "s t", "w"), ("Sigmoid", "w", "z"), ("Tanh", "s", "over"),
        ("Reshape", "over shape", "view"),
    ),
    "the whole is the first part of another": joined(
        ("y", "z"), *PARTS, ("Concat", "s t", "w"), ("Tanh", "xxx", "u"), ("Sigmoid", "w", "y"),
        ("Concat", "w u", "all"), ("Sigmoid", "all", "z"),
    ),
    "the whole is the last part of another, which is one of a third": joined(
        ("x1", "x2", "x3"), *PARTS, ("Concat", "s t", "w"), ("Tanh", "xxx", "u"), ("Sigmoid", "w", "x1"),
        ("Concat", "u w", "more"), ("Sigmoid", "more", "x2"), ("Tanh", "w", "v"), ("Concat", "v more", "all"),
        ("Sigmoid", "all", "x3"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("which", JOINED)
def test_outputs_are_right_and_lie_in_their_memory_where(which):
    computed(JOINED[which], {value.name: ROWS[value.name] for value in JOINED[which].graph.input})


def test_nested_wholes_are_not_copied():
    nested = JOINED["the whole is the last part of another, which is one of a third"]
    assert all(call.op.op_type != "Concat" for call in qcgen.compile(nested).plan.calls)


# A view of a part of a Concat lost the part's offset: its readers got what lies at the whole's beginning.
X, Z = (np.random.default_rng(seed).normal(size=(1, 8)).astype(np.float32) for seed in (1, 2))


def viewed(order, *views):
    """tanh(x) and tanh(z) joined; ``views`` of the second, each of the one before, are read."""
    nodes = [
        helper.make_node("Tanh", ["x"], ["first"]),
        helper.make_node("Tanh", ["z"], ["second"]),
        helper.make_node("Concat", order.split(), ["whole"], axis=1),
    ]
    view, lists = "second", {}
    for number, (op_type, values) in enumerate(views):
        lists[f"list{number}"] = np.array(values, np.int64)
        nodes.append(helper.make_node(op_type, [view, f"list{number}"], [f"view{number}"]))
        view = f"view{number}"
    nodes += [helper.make_node("Sigmoid", [view], ["y"]), helper.make_node("Sigmoid", ["whole"], ["w"])]
    return graph_model(nodes, {"x": ("float", (1, 8)), "z": ("float", (1, 8))}, {"y": None, "w": None}, lists)


VIEWS = {
    "reshaped": ([("Reshape", [2, 4])], (2, 4)),
    "squeezed": ([("Squeeze", [0])], (8,)),
    "a view of a view": ([("Unsqueeze", [0]), ("Reshape", [4, 2])], (4, 2)),
}


@pytest.mark.parametrize("which", VIEWS)
@pytest.mark.parametrize("order", ["first second", "second first", "first second first"])
def test_a_view_of_a_part_lies_where_the_part_does(order, which):
    views, shape = VIEWS[which]
    y, whole = computed(viewed(order, *views), {"x": X, "z": Z})
    parts = {name: 1 / (1 + np.exp(-np.tanh(values))) for name, values in (("first", X), ("second", Z))}
    assert np.allclose(y, parts["second"].reshape(shape), atol=1e-5)
    assert np.allclose(whole, np.concatenate([parts[name] for name in order.split()], axis=1), atol=1e-5)


# A part of a Concat that lies behind another one may lie over its input, but for the bytes in front of it.
def concat():
    """The second part of a Concat of rows is computed first, from a tensor that nothing else reads."""
    n = Network((1, 4, 8, 8))
    wide = n.conv("x", 8, 3)
    parts = [n.conv("x", 8, 3), n.conv(wide, 8, 3)]
    model = n.model(n.conv("x", 4, 3))
    *layers, last = model.graph.node
    last.input[0] = "both"
    first, second, third = layers
    del model.graph.node[:]
    both = helper.make_node("Concat", parts, ["both"], name="both", axis=2)
    model.graph.node.extend([first, third, second, both, last])
    [weights] = [each for each in model.graph.initializer if each.name == last.input[3]]
    weights.dims[1] = 8
    weights.raw_data = weights.raw_data * 2
    model.graph.output[0].type.tensor_type.shape.dim[2].dim_value = 16
    return model


def compiled():
    return qcgen.compile(concat(), layout="nhwc", name="net")


def test_a_part_may_lie_over_its_input():
    require("gcc")
    artifact = compiled()
    assert any(call.overlap for call in artifact.plan.calls if "conv" in call.op.name)
    assert verify(artifact).is_right


def test_an_output_that_lies_too_close_before_its_input_is_a_defect(monkeypatch):
    class Nearer(AccessOrder):
        @property
        def distance(self):
            return super().distance - 64

    def nearer(buffers, steps, prepared, storages):
        closer = [each and each.access and replace(each, access=Nearer(**vars(each.access))) for each in prepared]
        return overlaps(buffers, steps, [new or old for new, old in zip(closer, prepared, strict=True)], storages)

    overlaps = storage._with_overlaps
    monkeypatch.setattr(storage, "_with_overlaps", nearer)
    with pytest.raises(AssertionError, match="bytes before"):
        compiled()


def test_two_views_of_one_tensor_are_both_written():
    """Two outputs of the network that are views of one tensor: each has its own memory, so one of them is a copy."""
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Flatten", ["a"], ["p"]),
        helper.make_node("Reshape", ["a", "shape"], ["q"]),
    ]
    shape = {"shape": np.array([2, 12], np.int64)}
    artifact = compile(graph_model(nodes, {"x": ("float", (1, 2, 3, 4))}, {"p": None, "q": None}, shape), name="views")
    x = np.linspace(-1, 1, 24, dtype=np.float32).reshape(1, 2, 3, 4)
    p, q = artifact.load().run(None, {"x": x})
    assert np.array_equal(p, np.maximum(x, 0).reshape(1, 24))
    assert np.array_equal(q, np.maximum(x, 0).reshape(2, 12))


@pytest.mark.parametrize("activation", [None, "Relu"])
def test_sums_do_not_lie_in_the_floats_of_the_caller(activation):
    """A Cast in place whose float result an output is a view of: its int32 sums were to lie in the caller's floats.

    The C did not compile.
    """
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["codes", "scale", "zero"]),
        helper.make_node("MatMulInteger", ["codes", "w", "zero"], ["sums"]),
        helper.make_node("Cast", ["sums"], ["numbers"], to=1),
        helper.make_node(activation or "Neg", ["numbers"], ["changed"]),
        helper.make_node("Flatten", ["changed" if activation else "numbers"], ["y"]),
    ]
    weights = np.arange(-30, 30, dtype=np.int8).reshape(5, 12)
    assert_judged(graph_model(nodes, {"x": ("float", (1, 3, 5))}, {"y": None}, {"w": weights}), named=None, exact=True)


# On the host, too, the C starts with garbage in its memory: what it reads before it writes it is found.
def dense():
    """37 elements times weights of which one product fills half a word: one element is left over, another is 0."""
    weights = np.full((9, 37, 1, 1), -128, np.int8)
    return qcgen.compile(qlinear_conv((1, 37, 1, 1), weights), target="rv32imc", name="dense")


def test_an_element_that_is_never_written_is_found():
    require("gcc")
    artifact = dense()
    assert verify(artifact).is_right
    text = artifact.files["dense.c"]
    wrong = text.replace("        (void)dense_scalar_pack(x[0] - shift, 0, size, elements);\n", "")
    assert wrong.count("\n") == text.count("\n") - 1
    assert not verify(replace(artifact, files={**artifact.files, "dense.c": wrong})).is_right


def test_an_output_that_is_never_written_is_no_zero():
    require("gcc")
    artifact = dense()
    text = artifact.files["dense.c"]
    start = text.index("void dense_run(")
    body = text.index("{", start)
    nothing = text[:body] + "{ (void)x; (void)y; (void)arena; }\n#if 0\n" + text[body:] + "\n#endif\n"
    files = {**artifact.files, "dense.c": nothing}
    [port] = artifact.plan.inputs
    feeds = {port.tensor.name: np.zeros(port.shape, port.tensor.dtype.numpy)}
    loaded = replace(artifact, files=files).load(("-O0", "-Wno-unused-function", "-Wno-unused-const-variable"))
    [y] = loaded.run(None, feeds)
    assert y.all()


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
def test_c_gets_aligned_inputs(dtype):
    """Arrays that are not aligned as their type were handed to C as they were, which is undefined there."""
    require("gcc")
    x = np.frombuffer(bytearray(64 * np.dtype(dtype).itemsize + 1), dtype, 64, 1)
    x[:] = np.arange(64)
    assert not x.flags.aligned
    model = node_model("Cast", {"x": (element(x), x.shape)}, to=TensorProto.DOUBLE)
    loaded = qcgen.compile(model).load(["-O1", "-fsanitize=undefined", "-fno-sanitize-recover=undefined"])
    np.testing.assert_array_equal(loaded.run(None, {"x": x})[0], np.arange(64.0))
