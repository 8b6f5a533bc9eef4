"""qcgen compare: what differs between two reports."""

import json
from pathlib import Path

import pytest
from gallery_networks import network_qop

import qcgen
from qcgen.cli import main


@pytest.fixture
def reports(tmp_path, monkeypatch):
    """Two reports of one network, the second without simplification, and for another layout."""
    monkeypatch.chdir(tmp_path)
    found = []
    for name, options in (("a.json", {}), ("b.json", {"layout": "nhwc", "target": "cortex-m4"})):
        report = qcgen.compile(network_qop(), name="net", **options).report.with_code(None)
        Path(name).write_text(report.to_json())
        found.append(report)
    return found


def test_figures_options_and_nodes_that_differ_are_shown(reports, capsys):
    before, after = reports
    assert main(["compare", "a.json", "b.json"]) == 0
    out = capsys.readouterr().out
    rows = {line.split("  ")[0]: line.split() for line in out.splitlines() if line}
    change = after.constants_bytes - before.constants_bytes
    assert change
    assert f"{change:+,}".replace(",", " ") in out
    assert rows["layout"] == ["layout", "model", "nhwc"]
    different = {one.name for one, other in zip(before.nodes, after.nodes, strict=True) if one.kernel != other.kernel}
    assert different
    for name in different:
        assert any(line.startswith(name) and "arm_dsp/" in line for line in out.splitlines())


@pytest.mark.usefixtures("reports")
def test_a_report_beside_itself_has_no_differing_node(capsys):
    assert main(["compare", "a.json", "a.json"]) == 0
    out = capsys.readouterr().out
    assert ": 0 of " in out.splitlines()[-1]
    assert "%" not in out


@pytest.mark.parametrize("text", ["", "[]", json.dumps({"name": "x"})])
@pytest.mark.usefixtures("reports")
def test_what_is_no_report_is_one_line(text, capsys):
    Path("c.json").write_text(text)
    assert main(["compare", "a.json", "c.json"]) == 1
    assert capsys.readouterr().err.startswith("qcgen: c.json: it is no ")
    assert main(["compare", "a.json", "missing.json"]) == 1
    assert capsys.readouterr().err == "qcgen: missing.json: No such file or directory\n"
