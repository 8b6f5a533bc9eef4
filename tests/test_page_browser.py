"""The report's page in a browser: nothing is wider than the screen, on a phone and on a desk, light and dark.

Each page stands in a frame as wide as the screen, and a script outside of it measures what lies within.
"""

import json
import re
import subprocess
from dataclasses import replace
from html import escape
from pathlib import Path

import pytest
from marks import some_at_first
from tools import require

import qcgen
from qcgen.page import PageRun, page
from qcgen.report import Measured, Report

DIGITS = Path(__file__).parent / "data" / "digits" / "digits_qop_s8.onnx"
LONG = "StatefulPartitionedCall/functional_1_1/sequential_2/{0}_1/BiasAdd;StatefulPartitionedCall/{0}_1"
WIDTHS = (390, 1280)
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
SCHEMES = {"light": 1, "dark": 0}
"""What Chromium calls them in its settings."""

SCRIPT = """
addEventListener("load", () => {
  const found = [...document.querySelectorAll("iframe")].map(frame => {
    const page = frame.contentDocument, width = frame.clientWidth, map = e => e.closest("svg");
    const all = [...page.querySelectorAll("body *")].filter(e => !map(e) && e.getBoundingClientRect().width);
    return {
      dark: frame.contentWindow.matchMedia("(prefers-color-scheme: dark)").matches,
      whole: page.documentElement.scrollWidth - width,
      wide: all.filter(e => e.getBoundingClientRect().right > width + 1 || e.getBoundingClientRect().left < -1)
        .map(e => e.tagName + "." + e.className + ": " + e.textContent.slice(0, 40)),
      cut: [...page.querySelectorAll(".tile, td, dd")].filter(e => e.scrollWidth > e.clientWidth + 1)
        .map(e => e.tagName + ": " + e.textContent.slice(0, 40)),
    };
  });
  document.getElementById("found").textContent = JSON.stringify(found);
});
"""


def named(report: Report, name: str) -> Report:
    """The report with other names of nodes."""
    buffers = tuple(replace(each, name=name.format(each.name) if each.name else "") for each in report.buffers)
    ports = {
        what: tuple(replace(port, name=name.format(port.name)) for port in getattr(report, what))
        for what in ("inputs", "outputs")
    }
    nodes = tuple(
        replace(node, name=name.format(node.name), reads=tuple(map(name.format, node.reads))) for node in report.nodes
    )
    return replace(report, nodes=nodes, buffers=buffers, **ports)


def pages() -> list[str]:
    """With short names and those of tf2onnx, counted on a core and not."""
    report = qcgen.compile(DIGITS, target="cortex-m4", layout="nhwc", board="stm32f407").report
    report = report.with_code(Measured({"-Os": 8380, "-O2": 8916}, {}, "gcc"))
    found = []
    for name in ("{0}", LONG):
        own = named(report, name)
        counts = {node.name: node.macs + 2000 for node in own.nodes}
        whole = sum(counts.values())
        found += [page(own), page(own, PageRun("stm32f407 at 168 MHz", 168, counts, counts, whole, whole, 228))]
    return found


def measured(scheme: str, folder: Path) -> list[dict[str, object]]:
    """What the script finds in every page at every width."""
    frames = [
        f'<iframe srcdoc="{escape(text)}" style="border: 0; width: {width}px; height: 900px"></iframe>'
        for text in pages()
        for width in WIDTHS
    ]
    path = folder / "frames.html"
    path.write_text(f"<!doctype html><script>{SCRIPT}</script>{''.join(frames)}<pre id=found></pre>")
    settings = f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}"
    command = ["chromium", *FLAGS, settings, f"--user-data-dir={folder / 'user'}", "--dump-dom", path.as_uri()]
    text = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout
    [found] = re.findall(r'<pre id="found">(.*?)</pre>', text, re.DOTALL)
    return json.loads(found.replace("&gt;", ">").replace("&lt;", "<").replace("&amp;", "&"))


@pytest.mark.parametrize("scheme", some_at_first(SCHEMES))
def test_nothing_is_wider_than_the_screen(scheme, tmp_path):
    require("chromium")
    found = measured(scheme, tmp_path)
    assert len(found) == 4 * len(WIDTHS)
    for each in found:
        assert each == {"dark": scheme == "dark", "whole": each["whole"], "wide": [], "cut": []}
        assert each["whole"] <= 0
