"""Single operators, in float and between codes, against onnxruntime: equal, or named where they may differ."""

from __future__ import annotations

import numpy as np
import pytest
from judged import assert_judged, drawn, judge, optimized
from marks import some_at_first
from models import MICROSOFT, graph_model, node_model
from onnx import helper
from qdq import Chain, alone

import qcgen
from qcgen.errors import ModelRejected
from qcgen.reference import evaluate

FUSING = ("-O3", "-march=native", "-ffp-contract=fast")
"""Flags that allow a product and a sum to become one operation."""
rng = np.random.default_rng(5)

in_float_and_codes = pytest.mark.parametrize("coded", [False, True], ids=["float", "codes"])


def numbers(*shape):
    return rng.normal(0, 2, shape).astype(np.float32)


# --- Einsum of one and of two tensors; between codes its sums are of numbers

EXACT = {
    "ij,jk->ik": ((4, 150), (150, 140)),
    "bij, bjk -> bki": ((2, 4, 5), (2, 5, 6)),
    "bhid,bhjd->bhij": ((2, 3, 4, 8), (2, 3, 6, 8)),
    "bqhd,bkhd->bhqk": ((1, 4, 2, 8), (1, 5, 2, 8)),
    "bhqk,bkhd->bqhd": ((1, 2, 4, 5), (1, 5, 2, 8)),
    "bhwc,hkc->bhwk": ((2, 4, 3, 6), (4, 5, 6)),
    "nctkv,vkw->nctw": ((1, 4, 3, 2, 70), (70, 2, 50)),
    "ncuv,nctu->nctv": ((1, 4, 150, 6), (1, 4, 13, 150)),
    "i,j->ij": ((4,), (5,)),
    "...ij,...jk->...ik": ((2, 3, 4, 5), (2, 3, 5, 6)),
    "b...d,de -> ...be": ((2, 3, 4, 5), (5, 6)),
    "h...,b...->bh...": ((3, 4, 5), (2, 4, 5)),
    "...i->i...": ((4, 5, 6),),
    "...i->...": ((4, 5, 60),),
    "ij->ji": ((4, 5),),
    "bijk->jb": ((5, 6, 40, 7),),
    "bij->bi": ((2, 4, 50),),
    "bij->bj": ((2, 40, 5),),
}
NEAR = {"bi,bi->b": ((4, 50), (4, 50)), "bi,bij->bj": ((2, 40), (2, 40, 6)), "i,i->": ((40,), (40,))}
REFUSED = {
    "ii->i": ((4, 4),),
    "bij,bjk->bk": ((2, 4, 5), (2, 5, 6)),
    "...ij,...jk->...ik": ((2, 4, 5), (1, 5, 6)),
    "...ij,...jk->ik": ((2, 4, 5), (2, 5, 6)),
    "ij,jk": ((4, 5), (5, 6)),
    "ij,jk,kl->il": ((4, 5), (5, 6), (6, 7)),
}


@in_float_and_codes
@pytest.mark.parametrize("equation", [*EXACT, *NEAR])
def test_an_einsum_is_onnxruntimes_or_named(equation, coded):
    by = ((0.03, np.uint8(100)), (0.9, np.uint8(120))) if coded else None
    moves = equation in ("ij->ji", "...i->i...")
    model = alone("Einsum", {**EXACT, **NEAR}[equation], by=by, opset=13, equation=equation)
    assert_judged(model, named=equation in NEAR or (coded and not moves))


def test_what_is_behind_an_einsum_is_not_joined_with_it():
    """onnxruntime gives a MatMul a factor, and the operands of an Einsum are scaled before."""
    made = Chain()
    scaled = made.node("Mul", ["x0", made.constant("s", np.float32(0.3))])
    y = made.node("Einsum", [scaled, "x1"], equation="bij,bjk->bik")
    made.node("Div", [y, made.constant("t", np.float32(5.3))], "y")
    inputs = {"x0": ("float", (2, 4, 50)), "x1": ("float", (2, 50, 6))}
    assert_judged(graph_model(made.nodes, inputs, {"y": None}, made.constants, opset=13))


def test_an_einsum_may_follow_another():
    """As in attention, where the sizes of the second one's operand are those of the first one's result."""
    made = Chain()
    products = made.node("Einsum", ["x0", "x1"], equation="bqhd,bkhd->bhqk")
    made.node("Einsum", [made.node("Softmax", [products], axis=-1), "x2"], "y", equation="bhqk,bkhd->bqhd")
    inputs = {"x0": ("float", (1, 4, 2, 8)), "x1": ("float", (1, 5, 2, 8)), "x2": ("float", (1, 5, 2, 6))}
    assert_judged(graph_model(made.nodes, inputs, {"y": None}, made.constants, opset=13), named=None)


@pytest.mark.parametrize("equation", REFUSED)
def test_other_equations_are_refused(equation):
    with pytest.raises(ModelRejected, match="Einsum is not supported"):
        qcgen.compile(alone("Einsum", REFUSED[equation], opset=13, equation=equation))


# --- CumSum along a constant axis, and OneHot

SHAPES = {"a row": (7,), "rows": (30, 64), "columns": (40, 9), "images": (2, 3, 14, 11), "one": (3, 1)}


@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("name", some_at_first(SHAPES, "rows", "a row"))
def test_running_sums_are_onnxruntimes(name, exclusive, reverse):
    x = rng.normal(size=SHAPES[name]).astype(np.float32)
    x[..., 0] = -0.0
    for axis in {-1, 0}:
        if exclusive and x.shape[axis] == 1:
            continue  # all are 0, whatever x is: nothing is left to compile
        model = alone("CumSum", [x.shape], [np.array(axis)], opset=14, exclusive=exclusive, reverse=reverse)
        assert_same_bits(model, {"x0": x})


def assert_same_bits(model, feeds):
    artifact = qcgen.compile(model, name="net")
    assert not artifact.report.inexact
    [found], [wanted] = artifact.load().run(None, feeds), judge(model, feeds)
    assert (found.dtype, found.shape, found.tobytes()) == (wanted.dtype, wanted.shape, wanted.tobytes())


def test_running_sums_between_codes_are_onnxruntimes():
    by = (0.03, np.uint8(100)), (0.2, np.uint8(90))
    model = alone("CumSum", [(90, 30)], [np.array(1)], by=by, opset=14)
    assert_same_bits(model, {"x0": rng.integers(0, 256, (90, 30)).astype(np.uint8)})


OF_TYPES = {("int64", "int64"): [0, 1], ("int64", "float32"): [0.25, -3], ("int32", "float32"): [9, 7]}
"""Types of numbers and values that onnxruntime has, and values."""


@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("types", OF_TYPES)
def test_places_are_onnxruntimes(types, axis):
    x = rng.integers(-15, 15, (13, 9)).astype(types[0])  # of ten places, counted from the end, too, or of none
    x[0, 0], x[0, 1] = np.iinfo(x.dtype).max, np.iinfo(x.dtype).min
    operands = {"x": (types[0], x.shape), "depth": np.array(10, x.dtype), "values": np.array(OF_TYPES[types], types[1])}
    assert_same_bits(node_model("OneHot", operands, opset=11, axis=axis), {"x": x})


@pytest.mark.parametrize(
    ("op_type", "operands"),
    [
        ("CumSum", {"x": ("float", (2, 65)), "axis": np.array(1)}),
        ("CumSum", {"x": ("float", (2, 3)), "axis": ("int64", ())}),
        ("CumSum", {"x": ("int64", (2, 3)), "axis": np.array(0)}),
        ("OneHot", {"x": ("float", (2, 3)), "depth": np.array(4), "values": np.float32([0, 1])}),
        ("OneHot", {"x": ("int64", (2, 3)), "depth": np.array(4), "values": ("float", (2,))}),
    ],
)
def test_other_forms_are_refused_with_what_is_compiled(op_type, operands):
    with pytest.raises(ModelRejected, match=f"{op_type} is not supported\\n *it is compiled"):
        qcgen.compile(node_model(op_type, operands, opset=14))


# --- products, norms and logarithms of sums

AXES = {"rows": (-1,), "between": (1,), "apart": (0, 2), "all": (0, 1, 2)}
WHOLE, LOGARITHMS = ("ReduceL1", "ReduceL2", "ReduceProd", "ReduceSumSquare"), ("ReduceLogSum", "ReduceLogSumExp")


@pytest.mark.parametrize("keepdims", [0, 1])
@in_float_and_codes
@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("op_type", WHOLE + LOGARITHMS)
def test_reductions_are_onnxruntimes(op_type, axes, coded, keepdims):
    """The axes are an input where dimensions are kept, else an attribute, as in older opsets."""
    by = ((0.03, np.uint8(3)), (0.4, np.uint8(9))) if coded else None
    constants, named = ([np.int64(AXES[axes])], {}) if keepdims else ([], {"axes": AXES[axes]})
    opset = 18 if keepdims else 13
    model = alone(op_type, [(2, 4, 50)], constants, by=by, opset=opset, keepdims=keepdims, **named)
    x = rng.integers(20, 60, (2, 4, 50)).astype(np.uint8) if coded else rng.uniform(0.5, 2, (2, 4, 50)).astype("f")
    is_exact = op_type in WHOLE and axes != "all"
    artifact = assert_judged(model, {"x0": x}, flags=FUSING, named=None, exact=is_exact, tolerance=6e-6)
    assert bool(artifact.report.inexact) != is_exact


# --- elements that move to places which the model knows

NUMBERS = np.float32([[0.5, -1, 2], [0.25, 3, -0.5]])
PLACES = np.int64([[0, 1], [2, -1]])
MOVED = {
    "Trilu": ("Trilu", [], {}),
    "Trilu below": ("Trilu", [np.int64(-1)], {"upper": 0}),
    "GatherND of batches": ("GatherND", [np.int64([[1], [3], [-1]])], {"batch_dims": 1}),
    "Compress": ("Compress", [np.array([True, False, True])], {"axis": 1}),
    "Compress of a row": ("Compress", [np.array([False, True, True])], {}),
    "ReverseSequence": ("ReverseSequence", [np.int64([3, 1, 2, 3])], {}),
    "ReverseSequence of batches": ("ReverseSequence", [np.int64([4, 1, 2])], {"batch_axis": 0, "time_axis": 1}),
    "ScatterND": ("ScatterND", [PLACES, np.resize(NUMBERS, (2, 5))], {}),
    "ScatterND of computed numbers": ("ScatterND", [PLACES, ("float", (2, 5))], {}),
    "ScatterND to one place": ("ScatterND", [PLACES[[0, 0]], np.resize(NUMBERS, (2, 5))], {}),
    "ScatterElements": ("ScatterElements", [np.int64([[[0, 3, -2]]]), NUMBERS[:1, None]], {"axis": 1}),
}


def moved(name, *, coded, **others):
    op_type, constants, attributes = MOVED[name]
    by = ((0.03, np.uint8(20)), (0.04, np.uint8(40))) if coded else None
    return alone(op_type, [(3, 4, 5)], constants, by=by, **attributes, **others)


@in_float_and_codes
@pytest.mark.parametrize("name", MOVED)
def test_elements_are_where_onnxruntime_has_them(name, coded):
    assert not assert_judged(moved(name, coded=coded), named=None, exact=True).report.inexact


def test_numbers_that_are_added_where_they_go_are_refused():
    with pytest.raises(ModelRejected, match="ScatterElements is not supported"):
        qcgen.compile(moved("ScatterElements", coded=False, reduction="add"))


# --- functions with other names: Swish of opset 24; FastGelu and BiasGelu of onnxruntime's optimizer; chains of Erf

BIAS = np.linspace(-1, 1, 16).astype(np.float32)
SPELT = {
    "Swish": ("Swish", [], {"opset": 24}),
    "Swish with alpha": ("Swish", [], {"opset": 24, "alpha": 1.7}),
    "FastGelu": ("FastGelu", [], {"opset": 20, "domain": MICROSOFT}),
    "FastGelu with a bias": ("FastGelu", [BIAS], {"opset": 20, "domain": MICROSOFT}),
    "BiasGelu": ("BiasGelu", [BIAS], {"opset": 20, "domain": MICROSOFT}),
}


@in_float_and_codes
@pytest.mark.parametrize("name", SPELT)
def test_functions_with_other_names_are_onnxruntimes(name, coded):
    op_type, constants, more = SPELT[name]
    by = ((0.03, np.uint8(120)), (0.02, np.uint8(20))) if coded else None
    x = np.arange(256, dtype=np.uint8) if coded else rng.normal(scale=3, size=256).astype(np.float32)
    assert_judged(alone(op_type, [(16, 16)], constants, by=by, **more), {"x0": x.reshape(16, 16)})


@pytest.mark.parametrize("is_dequantized", [False, True])
def test_a_chain_of_erf_that_onnxruntime_joins_is_joined(is_dequantized, tmp_path):
    """x / 2 * (1 + erf(x / sqrt(2))) of float32 numbers, or of codes that are dequantized, which it leaves alone."""
    made = Chain()
    root, one, half = (made.constant(f"n{i}", np.float32(number)) for i, number in enumerate((np.sqrt(2), 1, 0.5)))
    x = made.dequantize("x", (0.05, np.int8(3))) if is_dequantized else "x"
    error = made.node("Erf", [made.node("Div", [x, root])])
    made.node("Mul", [made.node("Mul", [x, made.node("Add", [error, one])]), half], "y")
    model = made.model((1, 256), opset=17, x_type="int8" if is_dequantized else "float")
    assert ("Gelu" in optimized(model, tmp_path)) == (not is_dequantized)
    x = np.arange(-128, 128).reshape(1, 256)
    assert_judged(
        model, {"x": x.astype(np.int8) if is_dequantized else (x * 0.037).astype(np.float32)}, named=None, exact=True
    )


# --- RMSNormalization, and onnxruntime's normalizations of sums: equal though floats

LENGTHS = (1, 5, 15, 16, 17, 33, 100)
SKIPS = {
    "SkipLayerNormalization": ("g",),
    "SkipLayerNormalization, beta": ("g", "b"),
    "SkipLayerNormalization, beta and bias": ("g", "b", "c"),
    "SkipLayerNormalization, bias": ("g", "", "c"),
    "SkipSimplifiedLayerNormalization": ("g",),
    "SkipSimplifiedLayerNormalization, bias": ("g", "c"),
}


def assert_equal(model):
    """The reference's, too, although it is told that they may not be."""
    feeds = drawn(model)
    artifact = assert_judged(model, feeds, flags=FUSING, named=True, exact=True)
    assert artifact.report.inexact
    for found, expected in zip(evaluate(artifact.program, feeds).values(), judge(model, feeds), strict=True):
        np.testing.assert_array_equal(found, expected)


def of_floats(nodes, constants, *shapes, outputs=("y",), opset=17):
    inputs = {f"x{number}": ("float", shape) for number, shape in enumerate(shapes)}
    return graph_model(
        nodes, inputs, dict.fromkeys(outputs), constants, opset=opset, ir_version=10, opsets={MICROSOFT: 1}
    )


@pytest.mark.parametrize("length", some_at_first(LENGTHS, 5, 33))
@pytest.mark.parametrize(("op_type", "opset"), [("RMSNormalization", 23), ("SimplifiedLayerNormalization", 17)])
def test_rows_are_onnxruntimes(op_type, opset, length):
    assert_equal(alone(op_type, [(2, 30, length)], [numbers(length)], opset=opset, epsilon=0.01))


def test_several_axes_are_a_row():
    assert_equal(alone("RMSNormalization", [(3, 4, 9)], [numbers(4, 9)], opset=23, axis=-2))


@pytest.mark.parametrize("length", some_at_first(LENGTHS, 15))
@pytest.mark.parametrize("is_read", [False, True])
@pytest.mark.parametrize("name", SKIPS)
def test_sums_are_onnxruntimes(name, is_read, length):
    outputs = ["y", "", "", "s"] if is_read else ["y"]
    inputs = ["x0", "x1", *SKIPS[name]]
    node = helper.make_node(name.partition(",")[0], inputs, outputs, domain=MICROSOFT, epsilon=1e-3)
    constants, shape = {each: numbers(length) for each in SKIPS[name] if each}, (2, 9, length)
    assert_equal(of_floats([node], constants, shape, shape, outputs=filter(None, outputs)))


@pytest.mark.parametrize("op_type", ["RMSNormalization", "SimplifiedLayerNormalization"])
def test_the_sum_before_rows_is_onnxruntimes(op_type, tmp_path):
    """It joins neither with the Add, as it joins LayerNormalization."""
    nodes = [helper.make_node("Add", ["x0", "x1"], ["s"]), helper.make_node(op_type, ["s", "g"], ["y"], epsilon=0.01)]
    model = of_floats(nodes, {"g": numbers(40)}, (2, 9, 40), (2, 9, 40), opset=23)
    assert "Add" in optimized(model, tmp_path)
    assert_equal(model)


def test_rows_between_codes_are_computed_in_float():
    by = (0.03, np.uint8(3)), (0.04, np.uint8(99))
    model = alone("RMSNormalization", [(50, 20)], [numbers(20)], by=by, opset=23)
    assert_judged(model, flags=FUSING, named=None, exact=True)
