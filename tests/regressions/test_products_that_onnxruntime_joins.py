"""onnxruntime joins a float MatMul with the factor, or the row, behind it: FusedMatMul and Gemm.

A divisor became a factor there, and here not: 318 of 1,000 results differed. Products of many terms are summed in
parts, each of which is scaled and added to the row at once: up to 603 of 1,000 differed. Both were claimed bit for bit.
"""

from __future__ import annotations

import numpy as np
import pytest
from batch import require
from judged import judge, optimized
from models import graph_model
from onnx import ModelProto
from qdq import Chain, f32

import qcgen

FEW, MANY = 64, 300
BEHIND = ("Add", "Div", "Mul")


def joined(behind: str, terms: int, rank: int) -> ModelProto:
    made, batch = Chain(), (2,) * (rank - 2)
    product = made.node("MatMul", ["a", "b"])
    inputs = {"a": ("float", (*batch, 5, terms)), "b": ("float", (*batch, terms, 200))}
    if behind == "Add":
        inputs["c"] = ("float", (200,))
        made.node("Add", [product, "c"], "y")
    else:
        made.node(behind, [product, made.constant("s", f32(0.3 if behind == "Mul" else 5.3))], "y")
    return graph_model(made.nodes, inputs, {"y": None}, made.constants, opset=13)


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("terms", [FEW, MANY])
@pytest.mark.parametrize("behind", BEHIND)
def test_a_product_with_what_is_behind_it_is_onnxruntimes_or_named(behind, terms, rank, tmp_path):
    require("gcc")
    model, rng = joined(behind, terms, rank), np.random.default_rng(4)
    is_joined = behind != "Add" or rank == 2
    assert ("MatMul" not in optimized(model, tmp_path)) == is_joined
    artifact = qcgen.compile(model, name="net")
    feeds = {x.name: rng.normal(size=x.shape).astype(np.float32) for x in artifact.program.inputs}
    [got], [wanted] = artifact.load().run(None, feeds), judge(model, feeds)
    assert np.allclose(got, wanted, rtol=1e-5, atol=1e-4)
    is_named = terms == MANY
    assert bool(artifact.report.inexact) == is_named
    assert is_named or np.array_equal(got, wanted)
