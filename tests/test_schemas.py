"""The operators of ai.onnx by ONNX's own schemas: no opset that was not looked at is believed to be known."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from models import node_model
from onnx import helper

import qcgen
from qcgen.check import node
from qcgen.check.node import INTEGER, INTEGERS, NUMBERS, TEXT, fits, kind_of, of_onnx
from qcgen.errors import ModelRejected
from qcgen.reference import evaluate
from qcgen.schemas import NEWEST_READ, version_at, versions

NEEDS = pytest.mark.skipif(onnx.defs.onnx_opset_version() < NEWEST_READ, reason="this onnx does not know the opset")


def test_versions_go_from_the_newest_to_the_first():
    since = [schema.since_version for schema in versions("Clip")]
    assert since == sorted(since, reverse=True)
    assert since[-5:] == [13, 12, 11, 6, 1]
    assert versions("Mystery") == ()


def test_an_opset_has_the_version_that_came_last():
    assert version_at("Clip", 10).since_version == 6
    assert version_at("Clip", 11).since_version == 11
    assert version_at("Gelu", 19) is None


def test_a_signature_has_what_any_opset_that_is_read_has():
    clip, concat, resize = of_onnx("Clip"), of_onnx("Concat"), of_onnx("Resize")
    assert (clip.inputs, clip.required, set(clip.attributes)) == (("input", "min", "max"), 1, {"min", "max"})
    assert (concat.required, concat.repeated, concat.role(7)) == (1, 1, "inputs")
    assert (resize.inputs, resize.required) == (("X", "roi", "scales", "sizes"), 1)
    assert set(of_onnx("Add").attributes) == set()  # axis and broadcast were those of opset 6
    assert of_onnx("Max").role(2) == "data"


@NEEDS
def test_what_came_after_the_newest_opset_that_was_read_is_unknown(monkeypatch):
    assert "mode" in of_onnx("SpaceToDepth").attributes
    monkeypatch.setattr(node, "NEWEST_READ", 27)
    assert set(of_onnx.__wrapped__("SpaceToDepth").attributes) == {"blocksize"}


@NEEDS
def test_a_mode_of_blocks_is_what_is_done_or_is_refused():
    x = np.arange(48, dtype=np.float32).reshape(1, 3, 4, 4)
    blocks = [
        qcgen.compile(node_model("SpaceToDepth", {"X": ("float", x.shape)}, opset=28, blocksize=2, **mode)).program
        for mode in ({}, {"mode": "DCR"})
    ]
    one, other = (evaluate(each, {each.inputs[0].name: x})[each.outputs[0].name] for each in blocks)
    np.testing.assert_array_equal(one, other)
    with pytest.raises(ModelRejected, match="mode 'CRD' is not supported"):
        qcgen.compile(node_model("SpaceToDepth", {"X": ("float", x.shape)}, opset=28, blocksize=2, mode="CRD"))


@pytest.mark.parametrize(
    ("value", "kind"), [(1, INTEGER), ("a", TEXT), ((1,), INTEGERS), ((1.5,), NUMBERS), ((), "an empty list")]
)
def test_kinds_are_told_in_words(value, kind):
    assert kind_of(value) == kind
    assert fits(kind, value) or value == ()
    assert all(fits(each, ()) for each in (INTEGERS, NUMBERS))
    assert not fits(NUMBERS, (1,))  # onnxruntime refuses it, too


@NEEDS
def test_a_rounding_of_float8_says_nothing_of_other_types():
    model = node_model("Cast", {"X": ("float", (2, 3))}, opset=25, to=helper.TensorProto.INT8, round_mode="up")
    assert qcgen.compile(model).program.outputs[0].shape == (2, 3)
