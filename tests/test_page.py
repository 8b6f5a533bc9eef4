"""The report as a page for a browser: whole, from one file, and drawn to scale."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import onnx
import pytest
from emulated import require_core
from gallery_networks import network_qdq, network_qop
from row_networks import NETWORKS

import qcgen
from qcgen.cli import main
from qcgen.page import PageRun, page
from qcgen.report import Measured

DIGITS = Path(__file__).parent / "data" / "digits" / "digits_qop_s8.onnx"
VOID = {"meta", "br"}
CASES = {
    "whole": lambda: qcgen.compile(network_qop()),
    "floats": lambda: qcgen.compile(network_qdq()),
    "rows": lambda: qcgen.compile(NETWORKS["residual"](), arena="least", layout="nhwc", io="quantized"),
    "moved": lambda: qcgen.compile(NETWORKS["wandering"](), arena="least", layout="nhwc", io="quantized"),
    "pushed": lambda: qcgen.compile(
        NETWORKS["residual"](), arena="least", layout="nhwc", io="quantized", io_memory="arena", input="rows"
    ),
}


class Reader(HTMLParser):
    """Elements that are open, in the order of their tags, and the attributes of all."""

    def __init__(self):
        super().__init__()
        self.open, self.elements = [], []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def read(text):
    reader = Reader()
    reader.feed(text)
    assert reader.open == []
    return reader.elements


@pytest.mark.parametrize("name", CASES)
def test_the_page_is_whole_and_needs_nothing_from_elsewhere(name):
    text = page(CASES[name]().report)
    elements = read(text)
    assert not any(tag in ("script", "link", "img", "iframe") for tag, _ in elements)
    assert not any(key in ("src", "href") for _, attributes in elements for key in attributes)
    assert "url(" not in text
    assert "@import" not in text


@pytest.mark.parametrize("name", CASES)
def test_buffers_lie_in_the_arena_and_rectangles_are_drawn_to_scale(name):
    report = CASES[name]().report
    assert max(each.offset + each.bytes for each in report.buffers) == report.arena_bytes
    assert all(-1 <= each.first <= each.last <= len(report.nodes) for each in report.buffers)
    drawn = [each for tag, each in read(page(report)) if tag == "rect" and each["class"] != "box"]
    assert len(drawn) == len(report.buffers)
    height = 320 / report.arena_bytes
    for buffer, rectangle in zip(report.buffers, drawn, strict=True):
        assert rectangle["class"] == buffer.kind
        assert abs(float(rectangle["height"]) - buffer.bytes * height) < 0.1
        assert abs(320 - float(rectangle["y"]) - (buffer.offset + buffer.bytes) * height) < 0.1


@pytest.mark.parametrize("name", CASES)
def test_tensors_that_are_alive_together_lie_apart_unless_an_output_lies_over_what_its_node_read(name):
    buffers = CASES[name]().report.buffers
    for index, one in enumerate(buffers):
        for other in buffers[:index]:
            common = range(max(one.first, other.first), min(one.last, other.last) + 1)
            if one.offset < other.offset + other.bytes and other.offset < one.offset + one.bytes and common:
                assert len(common) == 1 or name in ("rows", "pushed"), (one, other)


def test_names_of_a_model_are_text_and_no_elements():
    report = qcgen.compile(network_qop()).report
    node = replace(report.nodes[0], name="<script>alert(1)</script>")
    text = page(replace(report, model='"><b>', nodes=(node, *report.nodes[1:])))
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert "<b>" not in text


def test_a_notebook_shows_the_page_in_a_frame_of_its_own():
    artifact = qcgen.compile(network_qop())
    [(tag, attributes)] = read(artifact._repr_html_())
    assert (tag, attributes["srcdoc"]) == ("iframe", page(artifact.report))


def test_the_command_writes_it_and_may_write_it_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("m.onnx").write_bytes(network_qop().SerializeToString())
    for layout in ("model", "nhwc"):
        assert main(["compile", "m.onnx", "--report", "html", "--layout", layout]) == 0
        assert re.search(rf"layout {layout}\b", Path("m_report.html").read_text())


def test_flash_and_helpers_are_told():
    artifact = qcgen.compile(network_qop(), io="quantized")
    report = artifact.report
    assert "code was not measured" in page(report)
    measured = replace(report, constants_bytes=100).with_code(Measured({"-Os": 1, "-O2": 200}, {}, "gcc"))
    assert "300 B in all with -O2" in page(measured)
    [x], [y] = report.inputs, report.outputs
    header = artifact.files[f"{report.name}.h"]
    assert f"{x.helper}(float value)" in header
    assert f"{y.helper}(" in header


def test_instructions_are_bars_of_their_own_where_they_were_counted():
    report = qcgen.compile(network_qop()).report
    assert "instructions" not in page(report)
    cycles = {node.name: 1000 * number for number, node in enumerate(report.nodes)}
    text = page(report, PageRun("a board at 100 MHz", 100, cycles, cycles, 100_000, 400_000, 333))
    assert '<th class="number">instructions</th>' in text
    assert "<strong>4.00 ms</strong><p>400 000 cycles on a board at 100 MHz, an estimate</p>" in text
    assert ", stack 333 B on top" in text
    assert '<td class="number" data-label="time">4.00 ms</td>' in text, "of all nodes together"
    assert f'data-label="share" style="background-size: 0.0% 100%">{(len(report.nodes) - 1) / 4:.1f} %</td>' in text
    first = [each.split('<td class="number"')[1] for each in text.split('<tr class="node">')[1:]]
    percents = [float(re.search(r"background-size: ([\d.]+)%", each)[1]) for each in first]
    last = len(report.nodes) - 1
    assert percents == [round(100 * number / last, 1) for number in range(last + 1)]


def test_bench_writes_the_page_with_instructions(tmp_path, monkeypatch, capsys):
    require_core("cortex-m0")
    monkeypatch.chdir(tmp_path)
    Path("m.onnx").write_bytes(network_qop().SerializeToString())
    command = ["bench", "m.onnx", "--target", "cortex-m0", "--report", "m.html"]
    assert main([*command, "--json"]) == 0
    [function] = json.loads(capsys.readouterr().out)["functions"]
    text = Path("m.html").read_text()
    assert all(f">{node['instructions']:,}<".replace(",", " ") in text for node in function["nodes"])
    Path("m.html").write_text("mine")
    assert main(command) == 1
    assert Path("m.html").read_text() == "mine"


def test_the_graph_has_the_edges_of_the_model_and_the_shares_of_the_nodes():
    report = qcgen.compile(DIGITS, layout="nhwc").report
    numbers = {node.name: index for index, node in enumerate(report.nodes)}
    graph = onnx.load(DIGITS).graph
    makers = {name: node.name for node in graph.node for name in node.output}
    expected = {(numbers[makers[x]], numbers[node.name]) for node in graph.node for x in node.input if x in makers}
    assert len(expected) == len(report.nodes)  # a chain, and one sum that reads two nodes
    elements = read(page(report))
    assert {_ends(each["d"]) for tag, each in elements if tag == "path"} == expected
    boxes = [each for tag, each in elements if tag == "rect" and each["class"] == "box"]
    depths = [float(box["style"].removeprefix("fill-opacity: ")) for box in boxes]
    macs = [node.macs for node in report.nodes]
    assert depths == pytest.approx([0.6 * each / max(macs) for each in macs], abs=0.006)
    assert f"{100 * max(macs) / sum(macs):.1f} %" in page(report)


def _ends(path):
    """The numbers of the nodes at both ends of a line of the graph."""
    words = path.split()
    if "V" in words:
        return (int(words[2]) - 20) // 26, int(words[4]) // 26
    return int(float(words[2]) - 10) // 26, int(float(words[-1]) - 10) // 26


def test_flash_is_split_into_code_of_one_layer_and_code_that_layers_share():
    report = qcgen.compile(DIGITS, layout="nhwc").report
    functions = {
        "m_conv1_quant": 100,
        "m_conv1_quant_window": 20,
        "m_run": 7,
        "m_shared_conv": 50,
        "m_shared_conv_x": 4,
    }
    functions = {name.replace("m_", "digits_qop_s8_", 1): size for name, size in functions.items()}
    nodes = [
        replace(
            node, shared_function="digits_qop_s8_shared_conv" if node.name in ("conv4_quant", "conv5_quant") else None
        )
        for node in report.nodes
    ]
    measured = Measured({"-Os": 180, "-O2": 190}, {}, "gcc", functions)
    text = page(replace(report, nodes=tuple(nodes)).with_code(measured))
    for part, size in (("of one layer each", 120), ("that layers share", 54), ("that calls them", 190 - 120 - 54)):
        assert re.search(
            rf"<td data-label=\"part\">code {part}[^<]*</td><td class=\"number\" data-label=\"size\">{size} B<", text
        )
