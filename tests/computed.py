"""What a small model computes: by the reference and by the C built for this machine, which must agree."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from models import graph_model
from onnx import ModelProto, NodeProto

import qcgen
from qcgen.reference import evaluate

Arrays = Mapping[str, np.ndarray]


def one_node(
    node: NodeProto, inputs: Arrays, constants: Arrays, *, opset: int = 13, outputs: Mapping[str, tuple] | None = None
) -> ModelProto:
    """A model of a node, whose inputs have the types and shapes of these arrays."""
    specs = {name: (element(array), array.shape) for name, array in inputs.items()}
    outputs = dict.fromkeys(filter(None, node.output)) if outputs is None else outputs
    return graph_model([node], specs, outputs, constants, opset=opset, opsets={"com.microsoft": 1})


def element(array: np.ndarray) -> str:
    """The name of an array's type in models."""
    return "float" if array.dtype == np.float32 else str(array.dtype)


def computed(model: ModelProto, feeds: Arrays) -> list[np.ndarray]:
    """The outputs of the C, which are the reference's; floats within 1e-5."""
    artifact = qcgen.compile(model)
    found = [np.asarray(y) for y in artifact.load(("-O1",)).run(None, dict(feeds))]
    judge = evaluate(artifact.program, feeds)
    for tensor, y in zip(artifact.program.outputs, found, strict=True):
        expected = judge[tensor.name].reshape(y.shape)
        if y.dtype == np.float32:
            assert np.allclose(y, expected, rtol=1e-5, atol=1e-5, equal_nan=True)
        else:
            assert np.array_equal(y, expected)
    return found
