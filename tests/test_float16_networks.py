"""Networks with float16 numbers: computed in float32 and rounded where onnxruntime rounds."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from batch import require
from float16_recorded import NETWORKS, feed, model
from judged import judge
from models import NHWC, float_conv, graph_model, node_model
from onnx import TensorProto, helper
from qdq import Chain

import qcgen
from qcgen.verification import verify

CHECKER = Path(__file__).parents[1] / "docs" / "check_certificate.py"
RECORDED = np.load(Path(__file__).parent / "data" / "onnxruntime" / "float16.npz")


def units_apart(a, b):
    """How many float16 numbers lie between two, for numbers of one sign."""
    return np.abs(a.view(np.int16).astype(int) - b.view(np.int16).astype(int))


@pytest.mark.parametrize("name", NETWORKS)
def test_outputs_are_those_of_onnxruntime(name):
    """The order of float32 sums is another one, which changes the last place of an output now and then."""
    require("gcc")
    [y] = qcgen.compile(model(name), name="net").load(("-O1",)).run(None, {"x": feed(name)})
    wanted = RECORDED[name]
    assert (y.dtype, y.shape) == (wanted.dtype, wanted.shape)
    if y.dtype == np.float16:
        assert units_apart(y, wanted).max() <= 1
        assert np.count_nonzero(y != wanted) <= y.size // 50
    else:
        largest, apart = np.abs(wanted).max(), np.abs(y - wanted)
        assert apart.max() <= 2.0**-10 * largest  # a number between may be rounded to the float16 number beside
        assert np.count_nonzero(apart > 2e-6 * largest) <= y.size // 50


def test_what_is_recorded_is_what_is_compared():
    assert set(RECORDED) == {"version", *NETWORKS}


@pytest.mark.parametrize("name", ["conv", "depthwise", "clip", "moved twice", "network"])
def test_verify_passes(name):
    require("gcc")
    verification = verify(qcgen.compile(model(name), name="net"))
    assert verification.is_right, verification.first


@pytest.mark.parametrize(("name", "weight"), [("conv", "normal_half"), ("depthwise", "half")])
def test_weights_are_half_as_large_in_flash_and_give_the_same_bits(name, weight):
    require("gcc")
    small, fast = (qcgen.compile(model(name), name="net", optimize=goal) for goal in ("size", "speed"))
    halves, singles = (next(each for each in found.plan.calls if each.tables).tables[0] for found in (small, fast))
    assert (halves.c_type, singles.c_type) == ("uint16_t", "float")
    assert np.array_equal(halves.values.view(np.float16), singles.values)
    assert f"net_fp_{weight}_weight_float(" in small.files["net.c"]
    [y], [z] = (found.load(("-O1",)).run(None, {"x": feed(name)}) for found in (small, fast))
    assert np.array_equal(y.view(np.uint16), z.view(np.uint16))


def test_weights_that_float16_does_not_have_stay_float():
    w = np.full((2, 3, 1, 1), 0.1, np.float32)
    [call] = qcgen.compile(float_conv((1, 3, 4, 4), w), name="net").plan.calls
    assert [table.c_type for table in call.tables] == ["float"]


def operators(name):
    return [op.op_type for op in qcgen.compile(model(name), name="net").program.operators]


def test_numbers_are_rounded_where_onnxruntime_rounds_them():
    assert operators("two") == ["Cast", "Conv", "Relu", "Conv", "Cast"]
    assert operators("moved") == ["Cast", "Conv", "Reshape", "Conv", "Cast"]
    assert operators("moved twice")[:6] == ["Cast", "Conv", "Cast", "Cast", "Reshape", "Transpose"]
    assert operators("clip") == ["Cast", "Conv", "Cast", "Cast", "Clip", "Cast"]


def test_casts_beside_what_is_computed_do_not_round():
    """As in onnxruntime 1.32.0: a Cast to float16 whose reader is computed in float32 gives the number that it got."""
    require("gcc")
    ones = np.ones((1, 1, 1, 1), np.float16)
    casts = [helper.make_node("Cast", ["x"], ["h"], to=TensorProto.FLOAT16)]
    back = helper.make_node("Cast", ["c"], ["y"], to=TensorProto.FLOAT)
    x = np.full((1, 1, 1, 1), 1 + 2.0**-12, np.float32)
    for middle, expected in ((("Conv", ["h", "w"]), 1 + 2.0**-12), (("Identity", ["h"]), 1.0)):
        nodes = [*casts, helper.make_node(*middle, ["c"]), back]
        ends = ({name: ("float", x.shape)} for name in "xy")
        proto = graph_model(nodes, *ends, {"w": ones} if middle[0] == "Conv" else {}, opset=17)
        [y] = qcgen.compile(proto, name="net").load().run(None, {"x": x})
        assert y.item() == expected


@pytest.mark.parametrize("to", ["FLOAT", "DOUBLE", "INT32", "INT64"])
def test_numbers_that_are_cast_to_another_type_were_not_rounded_before(to):
    """A factor of 1 + 2^-10 makes numbers between those of float16."""
    factor = np.full((3, 1, 1, 1), 1 + 2.0**-10, np.float16)
    conv = helper.make_node("Conv", ["x", "w"], ["c"], group=3)
    nodes = [conv, helper.make_node("Cast", ["c"], ["y"], to=TensorProto.DataType.Value(to))]
    proto = graph_model(
        nodes, {"x": ("float16", (1, 3, 5, 5))}, {"y": (to.lower(), (1, 3, 5, 5))}, {"w": factor}, opset=17
    )
    feeds = {"x": (np.arange(75).reshape(1, 3, 5, 5) * 23 + 1).astype(np.float16)}
    [y], [wanted] = qcgen.compile(proto, name="net").load().run(None, feeds), judge(proto, feeds)
    assert np.array_equal(y, wanted)
    assert not np.array_equal(y, (feeds["x"] * factor[0]).astype(y.dtype))


def test_the_convolution_of_com_ms_internal_nhwc_is_the_same_with_channels_last():
    require("gcc")
    w, b = (np.random.RandomState(seed).standard_normal(shape) for seed, shape in ((1, (4, 3, 3, 3)), (2, (4,))))
    x = np.random.RandomState(3).standard_normal((1, 5, 5, 3)).astype(np.float16)
    w, b = w.astype(np.float16), b.astype(np.float16)
    last, first = (
        qcgen.compile(float_conv(shape, w, b, domain=domain, replace={"X": ("float16", shape)}), name="net")
        for domain, shape in ((NHWC, (1, 5, 5, 3)), ("", (1, 3, 5, 5)))
    )
    [y] = last.load().run(None, {"X": x})
    [z] = first.load().run(None, {"X": np.ascontiguousarray(x.transpose(0, 3, 1, 2))})
    assert y.dtype == np.float16
    assert np.array_equal(y, z.transpose(0, 2, 3, 1))


def test_unknown_operators_stay_refused():
    with pytest.raises(qcgen.ModelRejected, match="not supported"):
        qcgen.compile(node_model("Tan", {"x": ("float16", (2, 3))}, opset=19))


def test_certificates_of_networks_with_float16_at_the_ends_are_confirmed(tmp_path):
    c = Chain()
    real = c.node("Cast", ["x"], "real", to=TensorProto.FLOAT)
    x = c.through(real, (np.float32(0.05), np.int8(3)))
    scales = (np.float32([0.01, 0.02]), np.zeros(2, np.int8))
    w = c.weights("w", np.arange(-9, 9).reshape(2, 1, 3, 3).astype(np.int8), scales)
    y = c.through(c.node("Conv", [x, w]), (np.float32(0.03), np.int8(-3)))
    c.node("Cast", [y], "y", to=TensorProto.FLOAT16)
    whole = model("network")
    for number, proto in enumerate((c.model((1, 1, 5, 5), x_type="float16"), whole)):
        artifact = qcgen.compile(proto, name="net")
        artifact.write(tmp_path / str(number), certificate=True)
        path = tmp_path / f"{number}.onnx"
        path.write_bytes(proto.SerializeToString())
        command = [sys.executable, CHECKER, path, tmp_path / str(number) / "net.cert.json"]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
        assert found.returncode == 0, found.stdout + found.stderr
