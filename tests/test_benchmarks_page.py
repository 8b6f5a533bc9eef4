"""docs/benchmarks.md has the figures of today's code: some of its layers are counted anew on every core."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from bench import cortex_sequences
from bench.cortex import CORES, Task, measured
from bench.cortex_text import OPTIMIZE
from bench.layers import LAYERS
from emulated import require_core
from figures import number, text_table
from tools import require_modules

from qcgen.cores import TARGETS
from qcgen.cross import succeed

pytestmark = pytest.mark.all

PAGE = Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md"

CHOSEN = ("ic_conv_32x32x16_32_1x1s2", "kws_conv_49x10x1_64_10x4s2", "kws_dw_25x5x64_3x3s1", "fc_640_128")
"""A product of matrices for each pixel, a window, a depthwise layer and a dense one, none of which takes long."""

WITHIN = 0.01
"""By how much counts may differ from those of the page, which is not written anew for less."""

COLUMNS = {"size": 5, "speed": 8}
"""Of instructions, by --optimize."""


def written(core: str, layer: str, optimize: str) -> float:
    """The page's instructions of a layer."""
    section = PAGE.read_text().split(f"### {TARGETS[core].description}\n")[1].split("\n### ")[0]
    [line] = [line for line in section.splitlines() if line.startswith(f"{layer} ")]
    return number(re.split(r"\s{2,}", line)[COLUMNS[optimize]])


def require_its_compiler(core: str) -> None:
    """Skips the test where another version of the compiler is installed, or none."""
    require_core(core)
    compiler = TARGETS[core].compiler
    version = succeed([compiler, "--version"], PAGE.parent).splitlines()[0].split(" ", 1)[1]
    if f"{compiler} {version}" not in PAGE.read_text():
        pytest.skip(f"the page was not written with {compiler} {version}")


@pytest.mark.parametrize("core", CORES)
def test_the_page_has_the_instructions_of_todays_code(core):
    require_its_compiler(core)
    others = {}
    for layer in (layer for layer in LAYERS if layer.name in CHOSEN):
        for optimize in OPTIMIZE:
            found = measured(Task(core, layer, optimize, "gcc", ("-O3",)))
            page = written(core, layer.name, optimize)
            if found.wrong or abs(found.instructions / page - 1) > WITHIN:
                others[layer.name, optimize] = f"{found.instructions:,}, not {page:,.0f}; {found.wrong} wrong outputs"
    assert others == {}, "what make bench-cortex --write would change"


@pytest.mark.parametrize("core", ["cortex-m0", "cortex-m4"])
def test_the_page_has_the_instructions_of_a_transformer_in_portable_c_and_in_the_cores(core):
    require_modules("onnxruntime")
    require_its_compiler(core)
    name, title = next(iter(cortex_sequences.NETWORKS.items()))
    rows = text_table(PAGE.read_text(), "network              core              MAC")
    [row] = [row for row in rows if (row["network"], row["core"]) == (title, core)]
    found = cortex_sequences.measured(cortex_sequences.Task(name, core), ("-O3",), "gcc")
    assert not found.wrong
    for form, measurement in found.found.items():
        assert measurement.instructions == pytest.approx(number(row[form]), rel=WITHIN), form
