"""docs/sweep.py: one function under concurrent.futures and under Dask, and which candidates no other beats."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from models import qlinear_conv, random_weights
from tools import require_modules

SCRIPT = Path(__file__).parents[1] / "docs" / "sweep.py"


@pytest.fixture(scope="module")
def candidates(tmp_path_factory):
    """A layer, and one that cannot be compiled."""
    folder = tmp_path_factory.mktemp("candidates")
    good, bad = (qlinear_conv((1, 2, 4, 4), random_weights((4, 2, 3, 3))) for _ in range(2))
    bad.graph.node[0].op_type = "Unheard"
    for name, model in (("good", good), ("bad", bad)):
        folder.joinpath(f"{name}.onnx").write_bytes(model.SerializeToString())
    return folder


def sweep(folder, *words):
    command = [sys.executable, SCRIPT, folder / "good.onnx", folder / "bad.onnx", "--target", "cortex-m4", *words]
    return subprocess.run([*map(str, command)], capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def printed(candidates):
    return sweep(candidates, "--chart", candidates / "chart.svg")


def test_every_candidate_has_a_row_and_the_front_is_marked_and_drawn(printed, candidates):
    lines = printed.splitlines()[1:]
    assert [line[2:6].strip() for line in lines] == ["good"] * 6 + ["bad"] * 6
    assert "*" in {line[0] for line in lines[:6]}
    assert all(line.startswith("  bad") and "Unheard" in line for line in lines[6:])
    svg = candidates.joinpath("chart.svg").read_text()
    assert svg.count("<circle ") == 6
    assert svg.count('class="front"') == sum(line[0] == "*" for line in lines)


@pytest.mark.all
def test_dask_gives_the_same_table(printed, candidates):
    require_modules("distributed")
    import distributed

    settings = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**settings) as cluster:
        assert sweep(candidates, "--dask", cluster.scheduler_address) == printed


def test_the_front_is_what_no_other_beats():
    script = runpy.run_path(str(SCRIPT))
    row = lambda name, *numbers, target="a": script["Row"](name, target, "", *numbers)  # noqa: E731
    rows = [row("few", 1, 5, 5), row("fast", 5, 5, 1), row("beaten", 2, 5, 5), row("twin", 1, 5, 5)]
    rows += [row("elsewhere", 9, 9, 9, target="b"), script["Row"]("no", "a", "", problem="why")]
    assert [each.name for each in script["front"](rows)] == ["few", "fast", "twin", "elsewhere"]
