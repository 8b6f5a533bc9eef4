"""What onnxruntime makes of a model, where it is installed: it is the judge, and knows nothing of qcgen."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from onnx import ModelProto


def judge(model: ModelProto, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs of onnxruntime's session with session.qdqisint8allowed=1; the test is skipped without onnxruntime."""
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is missing: pip install onnxruntime==1.32.0")
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.qdqisint8allowed", "1")
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(feeds)))
