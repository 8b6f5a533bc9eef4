"""Every kernel, built for the host, gives the reference's outputs on every case, layout and aim."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from batch import DRIVEN, build, difference, expected, inputs, require, unit
from cases import CASES, Case
from gallery_networks import dynamic_in_rows, in_rows
from marks import share_at_first
from network_cases import UNITS

import qcgen
from qcgen.compiler import compile_graph
from qcgen.intervals import accumulator_interval
from qcgen.ir.plan import Options
from qcgen.ir.program import Conv, FloatActivation, RawAccumulator
from qcgen.ir.types import DType
from qcgen.kernels import PORTABLE
from qcgen.reference import evaluate_operator

LAYOUTS, AIMS = ("nhwc", "nchw"), ("size", "speed")
DIGITS = Path(__file__).parent / "data" / "digits"
CONVOLUTIONS = ("conv1_quant", "depthwise2_quant", "pointwise3_quant", "conv4_quant", "conv5_quant")

every_case = pytest.mark.parametrize("case", share_at_first(CASES, 6), ids=lambda case: case.name)


def units_of(case: Case):
    return [unit(case, layout, optimize) for layout in LAYOUTS for optimize in AIMS]


@pytest.fixture(scope="module")
def image(tmp_path_factory, level, selected):
    """All cases in one program."""
    require("gcc")
    units = [each for case in selected(CASES) for each in units_of(case)]
    return build(tmp_path_factory.mktemp("kernels"), units, "gcc", (level,))


@every_case
def test_the_generated_c_equals_the_reference(case, outputs):
    wrong = [text for each in units_of(case) if (text := difference(each, outputs[each.name]))]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("case", [case for case in CASES if case.name == "plane"], ids=["plane"])
def test_a_wrong_output_is_found(case, outputs):
    [each, *_] = units_of(case)
    spoilt = outputs[each.name].copy()
    spoilt[3, 0, 1, 2, 3] ^= 1
    assert difference(each, spoilt).startswith("plane_nhwc_size: 1 of")


@pytest.mark.all
@every_case
def test_the_models_own_layout_is_one_of_the_two(case):
    """So the code for --layout model is code that was compared above, but for the line that repeats the options."""
    for optimize in AIMS:
        options = Options(layout="model", optimize=optimize, numerics=case.numerics)
        same = [
            _lines(compile_graph(case.graph, options, each.name, f"{case.name}.onnx")) == _lines(each.artifact)
            for each in (unit(case, layout, optimize) for layout in LAYOUTS)
        ]
        assert any(same)


def _lines(artifact):
    """The lines of both files without that of the options, and without the id, which is a hash of all of them."""
    lines = [line for text in artifact.files.values() for line in text.splitlines()]
    return [line for line in lines if "--layout" not in line and "_HEADER_ID" not in line]


@pytest.mark.all
@pytest.mark.parametrize("kernel", PORTABLE, ids=lambda kernel: kernel.name)
def test_some_case_uses_the_kernel(kernel):
    """A case here, a unit of test_kernels_networks.py, or a layer that runs row by row."""
    used = {call.kernel for case in CASES for each in units_of(case) for call in each.artifact.plan.calls}
    models = in_rows(), dynamic_in_rows(averages=True)
    rows = [qcgen.compile(model, arena="least", layout="nhwc").plan for model in models]
    used |= {call.kernel for plan in rows for call in plan.calls}
    assert kernel.name in used | {each.kernel.name for each in UNITS}


@pytest.mark.all
@pytest.mark.parametrize("form", ["constant", "multiply-high", "wide", "guard band", "soft-float", "staircase"])
def test_some_case_uses_the_requantization(form):
    forms = Counter()
    for case in CASES:
        for each in units_of(case):
            forms.update(each.artifact.plan.calls[0].certificate.requantize or {})
    assert forms[form] > 0


@pytest.mark.all  # of the cases, not of qcgen
def test_some_case_of_each_integer_kernel_wraps_or_says_why_not():
    wrapping = {
        call.kernel
        for case in CASES
        for each in units_of(case)
        for call in each.artifact.plan.calls
        if call.certificate.wraps
    }
    # Depthwise kernels decline sums that leave int32; Orion's and float sums do not wrap.
    assert wrapping == {"portable/conv", "portable/pointwise"}


def is_integer(case: Case) -> bool:
    op = unit(case, "model", "size").op
    return isinstance(op, Conv) and not isinstance(op.epilogue, FloatActivation)


@every_case
def test_the_inputs_reach_both_ends_of_the_accumulators(case):
    if not is_integer(case):
        return
    op = unit(case, "model", "size").op
    g = op.geometry
    raw = replace(op, y=replace(op.y, dtype=DType.INT32), epilogue=RawAccumulator())
    bounds = accumulator_interval(op)
    low, high = [], []
    for image in inputs(case):
        acc = np.moveaxis(_channels_first(op, evaluate_operator(raw, image)), 1, 0).reshape(g.out_channels, -1)
        low.append(acc.min(axis=1))
        high.append(acc.max(axis=1))
    low, high = np.min(low, axis=0), np.max(high, axis=0)
    assert (low >= bounds.lo).all()
    assert (high <= bounds.hi).all()
    if bounds.wraps or not _has_whole_window(op):
        return
    reached = (low == bounds.lo) & (high == bounds.hi)
    assert reached.sum() >= min(DRIVEN, g.out_channels)


def _channels_first(op, y):
    return np.moveaxis(y, -1, 1) if op.y.layout.value == "nhwc" else y


def _has_whole_window(op):
    """Whether some window lies wholly on the image."""
    g = op.geometry
    axes = zip(g.output, g.strides, g.pads_begin, g.kernel, g.dilations, g.input, strict=True)
    return all(
        any(o * s >= p and o * s - p + (k - 1) * d < size for o in range(count)) for count, s, p, k, d, size in axes
    )


@pytest.mark.all
def test_most_outputs_are_not_clamped():
    """Cases whose outputs are all at the ends of their type would show little."""
    dull = [
        case.name
        for case in CASES
        if is_integer(case) and not case.name.startswith(("integer", "scale", "dead"))
        if len(np.unique(expected(case)[0])) < 8
    ]
    assert len(dull) <= len(CASES) // 10, dull


@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("model", ["digits_qop_s8", "digits_qop_u8"])
def test_a_real_node_gives_what_onnxruntime_gave(model, layout, name):
    require("gcc")
    artifact = qcgen.compile(onnx.load(DIGITS / f"{model}.onnx"), name=model, node=name, layout=layout)
    [x], [y] = artifact.plan.inputs, artifact.plan.outputs
    loaded = artifact.load(("-O1",))
    with np.load(DIGITS / f"{model}_nodes.npz") as recorded:
        for k in range(3):
            image, wanted = recorded[f"node{k}.{name}.x"], recorded[f"node{k}.{name}.y"]
            if layout == "nhwc":
                image, wanted = np.moveaxis(image, 1, -1), np.moveaxis(wanted, 1, -1)
            [got] = loaded.run([y.tensor.name], {x.tensor.name: np.ascontiguousarray(image)})
            np.testing.assert_array_equal(got, wanted)
