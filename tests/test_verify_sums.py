"""Sums measured in the C: right kernels are right in every coefficient, wrong ones are found and named."""

import json
from dataclasses import replace

import numpy as np
import pytest
from gallery import ENTRIES
from models import conv_integer, qlinear_conv, random_weights

import qcgen
import qcgen.kernels.packing
import qcgen.plan
import qcgen.render
import qcgen.verification.sums
from qcgen.cli import main
from qcgen.ir.program import RawAccumulator
from qcgen.reference import evaluate_operator
from qcgen.verification import verify
from qcgen.verification.layers import Wanted, drives, layers_of
from qcgen.verification.nodes import Nodes
from qcgen.verification.running import Builder
from qcgen.verification.sums import measure

GALLERY = {entry.name: entry for entry in ENTRIES}


def nodes_of(artifact, folder, *, shows_words=False):
    return Nodes(artifact, Builder(("-O1",)), folder / f"nodes{shows_words}", shows_words)


def measured(artifact, folder):
    return measure(nodes_of(artifact, folder), nodes_of(artifact, folder, shows_words=True), 0)


def small(**options):
    """Codes that tell little of the sums."""
    return qcgen.compile(qlinear_conv((1, 2, 6, 7), random_weights((4, 2, 3, 3), seed=5), y_scale=40.0, **options))


# --- what is measured


def test_all_coefficients_of_all_outputs_are_measured(tmp_path):
    [layer] = measured(small(pads=[1, 1, 1, 1]), tmp_path).layers
    # Of each axis, the taps of the windows that lie within the image.
    assert layer.coefficients == layer.of == 4 * 2 * (2 + 3 * 4 + 2) * (2 + 3 * 5 + 2)
    assert layer.starts == 4 * 6 * 7
    assert layer.wrong is None


def test_windows_that_lie_in_padding_alone_have_no_coefficients(tmp_path):
    model = qlinear_conv((1, 2, 2, 2), random_weights((2, 2, 2, 2)), pads=[4, 4, 4, 4], strides=[9, 9])
    [layer] = measured(qcgen.compile(model), tmp_path).layers
    assert layer.wrong is None
    assert layer.coefficients == layer.of == 0


def test_sums_are_driven_to_both_sides_of_the_steps(tmp_path):
    [layer] = measured(qcgen.compile(GALLERY["conv3x3_int8"].model()), tmp_path).layers
    assert layer.sides == layer.sides_of > 500


def test_the_layers_sums_are_the_references(tmp_path):
    for name in ("conv3x3_int8", "depthwise_nchw", "conv_uint8_nchw", "conv3d", "dense_cortex_m4"):
        artifact = GALLERY[name].compile()
        [layer] = layers_of(artifact, nodes_of(artifact, tmp_path).nodes)
        x = np.random.default_rng(1).integers(layer.lo, layer.hi + 1, (3, *layer.op.x.shape))
        raw = replace(layer.op, epilogue=RawAccumulator())
        expected = np.stack([evaluate_operator(raw, each.astype(layer.op.x.dtype.numpy)) for each in x])
        assert np.array_equal(layer.outputs(layer.sums(x)), expected)


def test_drives_reach_what_they_say(tmp_path):
    artifact = GALLERY["depthwise_nchw"].compile()
    [layer] = layers_of(artifact, nodes_of(artifact, tmp_path).nodes)
    wanted = Wanted(np.repeat(np.arange(8), 5), np.tile([-300, -1, 0, 77, 1000], 8) + np.repeat(layer.bias, 5))
    found = 0
    for drive in drives(layer, wanted, 3):
        sums = layer.sums(drive.x)  # of one image each
        number, _, *position = drive.places.T
        assert len(drive.x) <= 3
        assert np.array_equal(sums[(number, drive.wanted.channels, *position)], drive.wanted.sums)
        found += len(drive.wanted.sums)
    assert found > 30


def test_sums_that_are_outputs_are_measured_too(tmp_path):
    [layer] = measured(qcgen.compile(conv_integer((1, 2, 5, 5), random_weights((3, 2, 2, 2)))), tmp_path).layers
    assert (layer.wrong, layer.sides_of, layer.coefficients) == (None, 0, 3 * 2 * 4 * 16)


def test_a_layer_that_takes_too_long_is_measured_in_part_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(qcgen.verification.sums, "MOST_WORK", 2**15)
    [layer] = measured(small(), tmp_path).layers
    assert 0 < layer.coefficients < layer.of


def test_every_layer_of_a_network_is_measured_in_the_range_of_its_input(tmp_path):
    artifact = GALLERY["network_qop"].compile()
    sums = measured(artifact, tmp_path)
    assert [layer.node for layer in sums.layers] == [
        call.op.name for call in artifact.plan.calls if call.certificate.word is not None
    ]
    assert len(sums.layers) > 3
    assert sums.wrong is None


def in_rows(**changes):
    """A network that runs row by row; in its text, ``changes`` of the layer called ``branch``."""
    artifact = GALLERY["network_in_rows"].compile()
    text = artifact.files["network_in_rows.c"]
    for old, new in changes.values():
        assert text.count(old) == 1
        text = text.replace(old, new)
    return replace(artifact, files=artifact.files | {"network_in_rows.c": text})


def test_layers_that_run_row_by_row_are_measured_in_the_function_that_computes_some_rows(tmp_path):
    sums = measured(in_rows(), tmp_path)
    assert [layer.node for layer in sums.layers] == ["stem", "branch", "last"]
    assert sums.wrong is None
    # One row of 8 pixels: of columns, the taps of the windows that lie within the image; all three rows.
    assert [layer.coefficients for layer in sums.layers] == [
        channels * inputs * 3 * columns for channels, inputs, columns in ((3, 2, 22), (3, 3, 22), (4, 3, 11))
    ]
    assert sums.total("coefficients") == sums.total("of")


def test_calls_for_some_rows_are_tried_beside_rows_of_padding(tmp_path):
    artifact = in_rows()
    layers = layers_of(artifact, nodes_of(artifact, tmp_path).nodes)
    assert [layer.padded for layer in layers] == [((1, 0), (0, 1)), ((1, 0), (0, 1)), ((1, 0),)]


# --- wrong kernels


def test_a_wrong_coefficient_in_a_call_for_some_rows_is_found(tmp_path):
    start = "network_in_rows_branch_bias[m]"
    weight = f"{start} + windows[0][5]"
    wrong = measured(in_rows(sum=(start, weight)), tmp_path).wrong
    assert wrong is not None
    assert (wrong.node, wrong.what[:7]) == ("branch", "the sum")


MUTANTS = {
    "the border of a copied window": (
        "conv3x3_int8", "library/spatial.h", "(uint32_t)at >= ", "(uint32_t)at > ",
    ),
    "the border of a depthwise window": (
        "depthwise_nhwc", "library/spatial.h", "(uint32_t)at >= ", "(uint32_t)at > ",
    ),
    "a Winograd transform": (
        "winograd_cortex_m3", "library/scalar_winograd.h", "c[1] - c[3], c[3]", "c[3] - c[1], c[3]",
    ),
    "a word of two sums": (
        "conv_cortex_m4", "library/dsp_sums.h", "(uint32_t)a[c] - lower) >> 8", "(uint32_t)a[c] + lower) >> 8",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("entry", "name", "old", "new"), MUTANTS.values(), ids=MUTANTS.keys())
def test_a_bug_in_a_template_is_proved(entry, name, old, new, mutate, tmp_path):
    mutate(name, old, new)
    wrong = measured(GALLERY[entry].compile(), tmp_path).wrong
    assert wrong is not None
    assert wrong.what.startswith("the sum")


def packed_wrongly(change):
    """The kernels, with packing that makes a mistake."""
    pack = qcgen.kernels.packing.pack

    def wrong(*arguments, **options):
        return change(pack(*arguments, **options))

    return wrong


def one_more(packed):
    return replace(packed, bias=packed.bias + 1)


def one_weight(packed):
    weights = packed.weights.copy()
    weights[1, 3] += 1
    return replace(packed, weights=weights)


def other_padding(packed):
    return replace(packed, padding=packed.padding + 1)


@pytest.mark.parametrize("change", [one_more, one_weight])
def test_a_mistake_of_one_in_packing_is_proved_although_no_output_shows_it(change, monkeypatch):
    monkeypatch.setattr("qcgen.kernels.portable.conv.pack", packed_wrongly(change))
    result = verify(small(), cases=4)
    assert result.differing == 0
    assert not result.is_right
    assert result.sums.wrong.node == "conv1"


def test_padding_with_another_number_than_the_zero_point_is_proved(monkeypatch, tmp_path):
    monkeypatch.setattr("qcgen.kernels.portable.conv.pack", packed_wrongly(other_padding))
    wrong = measured(small(pads=[1, 1, 1, 1]), tmp_path).wrong
    assert wrong.what == "the sum at zero points"
    assert wrong.index == (0, 0, 0, 0)


def test_a_wrong_code_beside_a_step_is_found(tmp_path):
    artifact = GALLERY["conv3x3_int8"].compile()
    source = artifact.files["conv3x3_int8.c"]
    assert ", offset) >> 5" in source
    files = {"conv3x3_int8.c": source.replace(", offset) >> 5", ", offset + 1) >> 5")}
    wrong = measured(replace(artifact, files=artifact.files | files), tmp_path).wrong
    assert (wrong.what, wrong.got - wrong.expected) == ("the code beside a step", 1)


def test_an_output_step_that_is_not_found_is_an_error(tmp_path):
    artifact = GALLERY["conv3x3_int8"].compile()
    other = {name: text.replace("_requantize", "_quantize_again") for name, text in artifact.files.items()}
    with pytest.raises(RuntimeError, match="the output step of conv3x3_int8_conv1 was not found"):
        measured(replace(artifact, files=other), tmp_path)


# --- what is said


def test_verify_says_how_many_coefficients_are_proved(tmp_path, capsys):
    model = tmp_path / "m.onnx"
    model.write_bytes(qlinear_conv((1, 2, 6, 7), random_weights((4, 2, 3, 3))).SerializeToString())
    assert main(["verify", str(model)]) == 0
    line = "sums of 1 layer: 0 wrong; measured 1 440 of 1 440 coefficients and 80 starts, in every bit"
    assert line in capsys.readouterr().out
    assert main(["verify", str(model), "--json"]) == 0
    [node] = json.loads(capsys.readouterr().out)["nodes"]
    [layer] = node["sums"]["layers"]
    assert (layer["coefficients"], layer["of"], layer["wrong"]) == (1440, 1440, None)
    assert main(["verify", str(model), "--no-sums"]) == 0
    assert "coefficients" not in capsys.readouterr().out


def test_verify_fails_and_names_the_node_if_a_sum_is_wrong(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("qcgen.kernels.portable.conv.pack", packed_wrongly(one_more))
    model = tmp_path / "m.onnx"
    model.write_bytes(qlinear_conv((1, 2, 6, 7), random_weights((4, 2, 3, 3)), y_scale=40.0).SerializeToString())
    assert main(["verify", str(model)]) == 1
    text = capsys.readouterr().out
    assert (
        "first wrong sum: the sum at zero points, of output [0, 0, 0, 0] of node conv1 (QLinearConv): expected " in text
    )
