"""Rows that are pushed are computed before the caller says where outputs lie: not into what an output is a view of."""

from __future__ import annotations

import pytest
from qdq import A, B, Chain

import qcgen
from qcgen.verification import verify


def reshaped(is_whole):
    """A table of an image, reshaped; as a part of a Concat if it is not the whole output."""
    chain = Chain()
    table = chain.quantize(chain.node("Tanh", [chain.dequantize("x", A)]), B)
    if not is_whole:
        other = chain.quantize(chain.node("Sigmoid", [chain.dequantize(table, B)]), B)
        table = chain.node("Concat", [table, other], axis=1)
    chain.node("Reshape", [table, chain.constant("shape", [5, -1])], "y")
    return chain.model((1, 5, 7, 5), x_type="uint8")


@pytest.mark.parametrize("is_whole", [True, False])
def test_an_output_that_views_what_rows_write_is_refused_in_memory_of_the_caller(is_whole):
    with pytest.raises(qcgen.ModelRejected, match="before the caller says where outputs lie"):
        qcgen.compile(reshaped(is_whole), layout="nhwc", input="rows")


def test_in_the_arena_it_is_right():
    artifact = qcgen.compile(reshaped(True), layout="nhwc", input="rows", io_memory="arena")
    assert verify(artifact, cases=2).is_right
