"""What overflows float32 is infinite, as in onnxruntime; numpy warned of it on standard error."""

import warnings

import numpy as np
from fuzz.operators import ONE, scale
from models import MICROSOFT, node_model

import qcgen


def test_a_table_whose_values_overflow_is_made_without_a_warning():
    large = scale(np.float32(3e38))
    model = node_model("QLinearLeakyRelu", {**ONE, "X_scale": large, "Y_scale": large}, domain=MICROSOFT, alpha=100.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert qcgen.compile(model).files
