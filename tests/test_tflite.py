"""Networks of .tflite files: the C computes what TensorFlow Lite Micro's reference kernels were recorded to compute."""

import json
import struct
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from marks import share_at_first
from tflite_models import (
    MODELS,
    Field,
    Step,
    Told,
    cases,
    elu_of_floats,
    function,
    matrices,
    moved,
    network,
    pool,
    transposed_convolution,
    weights,
    written,
)
from tflite_states import STREAMS
from tflite_wide import WIDE_MODELS
from tools import require_modules

import qcgen
from qcgen.cli import main
from qcgen.tflite import LOWERINGS, lower_tflite, read_tflite
from qcgen.tflite.graph import OPTIONS
from qcgen.tflite.read import DamagedFile, FlatTable

ALL = MODELS | WIDE_MODELS
RECORDED = np.load(Path(__file__).parent / "data" / "tflite" / "recorded.npz")
REAL = Path(__file__).parents[2] / "shared" / "models" / "tflite"
READ = """
pretrainedResnet_quant fc_chain_dense_per_tensor kws_ref_model conv_strides vww_96_int8 dw_dilated
toycar_fullint_micro_intio dw_multiplier person_detect odd_channels str_ww_ref_model hello_world_int8 cifar10_q
max_min cnn_float reduce_max_sum global_pools prelu cnn_per_tensor random_04 detector_uint8_float
rnnoise_INT8 broadcast_to concat_split fpn_small pack_unpack pads shufflenet_unit space_depth strided_slice
hard_swish mobilenetv3_small random_02 random_06 random_08 random_10 random_12
add_sub_mul cnn_s_quantized micro_speech_quantized mnist_dw_q resnet_small_dense_per_tensor
transpose_conv attention_no_norm arg_max resize_bilinear unet_small abs_sqdiff
transformer_block log_softmax elu_relu lenet_300_100_logsoftmax
cnn_int16x8 dense_int16x8 elementwise_int16x8
""".split()
"""Files of ``REAL`` all of whose operators are read."""


def reason(error):
    [problem] = error.value.problems
    return f"{problem.where}: {problem.what}"


@cache
def compiled(name, target):
    artifact = qcgen.compile(ALL[name], name="model", target=target)
    return artifact, artifact.load(("-O1",))


@pytest.mark.parametrize("name", share_at_first(list(ALL), 4))
@pytest.mark.parametrize("target", ["portable", pytest.param("cortex-m4", marks=pytest.mark.all)])
def test_the_c_gives_the_recorded_outputs(name, target):
    artifact, model = compiled(name, target)
    [x] = artifact.program.inputs
    for given, recorded in zip(cases(ALL[name]), RECORDED[name], strict=True):
        [y] = model.run(None, {x.name: given})
        assert np.array_equal(y, recorded)


@pytest.mark.parametrize("name", share_at_first(READ, 16))
def test_real_networks_give_the_recorded_outputs(name):
    if not REAL.is_dir():
        pytest.skip("the real models are not there: no directory shared/models/tflite beside the repository")
    artifact = qcgen.compile(REAL / f"{name}.tflite", name="model")
    model, recorded = artifact.load(("-O1",)), np.load(REAL / f"{name}.npz")
    for case in range(sum(key.startswith("in") for key in recorded) // len(artifact.program.inputs)):
        feeds = {x.name: recorded[f"in{case}.{x.name}"] for x in artifact.program.inputs}
        for y, got in zip(artifact.program.outputs, model.run(None, feeds), strict=True):
            assert np.array_equal(got, recorded[f"out{case}.{y.name}"])


def test_the_file_says_whose_arithmetic_it_is_and_what_is_proved():
    artifact, _ = compiled("network", "portable")
    text = " ".join(artifact.files["model.c"].replace("*", "").split())
    assert "numerics TensorFlow Lite Micro's reference kernels, which round twice" in text
    assert "equal to TensorFlow Lite's two roundings for every reachable accumulator" in text
    assert "onnxruntime" not in text
    assert json.loads(artifact.report.to_json())["arithmetic"] == {"numerics": "tflm"}


def test_an_operator_that_is_not_read_is_named():
    tensors = [Told("x", (1, 4), 0.1), Told("y", (1, 4), 0.1)]
    data = written(tensors, [Step("L2_NORMALIZATION", (0,), (1,))], (0,), (1,))
    with pytest.raises(qcgen.ModelRejected) as error:
        qcgen.compile(data)
    assert reason(error).startswith("node 'L2_NORMALIZATION_0': qcgen does not read L2_NORMALIZATION of .tflite files")


def test_whatever_is_read_has_its_options_read():
    assert set(LOWERINGS) <= set(OPTIONS)


def test_floats_are_refused_with_the_way_out():
    tensors = [
        Told("x", (1, 4), dtype="float32"),
        Told("w", (3, 4), 0.1, 0, weights(1, 3, 4)),
        Told("y", (1, 3), dtype="float32"),
    ]
    data = written(tensors, [Step("FULLY_CONNECTED", (0, 1, -1), (2,), {0: Field("b", 0)})], (0,), (2,))
    with pytest.raises(qcgen.ModelRejected, match="quantize the network to int8 in whole") as error:
        qcgen.compile(data)
    assert reason(error) == "node 'FULLY_CONNECTED_0': tensor 'x' is not quantized (float): only int8 is read here"


def test_sums_that_may_leave_int32_are_refused():
    tensors = [
        Told("x", (1, 4), 0.1),
        Told("w", (1, 4), 0.1, 0, weights(1, 1, 4)),
        Told("y", (1, 1), 0.1),
        Told("b", (1,), 0.01, 0, np.array([2**31 - 1]), "int32"),
    ]
    data = written(tensors, [Step("FULLY_CONNECTED", (0, 1, 3), (2,), {0: Field("b", 0)})], (0,), (2,))
    with pytest.raises(qcgen.ModelRejected) as error:
        qcgen.compile(data)
    assert "makes a sum leave int32" in reason(error)


@pytest.mark.parametrize("options", [["--numerics", "orion-fp16x16"], ["--batch", "2"], ["--dim", "N=2"]])
def test_options_for_onnx_alone_are_refused(options, tmp_path, capsys):
    path = tmp_path / "model.tflite"
    path.write_bytes(network())
    assert main(["compile", str(path), "-o", str(tmp_path), *options]) == 1
    assert "not for .tflite files" in capsys.readouterr().err


def test_an_onnx_model_is_refused_the_arithmetic_of_tflite():
    model = Path(__file__).parent / "data" / "digits" / "digits_qop_s8.onnx"
    with pytest.raises(qcgen.ModelRejected, match="this is an ONNX model"):
        qcgen.compile(model, numerics="tflm")


def test_every_command_takes_a_file_as_it_takes_a_model(tmp_path, capsys):
    path = tmp_path / "network.tflite"
    path.write_bytes(network())
    assert main(["inspect", str(path)]) == 0
    assert "tflite 3" in capsys.readouterr().out
    assert main(["verify", str(path), "--node", "CONV_2D_0", "--cases", "1"]) == 0
    assert "0 of" in capsys.readouterr().out


@pytest.mark.parametrize("options", [{}, {"node": "DEPTHWISE_CONV_2D_1"}, {"outputs": "first"}], ids=str)
def test_tensorflow_lite_micro_judges_every_tensor(options):
    require_modules("tflite_micro")
    artifact = qcgen.compile(network(), name="net", **options)
    judge = qcgen.verify(artifact, cases=1, flags="-O0", sums=False, oracle="tflm").judge
    computed = sum(op.y.size for op in artifact.program.operators)
    assert (judge.oracle, judge.differing, judge.outputs) == ("tflm", 0, computed * judge.cases)
    assert judge.cases > 4


def test_the_judge_names_the_first_tensor_that_differs():
    require_modules("tflite_micro")
    artifact = qcgen.compile(network(), name="net")
    conv, *others = artifact.program.operators
    wrong = replace(artifact.program, operators=(replace(conv, bias=conv.bias + 40), *others))
    judge = qcgen.verify(replace(artifact, program=wrong), cases=1, flags="-O0", sums=False).judge
    assert judge.first.output == "first"


def test_without_tensorflow_lite_micro_the_command_says_how_to_install_it(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("qcgen.verification.judge.installed_micro", lambda: None)
    path = tmp_path / "network.tflite"
    path.write_bytes(network())
    options = [str(path), "--cases", "1", "--no-sums"]
    assert main(["verify", *options, "--oracle", "tflm"]) == 1
    assert "pip install 'tflite-micro>=0.dev0'" in capsys.readouterr().err
    assert main(["verify", *options]) == 0
    assert "note: tflite-micro, which would judge bits, is not installed" in capsys.readouterr().out


def mutants(count):
    """Files with bytes of their structure changed, and files cut off; of every operator."""
    generator = np.random.default_rng(21)
    files = [*ALL.values(), *STREAMS.values()]
    for number in range(count):
        data = files[number % len(files)]
        changed = bytearray(data)
        for _ in range(int(generator.integers(1, 4))):
            at = int(generator.integers(8, len(data) - 4))
            new = int(generator.choice([0, 1, 255, 2**31 - 1, 2**31, 2**32 - 1, int(generator.integers(0, 2**32))]))
            struct.pack_into("<I" if number % 2 else "<B", changed, at, new if number % 2 else new & 255)
        yield bytes(changed[: int(generator.integers(8, len(data)))] if number % 5 == 0 else changed)


@pytest.mark.parametrize("count", [300, pytest.param(2000, marks=pytest.mark.all)])
def test_damaged_files_are_read_or_refused_with_a_reason(count):
    refused = 0
    for data in mutants(count):
        try:
            with np.errstate(over="raise", invalid="raise"):
                lower_tflite(read_tflite(data, "model"))
        except qcgen.ModelRejected:
            refused += 1
    assert count / 4 < refused < count


HOSTILE = {
    "its output has 7 places along axis 1, which do not come of 6": transposed_convolution(
        (3, 3), (3, 3), (1, 7, 15, 3), 1
    ),
    "it computes in float32, not between DEQUANTIZE and QUANTIZE": elu_of_floats(is_output=True),
    "reads beyond them": moved("RESIZE_BILINEAR", (1, 1100, 5, 4), np.array([1100, 5]), {2: Field("b", 0)}),
    "its output has 99 places along axis 1, which do not come of 6": transposed_convolution(
        (2, 2), (3, 3), (1, 99, 10, 3), 0
    ),
    "its strides are [17, 17]": transposed_convolution((17, 17), (3, 3), (1, 102, 85, 3), 0),
    "the zero point of its input is -127": function("RSQRT", (0.017, -127)),
    "some input makes a sum leave int32": matrices((1, 2, 2**18), (1, 2, 2), (0, 1)),
    "the scale of tensor 'x' is 1e-30": function("RELU6", (1e-30, 0)),
    "it makes (1, 1073741824, 1, 1) of (1, 6, 5, 4)": moved("TILE", (1, 2**30, 1, 1), np.array([1, 2, 1, 1]), {}),
    "its window of (9, 9) reaches into padding": pool("AVERAGE_POOL_2D", (9, 9), (1, 6, 5, 4), 1, 0, 0),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_what_would_overflow_or_take_long_is_refused(what):
    with pytest.raises(qcgen.ModelRejected) as error:
        qcgen.compile(HOSTILE[what])
    assert what in reason(error)


def test_a_vector_is_not_read_once_more_than_a_file_can_be():
    [subgraph] = FlatTable.root(written([Told("x" * 60000, (1, 4), 0.1)], [], (0,), (0,))).tables(2)
    [tensor] = subgraph.tables(0)
    with pytest.raises(DamagedFile, match="its vectors overlap"):
        [tensor.text(3) for _ in range(100)]
