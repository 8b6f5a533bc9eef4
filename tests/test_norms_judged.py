"""Products, norms and logarithms of sums: against onnxruntime, in float and between codes."""

import numpy as np
import pytest
from batch import require
from judged import judge
from models import graph_model
from qdq import Chain

import qcgen

FUSING = ("-O3", "-march=native", "-ffp-contract=fast")
"""Flags that allow a product and a sum to become one operation."""
SHAPE = (2, 4, 50)
EXACT = ("ReduceL1", "ReduceL2", "ReduceProd", "ReduceSumSquare")
NEAR = ("ReduceLogSum", "ReduceLogSumExp")
AXES = {"rows": (-1,), "between": (1,), "apart": (0, 2), "all": (0, 1, 2)}


def reduction(op_type, axes, *, coded, keepdims):
    """The axes are an input where dimensions are kept, else an attribute, as in older opsets."""
    made = Chain()
    inputs = [made.dequantize("x", (0.03, np.uint8(3))) if coded else "x"]
    named = {} if keepdims else {"axes": axes}
    inputs += [made.constant("axes", np.int64(axes))] if keepdims else []
    y = made.node(op_type, inputs, "r" if coded else "y", keepdims=keepdims, **named)
    if coded:
        made.quantize(y, (0.4, np.uint8(9)), "y")
    x = {"x": ("uint8" if coded else "float", SHAPE)}
    return graph_model(made.nodes, x, {"y": None}, made.constants, opset=18 if keepdims else 13)


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("coded", [False, True], ids=["float", "codes"])
@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("op_type", EXACT + NEAR)
def test_reductions_are_onnxruntimes(op_type, axes, coded, keepdims):
    require("gcc")
    model = reduction(op_type, AXES[axes], coded=coded, keepdims=keepdims)
    artifact, rng = qcgen.compile(model, name="net"), np.random.default_rng(7)
    x = rng.integers(20, 60, SHAPE).astype(np.uint8) if coded else rng.uniform(0.5, 2, SHAPE).astype(np.float32)
    [got], [wanted] = artifact.load(FUSING).run(None, {"x": x}), judge(model, {"x": x})
    assert got.shape == wanted.shape
    is_exact = op_type in EXACT and axes != "all"
    assert bool(artifact.report.inexact) != is_exact
    assert np.array_equal(got, wanted) if is_exact else np.allclose(got, wanted, rtol=1e-5, atol=coded)
