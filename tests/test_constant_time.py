"""--constant-time: as many instructions for every input, by the linked code where it can be followed, or by counts."""

from __future__ import annotations

import re
import subprocess
from functools import cache

import numpy as np
import pytest
from emulated import require_core
from gallery import ENTRIES
from marks import some_at_first
from models import MICROSOFT, graph_model, node_model
from onnx import helper
from packages import DIGITS
from row_networks import NETWORKS
from tools import require, require_modules

import qcgen
from qcgen.cli import main
from qcgen.emulate import bound, end_feeds, measure
from qcgen.errors import ModelRejected
from qcgen.fallbacks import SAME_STEPS
from qcgen.kernels.epilogue import Output
from qcgen.render import library
from qcgen.verification import verify
from tests.bench.rtl.simulator import run


def pair(op_type, a, b, y):
    """A sum or product of codes by scales and zero points."""
    names = ["a", "sa", "za", "b", "sb", "zb", "sy", "zy"]
    numbers = {f"s{k}": np.float32(scale) for k, (scale, _) in zip("aby", (a, b, y), strict=True)}
    zeros = {f"z{k}": np.int8(zero) for k, (_, zero) in zip("aby", (a, b, y), strict=True)}
    node = helper.make_node(op_type, names, ["y"], name="pair", domain=MICROSOFT)
    x = ("int8", (1, 4, 6, 6))
    return graph_model([node], {"a": x, "b": x}, {"y": None}, numbers | zeros, opsets={MICROSOFT: 1})


LOW, HIGH = np.array(-50, np.int8), np.array(90, np.int8)
ENTRY = {entry.name: entry for entry in ENTRIES}
MODELS = {
    "exceptions": lambda: pair("QLinearMul", (0.07, 79), (0.1, 117), (0.09, 62)),
    "exceptions_m3": lambda: pair("QLinearMul", (0.07, 79), (0.1, 117), (0.09, 62)),
    "clip": lambda: node_model("Clip", {"x": ("int8", (1, 4, 6, 6)), "low": LOW, "high": HIGH}),
    "digits": lambda: DIGITS.read_bytes(),
    **{name: ENTRY[name].model for name in ENTRY},
    **NETWORKS,
}
PROVED = (
    *"exceptions exceptions_m3 clip digits residual separable enlarged conv3x3_int8 conv_uint8_nchw".split(),
    *"depthwise_nchw conv3d conv1d_causal guard_band wide constant_time_cortex_m4 conv_cortex_m4".split(),
    *"dense_cortex_m4 conv_4_bits_cortex_m4 short_window_cortex_m4".split(),
    *"depthwise_cortex_m4 depthwise_rows_cortex_m4 depthwise_planes_cortex_m4 depthwise_cortex_m3".split(),
    *"winograd_cortex_m3 dense_cortex_m3 matmul_cortex_m4 network_qop sum_and_mean_cortex_m4 attention".split(),
    *"reductions sizes_cortex_m4".split(),
)
"""Models all of whose code can be followed for a Cortex-M4 or, where their names say so, for a Cortex-M3."""

COUNTED = ("winograd_cortex_m4", "conv_cortex_m3", "network_within_flash", "pooled", "expanding")
"""Models with loops that cannot be followed; ``expanding`` and ``pooled`` are compiled for speed."""


@cache
def artifact(name, core=""):
    entry = ENTRY.get(name)
    options = dict(entry.options) if entry else {"layout": "nhwc"}
    if name in ("pooled", "expanding"):
        options["optimize"] = "speed"
    own = "cortex-m3" if name.endswith("_m3") else "cortex-m4"
    options |= {"target": core or own, "constant_time": True, "io": "quantized"}
    model = MODELS[name]
    return qcgen.compile(model() if callable(model) else model, name=name, **options)


@cache
def bounds(name, core="", level="-O2"):
    each = artifact(name, core)
    require_core(each.plan.options.target, counting=True)
    return bound(each, end_feeds(each.plan, 0), flags=(level,))


@pytest.mark.parametrize("name", some_at_first(PROVED, "guard_band"))
def test_every_input_takes_as_many_instructions(name):
    found = bounds(name)
    assert {found.least, found.most} == set(found.counted)


@pytest.mark.all
@pytest.mark.parametrize("name", some_at_first(COUNTED, "network_within_flash"))
def test_extreme_and_random_inputs_take_as_many_instructions_where_loops_are_not_followed(name):
    found = bounds(name)
    assert found.most is None
    assert len(set(found.counted)) == 1
    assert [node for node in found.nodes if node.most is not None and node.least != node.most] == []


@pytest.mark.all
@pytest.mark.parametrize("core", ["cortex-m7", "cortex-m33"])
@pytest.mark.parametrize("level", some_at_first(["-O2", "-O3", "-Os"]))
def test_compilers_for_other_cores_choose_without_branches_too(core, level):
    for name in ("guard_band", "digits"):
        found = bounds(name, core, level)
        assert {found.least, found.most} == set(found.counted)


@pytest.mark.all
@pytest.mark.parametrize(
    "name", some_at_first(("digits", "guard_band", "residual", "attention", "exceptions"), "digits")
)
def test_rv32imc_counts_as_many_instructions_where_compilers_choose_by_branches(name):
    each = artifact(name, "rv32imc")
    require_core("rv32imc", counting=True)
    counted = {measure(each, feeds, flags=("-O2",)).instructions for feeds in end_feeds(each.plan, 0)}
    assert len(counted) == 1


@pytest.mark.all
@pytest.mark.parametrize("core", ["ibex", "cv32e40p"])
def test_the_rtl_takes_as_many_cycles_for_extremes(core):
    require("verilator", "riscv64-unknown-elf-gcc")
    require_modules("pythondata_cpu_ibex", "pythondata_cpu_cv32e40p")
    for options in ({"constant_time": True}, {}):
        each = qcgen.compile(
            MODELS["digits"](), name="digits", target="rv32imc", layout="nhwc", io="quantized", **options
        )
        cycles = {run(core, each, feeds).cycles for feeds in end_feeds(each.plan, 0)[:4]}
        assert (len(cycles) == 1) == bool(options)


@pytest.mark.all
def test_each_kernel_that_is_said_to_take_the_same_steps_is_counted():
    shown = {call.kernel for name in (*PROVED, *COUNTED) for call in artifact(name).plan.calls}
    said = {f"{family}/{name}" for family, names in SAME_STEPS.items() for name in names.split()}
    # Cores whose kernels are their own leave these to portable C for weights that they cannot lay out.
    assert said - shown <= {"portable/depthwise_nhwc", "portable/pointwise"}
    assert shown <= said


@pytest.mark.parametrize("name", ["guard_band", "exceptions", "attention"])
def test_the_c_computes_what_the_reference_computes(name):
    verification = verify(artifact(name), cases=4)
    assert verification.differing == 0, verification.first


def test_a_guard_band_that_is_tested_is_found(monkeypatch):
    monkeypatch.setattr(Output, "is_always", False, raising=False)
    each = qcgen.compile(ENTRY["guard_band"].content(), name="tested", target="cortex-m4")
    require_core("cortex-m4", counting=True)
    found = bound(each, end_feeds(each.plan, 0), flags=("-O2",))
    assert found.least < (found.most or 0)


@pytest.mark.parametrize("core", ["portable", "host", "cortex-m0", "cortex-m55"])
def test_cores_whose_code_depends_on_data_otherwise_are_refused(core):
    with pytest.raises(ModelRejected, match=r"constant_time=True is not for target=.*\n *name one of cortex-m3, "):
        qcgen.compile(MODELS["digits"](), target=core, constant_time=True)


def test_output_steps_that_no_test_counts_are_refused():
    for name, numerics in (("network_tflite", "tflm"), ("network_16_bits", "onnxruntime")):
        with pytest.raises(ModelRejected, match="may take more instructions for some inputs"):
            qcgen.compile(ENTRY[name].content(), target="rv32imc", constant_time=True, numerics=numerics)


LIMITS = """
#include <stdint.h>
LIBRARY
int main(void)
{
    static const int32_t all[] = {INT32_MIN, INT32_MIN + 1, -129, -128, -1, 0, 1, 127, 128, INT32_MAX - 1, INT32_MAX};
    for (int i = 0; i < 11; i++) {
        for (int j = 0; j < 11; j++) {
            if (t_at_least(all[i], all[j]) != (all[i] > all[j] ? all[i] : all[j])
                || t_at_most(all[i], all[j]) != (all[i] < all[j] ? all[i] : all[j])) {
                return 1;
            }
        }
    }
    return 0;
}
"""


def test_bounds_without_branches_hold_for_all_numbers(tmp_path):
    require("gcc")
    text = "".join(library("").needed([], "t", ["at_least", "at_most"]))
    (tmp_path / "limits.c").write_text(LIMITS.replace("LIBRARY", text))
    subprocess.run(["gcc", "-fsanitize=undefined", "-fno-sanitize-recover", "limits.c"], cwd=tmp_path, check=True)
    subprocess.run([tmp_path / "a.out"], check=True)


def test_operators_that_take_longer_for_some_inputs_are_refused_all_at_once(capsys):
    model = str(DIGITS.with_name("digits_qdq_s8.onnx"))
    assert main(["compile", model, "--target", "cortex-m4", "--constant-time"]) == 1
    text = capsys.readouterr().err
    assert "node 'image_QuantizeLinear' (QuantizeLinear): portable/quantize may take more instructions" in text
    assert "--io quantized leaves the conversion to the caller" in text
    assert len(re.findall("may take more instructions", text)) == 2
