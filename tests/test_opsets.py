"""Every operator of ai.onnx in the spelling of every opset that changed it, against a judge that is not ours."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import suppress
from itertools import product

import numpy as np
import onnx
import pytest
from batch import require
from judged import assert_judged
from marks import some_at_first
from models import node_model
from onnx import ModelProto
from onnx.reference import ReferenceEvaluator
from opset_models import OPERATORS, QUANTIZE_SINCE, VARIANTS, opsets, schema_at, schemas, spelt, spelt_model, variants
from tools import require_modules

import qcgen
from qcgen.check import RULES, since
from qcgen.compiler import read
from qcgen.emulate import random_feeds
from qcgen.errors import ModelRejected
from qcgen.lower import LOWERINGS
from qcgen.reference import evaluate, evaluate_all
from qcgen.schemas import OLDEST
from qcgen.verification.judge import Judgement, judge_of

try:
    import onnxruntime
except ImportError:
    onnxruntime = None

Arrays = list[np.ndarray]

REFUSED = {
    "Gemm": "C differs from row to row",
    "LayerNormalization": "it normalizes rows of 5 elements",
    "PRelu": "its slope of shape (2,) cannot be broadcast",
    **dict.fromkeys(
        ("ReduceL1", "ReduceL2", "ReduceProd", "ReduceSumSquare"), "it names no axes and has noop_with_empty_axes"
    ),
    "Resize": "mode 'linear' is not supported",
    **dict.fromkeys(("ReverseSequence", "ScatterElements", "ScatterND"), "is not supported"),  # places are inputs
    "SpaceToDepth": "mode 'CRD' is not supported",
}
"""Why a model of this operator may be refused although the judge runs it."""

OF_POSITIVE_NUMBERS = ("Log", "ReduceLogSum", "Sqrt")

TRUTHS_OUT = ("And", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Not", "Or", "Xor")
CODES_OUT = ("ArgMax", "ArgMin", "DynamicQuantizeLinear", "QuantizeLinear", "Shape", "TopK", *TRUTHS_OUT)
"""Operators whose results are no floats that could be quantized."""


def verdict(model: ModelProto, feeds: Mapping[str, np.ndarray]) -> Arrays | None:
    """What onnxruntime computes, else onnx's own reference; None where neither runs the model."""
    if onnxruntime is not None:
        options = onnxruntime.SessionOptions()
        options.add_session_config_entry("session.qdqisint8allowed", "1")
        options.log_severity_level, options.intra_op_num_threads = 4, 1
        try:
            session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
            return list(session.run(None, feeds))
        except Exception:
            pass
    try:
        return list(ReferenceEvaluator(model).run(None, feeds))
    except Exception:
        return None


def found(model: ModelProto, feeds: Mapping[str, np.ndarray]) -> Arrays:
    """What the compiled program computes, or the constants that the model's outputs turn out to be."""
    names = [output.name for output in model.graph.output]
    constants = read(model).constants
    values = constants if set(names) <= set(constants) else evaluate(qcgen.compile(model).program, feeds)
    return [values[name] for name in names]


def feeds_of(model: ModelProto) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    feeds = {}
    for each in model.graph.input:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(each.type.tensor_type.elem_type)
        values = rng.normal(0, 2, [dim.dim_value for dim in each.type.tensor_type.shape.dim])
        values = (
            np.abs(values) + 0.1 if any(node.op_type in OF_POSITIVE_NUMBERS for node in model.graph.node) else values
        )
        values = values > 0 if dtype == np.bool_ else values
        feeds[each.name] = (values if dtype == np.float32 else values * 40 + 100 * (dtype == np.uint8)).astype(dtype)
    return feeds


def assert_equal(ours: Arrays, theirs: Arrays, *, between_codes: bool) -> None:
    for one, other in zip(ours, theirs, strict=True):
        assert (one.shape, one.dtype) == (np.shape(other), np.asarray(other).dtype)
        if between_codes:
            # onnxruntime computes many of these in float32: next to the middle of two codes one may come out.
            difference = np.abs(one.astype(int) - other.astype(int))
            assert difference.max() <= 1
            assert np.count_nonzero(difference) <= max(1, difference.size // 20)
        else:
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def is_tried(op_type: str, opset: int, *, between_codes: bool) -> bool:
    """Whether some variant was computed as the judge computes it; another one, or a refusal without reason, fails."""
    tried = False
    for variant in variants(op_type):
        model = spelt_model(op_type, variant, opset, between_codes=between_codes)
        if model is None:
            continue
        feeds = feeds_of(model)
        theirs = verdict(model, feeds)
        try:
            ours = found(model, feeds)
        except ModelRejected as rejection:
            reason = REFUSED.get(op_type, "nothing" if theirs is not None else "")
            assert reason in str(rejection)  # noqa: PT017 - to compile is right, too
            continue
        if theirs is not None:
            assert_equal(ours, theirs, between_codes=between_codes)
            tried = True
    return tried


def names_of(schema: onnx.defs.OpSchema) -> tuple[str, ...]:
    """Its inputs and attributes."""
    return (*(each.name for each in schema.inputs), *schema.attributes)


CHANGED = [
    op_type for op_type in OPERATORS if len({names_of(schema_at(op_type, opset)) for opset in opsets(op_type)}) > 1
]
"""Operators whose inputs or attributes opsets changed."""


@pytest.mark.parametrize("op_type", some_at_first(OPERATORS, *CHANGED[::2], "Softmax", "LogSoftmax", "Concat", "Max"))
def test_every_spelling_means_what_onnxruntime_computes(op_type):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the reference of onnx takes logarithms of negative numbers
        tried = {opset: is_tried(op_type, opset, between_codes=False) for opset in opsets(op_type)}
    assert op_type in REFUSED or all(tried.values()) or onnxruntime is None, tried


@pytest.mark.parametrize(
    "op_type", some_at_first([each for each in OPERATORS if each not in CODES_OUT], *CHANGED[1::2], "Relu", "Softmax")
)
def test_every_spelling_between_codes_means_what_onnxruntime_computes(op_type):
    require_modules("onnxruntime")
    for opset in opsets(op_type):
        is_tried(op_type, opset, between_codes=True)


@pytest.mark.parametrize("op_type", OPERATORS)
def test_no_operator_and_no_opset_is_left_out(op_type):
    """Each has a variant that its spelling can say, and each variant is the spelling of some opset."""
    said = {
        opset: {n for n, variant in enumerate(variants(op_type)) if spelt(op_type, variant, opset) is not None}
        for opset in opsets(op_type)
    }
    assert all(said.values()), said
    assert set().union(*said.values()) == set(range(len(variants(op_type))))
    assert min(opsets(op_type)) == max(OLDEST, min(schemas()[op_type]))


@pytest.mark.parametrize("op_type", OPERATORS)
def test_operators_are_refused_at_opsets_that_did_not_have_them(op_type):
    key = ("", op_type)
    needed = since(*key) if key in RULES else 1
    is_older = op_type == "LayerNormalization"  # which onnxruntime runs at every opset, and writes into models
    assert max(needed, OLDEST) == (OLDEST if is_older else opsets(op_type)[0]) or key not in LOWERINGS


def test_a_table_of_variants_has_no_operator_that_is_not_known():
    assert set(VARIANTS) <= set(OPERATORS)
    assert set(REFUSED) <= set(OPERATORS)
    assert min(schemas()["QuantizeLinear"]) == QUANTIZE_SINCE


@pytest.mark.parametrize(
    "case",
    some_at_first(
        [(op_type, opset) for op_type in CHANGED for opset in (opsets(op_type)[0], opsets(op_type)[-1])],
        *[("Clip", 7), ("Pad", 7), ("Slice", 7), ("Resize", 10)],
    ),
)
def test_c_computes_what_the_reference_computes(case):
    require("gcc")
    op_type, opset = case
    for variant in variants(op_type)[:2]:
        model = spelt_model(op_type, variant, opset)
        if model is None:
            continue
        feeds = feeds_of(model)
        try:
            artifact = qcgen.compile(model, name="net")
        except ModelRejected:
            continue  # the tests above say for which reasons it may be
        named = {x.name: feeds[x.name] for x in artifact.program.inputs}
        ours = artifact.load().run(None, named)
        theirs = evaluate(artifact.program, named)
        assert_equal(ours, [theirs[y.name] for y in artifact.program.outputs], between_codes=False)


def judged_by_onnx(model: ModelProto) -> Judgement:
    """What onnx.reference says of our reference's outputs."""
    artifact = qcgen.compile(model, name="net")
    feeds = random_feeds(artifact.plan, 1)
    values = evaluate_all(artifact.program, feeds)
    judge = judge_of(artifact, "onnx", [feeds])
    judge.hear("random", 0, feeds, {each.name: values[each.name] for each in artifact.program.outputs}, values)
    return judge.judgement


@pytest.mark.parametrize("op_type", some_at_first(OPERATORS, "Softmax", "LogSoftmax"))
def test_onnx_judges_every_spelling_by_its_opset(op_type):
    for opset, variant in product(opsets(op_type), variants(op_type)):
        model = spelt_model(op_type, variant, opset)
        with suppress(ModelRejected):
            assert model is None or judged_by_onnx(model).differing == 0, (opset, variant)


@pytest.mark.parametrize("opset", [7, 9])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("dtype", ["float", "uint8"])
def test_an_upsample_is_onnxruntimes(dtype, mode, opset):
    scales = np.float32([1, 1, 1.3, 2.7])
    operands, attributes = {"x": (dtype, (1, 2, 7, 9))}, {"mode": mode, "opset": opset}
    if opset == 7:
        attributes["scales"] = scales.tolist()
    else:
        operands["scales"] = scales
    assert_judged(node_model("Upsample", operands, **attributes), named=None, exact=True)


def test_an_upsample_to_less_is_refused_as_onnxruntime_does():
    model = node_model("Upsample", {"x": ("float", (1, 1, 4, 4)), "s": np.float32([1, 1, 0.5, 2])}, opset=9)
    with pytest.raises(ModelRejected, match="the operator Upsample is not supported") as rejected:
        qcgen.compile(model)
    assert "constant scales of at least 1" in str(rejected.value)
