"""The models that are mutated: what other tests build, the digits networks, and networks beside the repository."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from bench.compiling import Network
from cases import SPELLINGS
from gallery import ENTRIES
from onnx import ModelProto
from qdq import A, B, C, Chain

from fuzz.operators import operator_models

ROOT = Path(__file__).resolve().parents[2]
LARGEST = 40_000  # bytes of a seed from a file: more would only be slow


class Seeds(NamedTuple):
    """(name, serialized model) each: those of this repository, and those that lie beside it on some machines.

    Most mutants are made of the first, so that they are the same everywhere. ``in_rows`` are those of them that run row
    by row in the least arena with layout nhwc.
    """

    own: tuple[tuple[str, bytes], ...]
    in_rows: tuple[tuple[str, bytes], ...]
    beside: tuple[tuple[str, bytes], ...]


@cache
def seeds() -> Seeds:
    """Every seed that is there."""
    models = operator_models()
    models |= {f"gallery {entry.name}": model for entry in ENTRIES if isinstance(model := entry.model(), ModelProto)}
    models |= {f"spelling {case.name}": case.build() for case in SPELLINGS}
    models |= {f"chain {name}": build() for name, build in CHAINS.items()}
    built = tuple((name, model.SerializeToString(deterministic=True)) for name, model in models.items())
    own = (*built, *_files(ROOT / "tests/data/digits", "digits_q*.onnx"))
    in_rows = tuple(seed for seed in own if seed[0].startswith(IN_ROWS))
    return Seeds(own, in_rows, _files(ROOT.parent / "shared/models", "*.onnx"))


def _files(folder: Path, pattern: str) -> tuple[tuple[str, bytes], ...]:
    paths = sorted(folder.glob(pattern))
    return tuple((path.name, path.read_bytes()) for path in paths if path.stat().st_size <= LARGEST)


def _residual() -> ModelProto:
    """Both operands of a sum are dequantized, one of them behind a table."""
    chain = Chain()
    x = chain.through("x", A)
    sigmoid = chain.through(chain.node("Sigmoid", [x]), B)
    total = chain.node("Relu", [chain.node("Add", [x, sigmoid])])
    chain.through(total, B, "y")
    return chain.model((1, 2, 4, 4))


def _dense() -> ModelProto:
    chain = Chain()
    x = chain.node("Flatten", [chain.through("x", A)])
    w = chain.weights("w", np.arange(-48, 48).reshape(32, 3).astype(np.int8), (0.01, np.int8(0)))
    product = chain.through(chain.node("MatMul", [x, w]), C)
    chain.node("Softmax", [product], "y")
    return chain.model((1, 2, 4, 4))


def _movements() -> ModelProto:
    chain = Chain()
    x = chain.through("x", A)
    shape = chain.constant("shape", np.array([0, -1, 8], np.int64))
    moved = chain.node("Transpose", [chain.node("Reshape", [x, shape])], perm=[0, 2, 1])
    parts = [chain.node("MaxPool", [x], kernel_shape=[2, 2]), chain.node("AveragePool", [x], kernel_shape=[2, 2])]
    joined = chain.node("Concat", [chain.through(part, A) for part in parts], axis=1)
    chain.through(moved, A, "y")
    chain.through(joined, A, "z")
    return chain.model((1, 2, 4, 4), ("y", "z"))


def _shape_of_reshape() -> ModelProto:
    """A Reshape as exporters write it: its shape is computed from another tensor's."""
    chain = Chain()
    x = chain.through("x", A)
    first = chain.node("Gather", [chain.node("Shape", [x]), chain.constant("zero", np.array(0, np.int64))], axis=0)
    batch = chain.node("Unsqueeze", [first, chain.constant("axes", np.array([0], np.int64))])
    shape = chain.node("Concat", [batch, chain.constant("rest", np.array([-1], np.int64))], axis=0)
    chain.through(chain.node("Reshape", [x, shape]), A, "y")
    return chain.model((1, 2, 4, 4))


def _blocks() -> ModelProto:
    """Sums over two convolutions and over a shortcut with stride 2, from 18 rows to 9."""
    network = Network((1, 2, 18, 4))
    x = network.conv("x", 4, 3)
    x = network.sum(x, network.conv(network.conv(x, 4, 3), 4, 3))
    x = network.sum(network.conv(x, 6, 1, 2), network.conv(network.conv(x, 6, 3, 2), 6, 3))
    return network.model(network.mean(x))


def _separable() -> ModelProto:
    """Depthwise and pointwise convolutions and a table; rows of the last convolution are the output."""
    network = Network((1, 2, 20, 7))
    x = network.conv(network.depthwise(network.conv("x", 4, 3, 2), 5), 6)
    x = network.sigmoid(network.conv(network.depthwise(x, 3, 2), 5))
    return network.model(network.conv(x, 7))


def _pooled() -> ModelProto:
    """Convolutions in QDQ form, with a largest of windows and a product of two branches between them."""
    chain, codes = Chain(), np.arange(-54, 54).reshape(6, 2, 3, 3).astype(np.int8)
    pads = {"pads": [1, 1, 1, 1]}
    x = chain.through("x", A)
    w = chain.weights("w", codes, (0.01, np.int8(0)))
    x = chain.through(chain.node("Relu", [chain.node("Conv", [x, w], **pads)]), B)
    x = chain.through(chain.node("MaxPool", [x], kernel_shape=[3, 3], **pads), B)
    v = chain.weights("v", codes.reshape(3, 6, 3, 2), (0.02, np.int8(0)))
    x = chain.through(chain.node("Conv", [x, v], pads=[1, 0, 1, 1], strides=[2, 1]), C)
    gate = chain.through(chain.node("Sigmoid", [x]), A)
    chain.through(chain.node("Mul", [x, gate]), C, "y")
    return chain.model((1, 2, 14, 4))


CHAINS = {
    "residual": _residual,
    "dense": _dense,
    "movements": _movements,
    "shape": _shape_of_reshape,
    "blocks": _blocks,
    "separable": _separable,
    "pooled": _pooled,
}
IN_ROWS = (
    "chain blocks",
    "chain separable",
    "chain pooled",
    "gallery network_in_rows",
    "gallery network_qop",
    "digits",
)
"""What the names of models begin with that run row by row in the least arena."""
