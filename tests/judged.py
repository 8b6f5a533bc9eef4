"""What onnxruntime makes of a model, where it is installed: it is the judge, and knows nothing of qcgen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, ModelProto
from tools import require, require_modules

import qcgen
from qcgen.ir.plan import Port
from qcgen.ir.types import Layout

Arrays = Mapping[str, np.ndarray]


def judge(model: ModelProto, feeds: Arrays) -> list[np.ndarray]:
    """The outputs of onnxruntime's session with session.qdqisint8allowed=1; the test is skipped without onnxruntime."""
    return list(_session(model, _options()).run(None, dict(feeds)))


def optimized(model: ModelProto, folder: Path) -> list[str]:
    """The operators that onnxruntime runs for a model, as that session leaves them."""
    return [node.op_type for node in optimized_graph(model, folder).node]


def optimized_graph(model: ModelProto, folder: Path) -> GraphProto:
    """The graph that onnxruntime runs for a model."""
    path = folder / "optimized.onnx"
    options = _options()
    options.optimized_model_filepath = str(path)
    _session(model, options)
    return onnx.load(path).graph


def drawn(model: ModelProto, seed: int = 1) -> dict[str, np.ndarray]:
    """Inputs of a model: normal numbers, integers over their whole type, truth values."""
    rng, feeds = np.random.default_rng(seed), {}
    for each in model.graph.input:
        kind = each.type.tensor_type
        dtype, shape = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type), [dim.dim_value for dim in kind.shape.dim]
        ends = np.iinfo(dtype) if dtype.kind in "iu" else None
        values = rng.integers(ends.min, ends.max, shape, dtype, endpoint=True) if ends else rng.normal(size=shape)
        feeds[each.name] = np.asarray(values > 0 if dtype.kind == "b" else values, dtype)
    return feeds


def held(x: np.ndarray, port: Port) -> np.ndarray:
    """A tensor of the model as a caller of the C holds it."""
    is_last = port.tensor.layout is Layout.CHANNELS_LAST
    if port.tensor.layout is None or is_last == (port.layout == "channels last"):
        return x
    return np.ascontiguousarray(np.moveaxis(x, -1, 1) if is_last else np.moveaxis(x, 1, -1))


def compared(
    model: ModelProto, *feeds: Arrays, flags: str | Sequence[str] = "-O2", **options: Any
) -> tuple[qcgen.Artifact, list[np.ndarray], list[np.ndarray]]:
    """The model compiled, and its outputs by the C and by onnxruntime, both as a caller of the C holds them."""
    require("gcc")
    artifact = qcgen.compile(model, **options)
    loaded, found, wanted = artifact.load(flags), [], []
    for each in feeds or (drawn(model),):
        wanted += [held(y, port) for y, port in zip(judge(model, each), artifact.plan.outputs, strict=True)]
        given = {port.tensor.name: held(each[port.tensor.name], port) for port in artifact.plan.inputs}
        found += loaded.run(None, given)
    return artifact, found, wanted


def is_named(artifact: qcgen.Artifact) -> bool:
    """Whether the report says that outputs may be other ones than onnxruntime's."""
    return bool(artifact.report.inexact) or any(node.in_float for node in artifact.report.nodes)


def assert_judged(
    model: ModelProto,
    *feeds: Arrays,
    flags: str | Sequence[str] = "-O2",
    named: bool | None = False,
    exact: bool | None = None,
    tolerance: float = 1e-5,
    **options: Any,
) -> qcgen.Artifact:
    """The C gives onnxruntime's outputs for these inputs, or random ones, or it is told that it may not.

    ``named`` says whether it is told, None leaves that open; ``exact``, whether outputs are equal, though, if that is
    not what is told. Else codes may be one off, numbers as much as ``tolerance`` of them and of 1.
    """
    artifact, found, wanted = compared(model, *feeds, flags=flags, **options)
    assert named is None or is_named(artifact) == named
    for got, want in zip(found, wanted, strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        if not is_named(artifact) if exact is None else exact:
            np.testing.assert_array_equal(got, want)
        else:
            real = want.astype(np.float64)
            allowed = 1 if want.dtype.kind in "iu" else tolerance * np.maximum(1, np.abs(real))
            assert (np.abs(got - real) <= allowed).all()
    return artifact


def _options() -> Any:
    require_modules("onnxruntime")
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.qdqisint8allowed", "1")
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    return options


def _session(model: ModelProto, options: Any) -> Any:
    import onnxruntime

    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
