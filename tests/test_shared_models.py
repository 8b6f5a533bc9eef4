"""Every QLinearConv of the real models beside the repository, where they are there."""

import re
from collections import Counter
from functools import cache
from pathlib import Path

import onnx
import pytest
from batch import build, require, unit
from cases import Case
from marks import share_at_first

from qcgen.intervals import accumulator_interval

MODELS = Path(__file__).parents[2] / "shared" / "models"
LAYOUTS = ("nhwc", "nchw")
DOMAINS = ("", "com.microsoft")


@cache
def cases_of(path: Path) -> tuple[Case, ...]:
    """The QLinearConv nodes of a model, without channels that only intervals prove away."""
    model = onnx.load(path)
    nodes = [node for node in model.graph.node if node.op_type == "QLinearConv" and node.domain in DOMAINS]
    prefix = re.sub(r"\W", "_", path.stem)
    return tuple(Case(f"{prefix}_{i}", lambda: model, node=node.name) for i, node in enumerate(nodes))


def paths():
    """QOperator models: those that have QLinearConv nodes."""
    return [path for path in sorted(MODELS.glob("*.onnx")) if b"QLinearConv" in path.read_bytes()]


def require_models():
    if not paths():
        pytest.skip("the real models are not there: no directory shared/models beside the repository")


PATHS = paths() or [MODELS / "none.onnx"]
every_model = pytest.mark.parametrize("path", share_at_first(PATHS), ids=lambda path: path.stem)


@every_model
def test_no_output_of_any_node_differs_from_the_reference(path, tmp_path):
    require_models()
    require("gcc")
    units = [unit(case, layout, "size") for case in cases_of(path) for layout in LAYOUTS]
    assert units
    build(tmp_path, units, "gcc", ("-O1",)).assert_equals_reference("guarded", 0xFF)


def test_nine_channels_of_ten_have_an_exact_line():
    require_models()
    forms = Counter()
    for path in PATHS:
        for case in cases_of(path):
            forms.update(unit(case, "nhwc", "size").artifact.report.nodes[0].requantize)
    total = sum(forms.values())
    assert forms["constant"] + forms["multiply-high"] + forms["wide"] >= 0.9 * total, forms
    assert set(forms) <= {"constant", "multiply-high", "wide", "guard band", "soft-float"}


def test_only_sums_that_reach_2_to_24_are_emulated():
    require_models()
    for path in PATHS:
        for case in cases_of(path):
            each = unit(case, "nhwc", "size")
            emulated = each.artifact.report.nodes[0].requantize.get("soft-float", 0)
            bounds = accumulator_interval(each.op)
            assert emulated <= int(((bounds.lo <= -(2**24)) | (bounds.hi >= 2**24)).sum()), (path.stem, case.node)
