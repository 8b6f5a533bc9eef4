"""NaN and infinity in attributes and constants gave C that did not compile, and numpy's warnings on standard error."""

import warnings
from contextlib import suppress

import numpy as np
import pytest
from batch import require
from models import MICROSOFT, node_model

import qcgen
from qcgen.errors import ModelRejected

F32 = np.float32
NAN, INF, LARGEST, TINY = np.nan, np.inf, float(np.finfo(F32).max), 1e-45
X = np.array([[0.0, -0.0, 1, -1, INF, -INF, NAN, TINY, -TINY, 3e38, -3e38, 2.5]], F32)
FLOATS = {"X": ("float", X.shape)}


def number(value):
    return np.array(value, F32)


def gemm(c=(1, 1), **attributes):
    operands = {"A": ("float", (1, 2)), "B": number([[1, 2], [3, 4]]), "C": number(c)}
    return node_model("Gemm", operands, **attributes)


def leaky(alpha):
    zero = np.array(0, np.int8)
    operands = {"X": ("int8", (4,)), "X_scale": number(0.1), "X_zero_point": zero, "Y_scale": number(0.1)}
    return node_model("QLinearLeakyRelu", {**operands, "Y_zero_point": zero}, domain=MICROSOFT, alpha=alpha)


REFUSED = {
    "min is NaN": node_model("Clip", {**FLOATS, "min": number(NAN)}),
    "max is NaN": node_model("Clip", FLOATS, opset=10, max=NAN),
    "value is NaN": node_model("Pad", FLOATS, opset=10, pads=[0, 1, 0, 1], value=NAN),
    "alpha is NaN": node_model("LeakyRelu", FLOATS, alpha=NAN),
    "beta is NaN": node_model("HardSigmoid", FLOATS, beta=NAN),
    "alpha is not finite": leaky(INF),
    "alpha is inf: its product with a constant is not finite": gemm(alpha=INF),
    "2 elements of C are not finite": gemm([NAN, NAN], beta=0.0),
    "beta is -inf: its product with a constant is not finite": gemm(beta=-INF),
    "alpha is 3.40282e+38: its product with a constant is not finite": gemm(alpha=LARGEST),
}


@pytest.mark.parametrize("what", REFUSED)
def test_this_number_is_refused_in_these_words(what):
    with pytest.raises(ModelRejected) as rejection:
        qcgen.compile(REFUSED[what])
    assert [problem.what for problem in rejection.value.problems] == [what]


@pytest.mark.parametrize("value", [INF, -INF, TINY, -TINY, -0.0, LARGEST, 1e-38])
def test_a_clip_with_one_bound_takes_the_end_of_the_type_for_the_other(value):
    require("gcc")
    low = qcgen.compile(node_model("Clip", {**FLOATS, "min": number(value)})).load().run(None, {"X": X})[0]
    np.testing.assert_array_equal(low, np.minimum(np.maximum(X, F32(value)), F32(LARGEST)))
    high = qcgen.compile(node_model("Clip", {**FLOATS, "": None, "max": number(value)})).load().run(None, {"X": X})[0]
    np.testing.assert_array_equal(high, np.minimum(np.maximum(X, F32(-LARGEST)), F32(value)))


@pytest.mark.parametrize("value", [NAN, INF, -INF, TINY, -0.0, LARGEST])
def test_padding_may_be_any_number(value):
    require("gcc")
    model = node_model("Pad", {**FLOATS, "pads": np.array([0, 1, 0, 2]), "value": number(value)})
    y = qcgen.compile(model).load().run(None, {"X": X})[0]
    expected = np.pad(X, [(0, 0), (1, 2)], constant_values=F32(value))
    np.testing.assert_array_equal(y, expected)
    assert np.signbit(y[0, 0]) == np.signbit(F32(value)) or np.isnan(value)


@pytest.mark.parametrize("value", [INF, -INF, TINY, -TINY, -0.0, LARGEST])
def test_slopes_may_be_any_number_but_nan(value):
    require("gcc")
    y = qcgen.compile(node_model("LeakyRelu", FLOATS, alpha=value)).load().run(None, {"X": X})[0]
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(y, np.where(X >= 0, X, X * F32(value)))


@pytest.mark.parametrize("model", [leaky(LARGEST), node_model("LeakyRelu", FLOATS, alpha=INF), *REFUSED.values()])
def test_numpy_warns_of_nothing(model):
    with warnings.catch_warnings(), suppress(ModelRejected):
        warnings.simplefilter("error")
        qcgen.compile(model)
