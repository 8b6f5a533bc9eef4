"""What onnxruntime makes of a model, where it is installed: it is the judge, and knows nothing of qcgen."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, ModelProto
from tools import require_modules


def judge(model: ModelProto, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
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
