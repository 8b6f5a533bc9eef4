"""Loading: what a well-formed model becomes, and every way in which a file can be none."""

import hashlib
import os

import numpy as np
import onnx
import pytest
from models import graph_model, node_model, qlinear_conv, random_weights
from onnx import TensorProto, helper, numpy_helper

import qcgen
from qcgen.errors import ModelRejected
from qcgen.ir.types import DType
from qcgen.load import load

X = {"x": ("float", (1, 4))}
Y = {"y": ("float", (1, 4))}


def problems(model, **options):
    with pytest.raises(ModelRejected) as rejection:
        load(model, **options)
    return [(problem.where, problem.what) for problem in rejection.value.problems]


def relu(x="x", y="y", name="", **options):
    return helper.make_node("Relu", [x], [y], name=name, **options)


def test_a_model_given_in_three_ways_gives_the_same_graph(tmp_path):
    model = qlinear_conv((1, 2, 5, 5), random_weights((3, 2, 3, 3)), pads=[1, 1, 1, 1], auto_pad="NOTSET")
    content = model.SerializeToString(deterministic=True)
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    graphs = [load(path), load(str(path)), load(content), load(model)]
    for graph in graphs:
        assert graph.sha256 == hashlib.sha256(content).hexdigest()
        assert graph.nodes == graphs[0].nodes
        assert graph.values == graphs[0].values
    graph = graphs[0]
    assert graph.name == "graph"
    assert graph.inputs == ("x",)
    assert graph.outputs == ("y",)
    assert graph.opsets == {"": 13}
    assert graph.value("x").dtype is DType.UINT8
    assert graph.value("x").shape == (1, 2, 5, 5)
    assert graph.value("w").dtype is DType.INT8
    assert dict(graph.nodes[0].attributes) == {"pads": (1, 1, 1, 1), "auto_pad": "NOTSET"}


def test_attributes_of_every_kind_are_read():
    array = np.arange(3, dtype=np.int8)
    node = helper.make_node(
        "Odd",
        ["x"],
        ["y"],
        i=3,
        f=0.5,
        s="text",
        n=[1, 2],
        v=[0.5, 1.0],
        t=["a", "b"],
        a=numpy_helper.from_array(array),
    )
    node.attribute.append(helper.make_attribute("raw", b"\xff\xfe"))
    node.attribute.append(helper.make_attribute("g", helper.make_graph([], "inner", [], [])))
    attributes = load(graph_model([node], X, Y)).nodes[0].attributes
    assert np.array_equal(attributes["a"], array)
    rest = {name: value for name, value in attributes.items() if name != "a"}
    expected = {"i": 3, "f": 0.5, "s": "text", "n": (1, 2), "v": (0.5, 1.0), "t": ("a", "b")}
    assert rest == {**expected, "raw": b"\xff\xfe", "g": None}


def test_initializers_that_are_declared_as_inputs_are_no_inputs():
    model = node_model("Add", {"x": ("float", (4,)), "c": np.ones(4, np.float32)})
    model.graph.input.append(helper.make_tensor_value_info("c", TensorProto.FLOAT, (4,)))
    assert load(model).inputs == ("x",)


def test_an_initializer_that_contradicts_its_declaration_is_refused():
    model = node_model("Add", {"x": ("float", (4,)), "c": np.ones(4, np.float32)})
    model.graph.input.append(helper.make_tensor_value_info("c", TensorProto.FLOAT, (5,)))
    assert problems(model) == [("tensor 'c'", "it is declared with shape (5,), but its initializer has shape (4,)")]


def test_the_domain_ai_onnx_has_no_name():
    graph = load(graph_model([relu(domain="ai.onnx")], X, Y, opsets={"ai.onnx.ml": 5}))
    assert graph.nodes[0].domain == ""
    model = graph_model([relu()], X, Y)
    model.opset_import[0].domain = "ai.onnx"
    assert load(model).opsets == {"": 13}


def test_nodes_without_a_name_get_one_and_every_name_is_used_once():
    nodes = [
        relu("x", "a"),
        relu("a", "b", "Relu_0"),
        relu("b", "c", "dup"),
        relu("c", "d", "dup"),
        relu("d", "y", "dup_1"),
    ]
    assert [node.name for node in load(graph_model(nodes, X, Y)).nodes] == ["Relu_1", "Relu_0", "dup", "dup_2", "dup_1"]


def test_hostile_names_are_kept_as_they_are():
    names = ["*/ int main(void) {", 'quote"\\', "new\nline", "ünï/côde:0", "../x"]
    nodes = [relu(a, b, b) for a, b in zip(["x", *names], [*names, "y"], strict=True)]
    graph = load(graph_model(nodes, X, Y))
    assert [node.name for node in graph.nodes] == [*names, "y"]
    assert graph.nodes[1].inputs == (names[0],)


def test_nodes_in_any_order_are_sorted_and_keep_their_order_where_they_can():
    nodes = [relu("b", "y", "last"), relu("x", "other", "free"), relu("a", "b", "middle"), relu("x", "a", "first")]
    assert [node.name for node in load(graph_model(nodes, X, Y)).nodes] == ["free", "first", "middle", "last"]


def test_a_symbolic_dimension_is_kept_or_fixed():
    model = graph_model([relu()], {"x": ("float", ("N", 4, None))}, {"y": ("float", ("N", 4, "K"))})
    graph = load(model)
    assert graph.value("x").shape == ("N", 4, "x.2")
    assert graph.value("x").fixed_shape is None
    graph = load(model, dims={"N": 2, "K": 3})
    assert graph.value("x").shape == (2, 4, "x.2")
    assert graph.value("y").shape == (2, 4, 3)


@pytest.mark.parametrize("size", [None, -1])
def test_a_dimension_of_an_input_without_a_name_is_called_by_its_place(size):
    model = graph_model([relu()], {"x": ("float", (size, size, 3))}, {"y": ("float", (size, size, 3))})
    assert load(model).value("x").shape == (None, "x.1", 3)  # the first one is the batch
    assert load(model, dims={"x.1": 5}).value("x").shape == (None, 5, 3)
    model = graph_model([relu()], {"x": ("float", (size,))}, {"y": ("float", (size,))})
    assert qcgen.compile(model, dims={"x.0": 7}).plan.before[0].shape == (7,)


def test_dims_that_the_model_does_not_have_are_refused():
    model = graph_model([relu()], {"x": ("float", ("N", 4))}, Y)
    no_such = "the model has no symbolic dimension of this name (it has: 'N')"
    assert problems(model, dims={"M": 1, "N": 0}) == [
        ("dimension 'M'", no_such),
        ("dimension 'N'", "it is set to 0"),
    ]


def test_a_type_that_is_no_tensor_is_other():
    model = graph_model([relu()], X, Y)
    model.graph.input.append(helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, [1]))
    model.graph.input.append(helper.make_tensor_value_info("t", TensorProto.STRING, None))
    graph = load(model)
    assert graph.value("s").dtype is DType.OTHER
    assert graph.value("t").dtype is DType.OTHER


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "float32", "float16", "float64", "bool"])
@pytest.mark.parametrize("raw", [True, False])
def test_every_storage_of_a_tensor_is_read(dtype, raw):
    array = np.array([[0, 1], [1, 0]], dtype)
    data = array.tobytes() if raw else array.reshape(-1)
    tensor = helper.make_tensor("c", helper.np_dtype_to_tensor_dtype(array.dtype), array.shape, data, raw=raw)
    model = graph_model([relu()], X, Y)
    model.graph.initializer.append(tensor)
    constant = load(model).constants["c"]
    assert constant.dtype == array.dtype
    assert np.array_equal(constant, array)


def test_files_that_cannot_be_read_are_refused(tmp_path):
    missing = tmp_path / "missing.onnx"
    assert problems(missing) == [(f"file {str(missing)!r}", "it cannot be read: No such file or directory")]
    assert problems(tmp_path) == [(f"file {str(tmp_path)!r}", "it cannot be read: Is a directory")]
    assert problems("a\0b") == [("file 'a\\x00b'", "it cannot be read: embedded null byte")]


NO_MODEL = [("model", "it is not an ONNX model, or only a part of one")]


def test_bytes_that_are_no_model_are_refused():
    assert problems(b"") == [("model", "it is empty")]
    assert problems(b"\x89PNG\r\n\x1a\n" * 10) == NO_MODEL
    assert problems(b"#include <stdio.h>\n") == NO_MODEL


def test_a_model_cut_off_anywhere_is_refused():
    content = qlinear_conv((1, 2, 5, 5), random_weights((3, 2, 3, 3))).SerializeToString()
    for end in range(len(content)):
        assert problems(content[:end])


def test_names_that_are_no_text_are_refused():
    content = graph_model([relu(name="name-of-node")], X, Y).SerializeToString()
    broken = content.replace(b"name-of-node", b"name\xff\xfe\xfd\xfcnode")
    what = "a name in it is not UTF-8 text, so it is not an ONNX model, or a damaged one"
    assert problems(broken) == [("model", what)]


def test_a_model_without_a_graph_is_refused():
    model = graph_model([relu()], X, Y)
    model.ClearField("graph")
    assert problems(model) == [("model", "it has no graph")]


def test_versions_that_are_not_known_are_refused():
    newest, ir = onnx.defs.onnx_opset_version(), onnx.IR_VERSION
    model = graph_model([relu()], X, Y, opset=newest + 1, ir_version=ir + 1)
    assert problems(model) == [
        ("model", f"its IR version is {ir + 1}; the newest that is known is {ir}"),
        ("model", f"it imports opset {newest + 1} of ai.onnx; opsets 7 to {newest} are known"),
    ]
    assert problems(graph_model([relu()], X, Y, opset=0))[0][1].startswith("it imports opset 0")
    assert problems(graph_model([relu()], X, Y, ir_version=0)) == [
        ("model", "it states no IR version, so it is not an ONNX model")
    ]


def test_the_opset_of_a_domain_that_no_node_uses_does_not_matter():
    model = graph_model([relu(domain="com.microsoft")], X, Y, opset=999, opsets={"com.microsoft": 1, "made.up": 7})
    assert load(model).opsets["made.up"] == 7


def test_a_model_that_imports_nothing_is_refused():
    model = graph_model([relu()], X, Y)
    model.ClearField("opset_import")
    assert problems(model) == [("model", "it imports no opset, so it is not an ONNX model, or only a part of one")]


def test_oldest_models_import_nothing():
    model = graph_model([relu(domain="com.microsoft")], X, Y, ir_version=2)
    model.ClearField("opset_import")
    assert load(model).opsets == {"": 1}


@pytest.mark.parametrize("opset", [1, 6])
def test_opsets_that_onnxruntime_does_not_promise_to_run_are_refused_with_the_way_out(opset):
    with pytest.raises(ModelRejected, match=r"onnx.version_converter.convert_version\(model, 13\)") as rejection:
        load(graph_model([relu()], X, Y, opset=opset))
    newest = onnx.defs.onnx_opset_version()
    [problem] = rejection.value.problems
    assert problem.what == f"it imports opset {opset} of ai.onnx; opsets 7 to {newest} are known"


@pytest.mark.parametrize(
    ("node", "opset", "what"),
    [
        (
            helper.make_node("Clip", ["x"], ["y"], min=0.0),
            11,
            "Clip has no attribute 'min' in opset 11, which the model imports",
        ),
        (
            helper.make_node("ReduceMean", ["x"], ["y"], axes=[0]),
            18,
            "ReduceMean has no attribute 'axes' in opset 18, which the model imports",
        ),
        (
            helper.make_node("DepthToSpace", ["x"], ["y"], blocksize=2, mode="CRD"),
            9,
            "DepthToSpace has no attribute 'mode' in opset 9, which the model imports",
        ),
        (
            helper.make_node("Clip", ["x", "x"], ["y"]),
            10,
            "it has 2 inputs; Clip has at most 1 in opset 10, which the model imports",
        ),
    ],
)
def test_a_node_is_spelt_as_its_opset_spells_it(node, opset, what):
    """Else one reader might take its attribute, and another one the default of the input that replaced it."""
    node.name = "n"
    model = graph_model([node], X, Y, opset=opset)
    assert problems(model) == [(f"node 'n' ({node.op_type})", what)]


OWN = [helper.make_opsetid("", 13), helper.make_opsetid("own", 1)]


def test_calls_of_the_models_own_functions_are_written_out():
    """Their nodes have names that lead back to the call."""
    model = graph_model([relu(name="call", domain="own")], X, Y, opsets={"own": 1})
    within = relu("t", "b", domain="own")
    within.op_type = "Both"
    model.functions.append(helper.make_function("own", "Relu", ["a"], ["b"], [relu("a", "t"), within], OWN))
    both = [helper.make_node("Neg", ["a"], ["t"]), helper.make_node("Abs", ["t"], ["b"])]
    model.functions.append(helper.make_function("own", "Both", ["a"], ["b"], both, OWN))
    found = [(node.name, node.op_type) for node in load(model).nodes]
    assert found == [("call_relu_0", "Relu"), ("call_neg_1", "Neg"), ("call_abs_2", "Abs")]


def test_a_function_that_calls_itself_is_refused():
    model = graph_model([relu(name="call", domain="own")], X, Y, opsets={"own": 1})
    model.functions.append(helper.make_function("own", "Relu", ["a"], ["b"], [relu("a", "b", domain="own")], OWN))
    what = "it calls a function that the model itself defines, and which onnx.inliner cannot write out"
    assert problems(model) == [("node 'call' (Relu)", what)]


def test_every_problem_of_the_order_is_found_at_once():
    nodes = [
        relu("nowhere", "y", "n1"),
        relu("x", "y", "n2"),
        relu("c", "x", "n3"),
        relu("q", "p", "n4"),
        relu("p", "q", "n5"),
    ]
    model = graph_model(nodes, X, {"y": None, "z": None}, {"c": np.zeros(1, np.float32)})
    model.graph.initializer.append(numpy_helper.from_array(np.zeros(2, np.float32), "c"))
    model.graph.output.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, None))
    taken = "which is already an input, an initializer or a node's output"
    assert problems(model) == [
        ("tensor 'c'", "two initializers have this name"),
        ("output 'y'", "the model declares it 2 times"),
        ("node 'n2' (Relu)", f"it computes tensor 'y', {taken}"),
        ("node 'n3' (Relu)", f"it computes tensor 'x', {taken}"),
        ("node 'n1' (Relu)", "it reads tensor 'nowhere', which is not an input, an initializer or a node's output"),
        ("output 'z'", "no node computes it"),
        ("nodes 'n5', 'n4'", "each needs the output of the one before it, in a circle"),
    ]


def test_a_cycle_is_told_without_what_hangs_on_it():
    nodes = [relu("c", "y", "behind"), relu("a", "b", "n1"), relu("b", "c", "n2"), relu("c", "a", "n3")]
    [(where, _)] = problems(graph_model(nodes, X, Y))
    assert sorted(where.removeprefix("nodes ").split(", ")) == ["'n1'", "'n2'", "'n3'"]


def test_a_model_without_output_is_refused():
    assert problems(graph_model([relu()], X, {})) == [("model", "it has no output")]


def test_an_attribute_given_twice_is_refused():
    node = relu(name="r", a=1)
    node.attribute.append(helper.make_attribute("a", 2))
    assert problems(graph_model([node], X, Y)) == [("node 'r' (Relu)", "attribute a is given twice")]


@pytest.mark.parametrize(
    ("tensor", "what"),
    [
        (TensorProto(name="c", data_type=3, dims=[5], raw_data=b"1234"), "int8 of shape (5,)"),
        (TensorProto(name="c", data_type=3, dims=[-4], raw_data=b"1234"), "int8 of shape (-4,)"),
        (TensorProto(name="c", data_type=0, dims=[1], raw_data=b"1"), "undefined of shape (1,)"),
        (TensorProto(name="c", data_type=99, dims=[1], raw_data=b"1"), "element type 99 of shape (1,)"),
        (TensorProto(name="c", data_type=1, dims=[2**40, 2**40]), f"float of shape ({2**40}, {2**40})"),
    ],
)
def test_a_tensor_whose_data_do_not_fit_is_refused(tensor, what):
    model = graph_model([relu()], X, Y)
    model.graph.initializer.append(tensor)
    assert problems(model) == [("tensor 'c'", f"its data cannot be read as {what}")]


def test_a_sparse_initializer_is_refused():
    model = graph_model([relu()], X, Y)
    model.graph.sparse_initializer.add().values.name = "s"
    assert problems(model) == [("tensor 's'", "it is a sparse initializer")]


def external(folder, **entries):
    """A model in ``folder`` whose tensor c of 4 float32 has these external_data entries; the path."""
    model = graph_model([relu()], X, Y)
    tensor = model.graph.initializer.add(name="c", data_type=TensorProto.FLOAT, dims=[4])
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=str(value))
    folder.mkdir(exist_ok=True)
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


DATA = np.arange(8, dtype=np.float32)


def test_external_data_beside_the_model_is_read(tmp_path):
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "w.bin").write_bytes(DATA.tobytes())
    path = external(tmp_path, location="weights/w.bin", offset=8, length=16)
    assert np.array_equal(load(path).constants["c"], DATA[2:6])
    path = external(tmp_path, location="weights/w.bin", offset=16)
    assert np.array_equal(load(path).constants["c"], DATA[4:])


def test_external_data_is_read_relative_to_the_model_not_to_the_current_folder(tmp_path, monkeypatch):
    path = external(tmp_path / "model", location="w.bin", length=16)
    (tmp_path / "model" / "w.bin").write_bytes(DATA.tobytes())
    monkeypatch.chdir(tmp_path)
    assert np.array_equal(load("model/model.onnx").constants["c"], DATA[:4])
    assert load(path).sha256 == load("model/model.onnx").sha256


@pytest.mark.parametrize(
    ("entries", "what"),
    [
        ({"location": "gone.bin"}, "its data is in the file 'gone.bin', which does not exist"),
        ({"location": "../w.bin"}, "its data is in the file '../w.bin', which is outside the model's folder"),
        ({"location": "link.bin"}, "its data is in the file 'link.bin', which is outside the model's folder"),
        (
            {"location": "sub/../../w.bin"},
            "its data is in the file 'sub/../../w.bin', which is outside the model's folder",
        ),
        ({}, "its data is in the file '', which is outside the model's folder"),
        ({"location": "."}, "its data is in the file '.', which does not exist"),
        ({"location": "w.bin", "offset": 30}, "its data cannot be read as float of shape (4,)"),
        ({"location": "w.bin", "offset": 40}, "its data is bytes 40 to 32 of the file 'w.bin', which has 32"),
        (
            {"location": "w.bin", "offset": -4, "length": 8},
            "its data is bytes -4 to 4 of the file 'w.bin', which has 32",
        ),
        ({"location": "w.bin", "length": 64}, "its data is bytes 0 to 64 of the file 'w.bin', which has 32"),
        ({"location": "w.bin", "length": 8}, "its data cannot be read as float of shape (4,)"),
    ],
)
def test_external_data_that_cannot_be_had_is_refused(tmp_path, entries, what):
    (tmp_path / "w.bin").write_bytes(DATA.tobytes())
    path = external(tmp_path / "model", **entries)
    (path.parent / "w.bin").write_bytes(DATA.tobytes())
    os.symlink(tmp_path / "w.bin", path.parent / "link.bin")
    assert problems(path) == [("tensor 'c'", what)]


def test_external_data_at_an_absolute_path_is_refused_even_inside_the_folder(tmp_path):
    (tmp_path / "w.bin").write_bytes(DATA.tobytes())
    location = str(tmp_path / "w.bin")
    [(where, what)] = problems(external(tmp_path, location=location, length=16))
    assert (where, what) == ("tensor 'c'", f"its data is in the file {location!r}, which is outside the model's folder")


def test_external_data_with_an_odd_entry_is_refused(tmp_path):
    (tmp_path / "w.bin").write_bytes(DATA.tobytes())
    [(_, what)] = problems(external(tmp_path, location="w.bin", offset="many"))
    assert what.startswith("its data in the file 'w.bin' cannot be read: ")


def test_external_data_of_a_model_without_a_folder_is_refused(tmp_path):
    content = external(tmp_path, location="w.bin").read_bytes()
    what = "its data is in the file 'w.bin', but a model given as bytes or protobuf has no folder"
    assert problems(content) == [("tensor 'c'", what)]
    assert problems(onnx.ModelProto.FromString(content)) == [("tensor 'c'", what)]
