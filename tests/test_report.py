"""Reports: the figures of a plan, as an object, as JSON and as text."""

import json
import pickle
from dataclasses import replace

import pytest
from batch import require
from models import NHWC, conv_integer, float_conv, qlinear_conv, random_weights

import qcgen
from qcgen.arithmetic import ONNXRUNTIME, meant, meant_text
from qcgen.cli.report_text import (
    bound,
    code,
    exactness,
    figures,
    forms,
    forms_text,
    last_lines,
    nearest,
    node_table,
    rejected,
    saved,
    stack,
)
from qcgen.cli.terminal import counted, number, table
from qcgen.cross import how_to_measure
from qcgen.report import Figures, Measured


@pytest.fixture(scope="module")
def artifact():
    return qcgen.compile(qlinear_conv((2, 2, 6, 7), random_weights((4, 2, 3, 3)), bias=[0, 1, 2, 3]), name="small")


def test_json_has_the_fields_that_others_build_on(artifact):
    report = json.loads(artifact.report.to_json())
    assert {"macs", "weights_bytes", "flash_bytes", "arena_bytes", "arena_lower_bound_bytes", "nodes"} <= set(report)
    assert set(report["unsimplified"]) == {"macs", "weights_bytes", "arena_bytes"}
    [node] = report["nodes"]
    assert {"name", "op", "kernel", "macs", "scratch_bytes", "accumulator", "requantize"} <= set(node)
    assert (node["name"], node["op"]) == ("conv1", "QLinearConv")


def test_the_report_and_both_files_name_the_onnxruntime_that_is_meant(artifact):
    meant = json.loads(artifact.report.to_json())["arithmetic"]
    session = {"session.qdqisint8allowed": "1"}
    assert meant == {"onnxruntime": ONNXRUNTIME, "fma": True, "vnni": True, "session": session}
    for text in artifact.files.values():
        head, _, _ = text.partition("#")
        assert f"numerics {meant_text('onnxruntime')}\n" in head


def test_orion_s_arithmetic_names_no_onnxruntime():
    assert meant("orion-fp16x16") == {"numerics": "orion-fp16x16"}
    assert meant_text("orion-fp16x16") == "Orion's qlinear_conv in FP16X16"
    assert meant_text("onnxruntime").startswith(f"onnxruntime {ONNXRUNTIME} with fused multiply-add and VNNI, session.")


def test_macs_count_every_product_of_every_image(artifact):
    assert artifact.report.macs == 2 * 4 * (4 * 5) * (2 * 3 * 3)


def test_the_sizes_are_those_of_the_plan(artifact):
    report = artifact.report
    assert report.weights_bytes == sum(table.bytes for call in artifact.plan.calls for table in call.tables)
    assert report.weights_bytes >= 4 * 18 + 4 * 4  # weights and bias at least
    assert report.arena_bytes == artifact.plan.arena_bytes
    assert f"#define SMALL_ARENA_BYTES {report.arena_bytes}" in artifact.files["small.h"]


def test_every_channel_is_counted_in_one_form(artifact):
    [node] = artifact.report.nodes
    assert sum(node.requantize.values()) == 4
    assert node.comparisons > 0


def test_the_accumulator_interval_spans_all_channels(artifact):
    [node] = artifact.report.nodes
    weights = random_weights((4, 2, 3, 3)).reshape(4, -1).astype(int)
    lows, highs = weights.clip(max=0).sum(axis=1) * 255 + range(4), weights.clip(min=0).sum(axis=1) * 255 + range(4)
    assert node.accumulator == (lows.min(), highs.max())
    assert not node.wraps


def test_raw_accumulators_and_floats_have_no_requantization():
    [integer] = qcgen.compile(conv_integer((1, 2, 6, 6), random_weights((3, 2, 3, 3)))).report.nodes
    assert (integer.requantize, integer.accumulator is not None) == ({}, True)
    [real] = qcgen.compile(float_conv((1, 2, 6, 6), random_weights((3, 2, 3, 3), "float32"))).report.nodes
    assert (real.requantize, real.accumulator) == ({}, None)
    assert node_table([real], is_verbose=True).split()[-2:] == ["float32", "-"]


def test_the_table_adds_up_several_nodes(artifact):
    nodes = artifact.report.nodes * 3
    assert len(node_table(artifact.report.nodes, is_verbose=True).splitlines()) == 2
    rows = node_table(nodes, is_verbose=False).splitlines()
    assert len(rows) == 5
    assert rows[-1].startswith("all ")
    assert number(3 * artifact.report.macs) in rows[-1]


def test_simplification_is_told_only_if_it_saves_something(artifact):
    report = artifact.report
    assert saved(report) is None
    costly = replace(report, unsimplified=Figures(report.macs + 1000, 5000, report.arena_bytes))
    arena = number(report.arena_bytes)
    assert saved(costly) == f"without simplification: flash 5 000 B of constants, arena {arena} B, 3 880 multiply-adds"


def test_the_lower_bound_of_the_arena_is_told_of_networks(artifact):
    report = artifact.report
    assert bound(report) is None
    network = replace(report, nodes=report.nodes * 2, arena_lower_bound_bytes=1234)
    assert bound(network) == "arena: no placement of these tensors needs less than 1 234 B"


def test_nodes_without_an_accumulator_have_a_dash_unless_they_are_float(artifact):
    [node] = artifact.report.nodes
    assert node.arithmetic == "integer"
    assert node_table([replace(node, accumulator=None, requantize={})], is_verbose=True).split()[-2:] == ["-", "-"]


def test_figures_are_flash_arena_and_macs(artifact):
    report = artifact.report
    assert figures(report.figures) == (
        f"flash {number(report.constants_bytes)} B of constants, arena {number(report.arena_bytes)} B,"
        " 2 880 multiply-adds"
    )


def test_kernels_are_passed_over_with_a_reason_and_the_nodes_concerned(artifact):
    [node] = artifact.report.nodes
    assert node.rejected
    lines = rejected([node, node]).splitlines()
    assert len(lines) == len(node.rejected)
    for line, (kernel, reason) in zip(lines, node.rejected.items(), strict=True):
        assert line == f"{kernel} was rejected, because {reason}: conv1, conv1"
    assert rejected([]) == nearest([]) == "no faster kernel was rejected"
    last = list(node.rejected.items())[-1]
    assert nearest([node]).splitlines()[1].split(maxsplit=2) == ["conv1", *last]


def test_forms_are_counted_cheapest_first_with_shares():
    class Node:
        def __init__(self, requantize):
            self.requantize = requantize

    counts = forms([Node({"guard band": 1, "staircase": 2}), Node({"constant": 3}), Node({"guard band": 2})])
    assert list(counts.items()) == [("constant", 3), ("guard band", 3), ("staircase", 2)]
    assert forms_text(counts) == "constant 3 (37.5 %), guard band 3 (37.5 %), staircase 2 (25.0 %)"
    assert forms_text({}) == ""


def test_tables_keep_a_name_on_its_line():
    text = table(("name", "size"), [("two\nlines", "1"), ("b", "20")], right=("size",))
    assert text.splitlines() == ["name        size", "two\\nlines     1", "b             20"]


def test_numbers_have_their_digits_in_threes():
    assert number(1234567) == "1 234 567"
    assert (counted(1, "node"), counted(1000, "node")) == ("1 node", "1 000 nodes")


def test_the_report_describes_what_the_function_takes_and_gives(artifact):
    report = json.loads(artifact.report.to_json())
    assert list(report)[:2] == ["schema_version", "qcgen"]
    [x], [port] = report["inputs"], artifact.plan.inputs
    assert x == {
        "name": port.tensor.name, "symbol": port.symbol, "type": "uint8", "shape": [2, 2, 6, 7],
        "layout": "channels first", "bytes": 168, "scale": port.tensor.scale, "zero_point": port.tensor.zero_point,
        "helper": "small_quantize_x",
    }  # fmt: skip
    assert [y["bytes"] for y in report["outputs"]] == [2 * 4 * 4 * 5]


def test_flash_is_constants_and_code_where_code_was_measured(artifact):
    report = artifact.report
    assert (report.code_bytes, report.flash_bytes) == (None, None)
    measured = report.with_code(Measured({"-Os": 700, "-O2": 900}, {"-Os": 88, "-O2": None}, "gcc 1"))
    assert measured.flash_bytes == report.constants_bytes + 900
    assert code(measured).startswith("code: 700 B with -Os, 900 B with -O2; flash in all ")
    assert stack(measured) == "stack: at most 88 B with -Os, not known with -O2; libraries and assembly included; gcc 1"
    assert stack(report) is None
    assert code(report) is None
    constants, both = number(report.constants_bytes), number(report.constants_bytes + 900)
    assert last_lines(measured, None, 9.0)[0] == f"flash: {both} B: constants {constants} B, code 900 B with -O2"
    assert last_lines(report, "buy one", 9.0)[0] == f"flash: constants {constants} B, code not measured: buy one"


def test_exactness_counts_what_is_not_bit_for_bit(artifact):
    report = artifact.report
    assert report.inexact == ()
    assert exactness([report]) == "exact: every output is that of onnxruntime, bit for bit"
    [node] = report.nodes
    tie = replace(report, nodes=(node, replace(node, in_float=True)))
    assert exactness([tie]) == "exact: 1 of 2 nodes bit for bit as onnxruntime; 1 one code more or less next to a tie"
    model = float_conv((1, 6, 6, 2), random_weights((3, 2, 3, 3), "float32"), domain=NHWC)
    computed = qcgen.compile(model).report
    assert computed.inexact == ("conv1",)
    assert exactness([computed]) == "exact: 0 of 1 node bit for bit as onnxruntime; 1 in float, within a tolerance"


def test_code_is_measured_by_a_compiler_for_the_target(monkeypatch):
    require("arm-none-eabi-gcc", "arm-none-eabi-size")
    model = qlinear_conv((1, 4, 6, 7), random_weights((4, 4, 3, 3)))
    artifact = qcgen.compile(model, name="small", target="cortex-m4", board="stm32f407")
    report = artifact.report
    measured = report.code_bytes
    assert 100 < measured["-Os"] < measured["-O2"] < 3000
    assert report.board.fits
    assert report.board.flash_percent == round(100 * report.flash_bytes / report.board.flash_bytes, 1)
    assert json.loads(report.to_json())["code_bytes"] == measured
    assert 0 < report.stack_bytes["-O2"] < 400
    [node] = report.nodes
    assert sum(node.tables.values()) == node.constant_bytes
    assert f" {node.function}(" in artifact.files["small.c"]
    assert all(f" {name}[" in artifact.files["small.c"] for name in node.tables)
    assert {"small_run", node.function}.intersection(report.function_bytes)
    assert 0.9 * measured["-O2"] < sum(report.function_bytes.values()) <= measured["-O2"]
    assert report.compiler.endswith("-mfpu=fpv4-sp-d16")
    monkeypatch.setattr("shutil.which", lambda _name: None)  # what was measured is not measured again
    travelled = pickle.loads(pickle.dumps(report))
    assert (travelled, travelled.code_bytes) == (report, measured)


def test_what_is_missing_to_measure_code_is_named(monkeypatch):
    model = qlinear_conv((1, 2, 6, 7), random_weights((4, 2, 3, 3)))
    assert how_to_measure(qcgen.compile(model).plan) == "it depends on the core; --target names one"
    monkeypatch.setattr("shutil.which", lambda _name: None)
    artifact = qcgen.compile(model, target="cortex-m4")
    assert artifact.report.code_bytes is None
    assert "apt-get install gcc-arm-none-eabi" in how_to_measure(artifact.plan)
