"""A core is a row: a new one gets the kernels that its features and registers admit, whatever it is called."""

from dataclasses import replace

import pytest
from cases import CASES
from cases_arm_mve import CONVOLUTIONS
from cases_scalar import EXTREMES, SHAPES
from cases_scalar_planes import DEPTHWISE_EXTREMES, DEPTHWISE_SHAPES
from emulated import require_core, wrong_outputs
from subjects import on_core

from qcgen.compiler import compile_graph
from qcgen.cores import TARGETS
from qcgen.ir.plan import Options

SCALAR = (*EXTREMES[::4], *SHAPES[::12], *DEPTHWISE_EXTREMES[::4], *DEPTHWISE_SHAPES[::12])
BY_CORE = {"cortex-m23": SCALAR, "cortex-m85": (*CONVOLUTIONS[::12], *CASES[::40]), "scalar32": SCALAR}
SAME = {"cortex-m23": ("cortex-m0", SCALAR), "cortex-m85": ("cortex-m55", CONVOLUTIONS[3::12])}


@pytest.mark.all
@pytest.mark.parametrize("flags", ["-Os", "-O2"])
@pytest.mark.parametrize("core", BY_CORE)
def test_outputs_equal_the_reference(core, flags, tmp_path):
    require_core(core, counting=False)
    assert not wrong_outputs(core, on_core(BY_CORE[core], core), tmp_path, flags=(flags,))


def body(case, optimize, core):
    """The C for a core behind its head."""
    options = Options(target=core, layout="nhwc", optimize=optimize, numerics=case.numerics)
    text = compile_graph(case.graph, options, "m", "m.onnx", case.node).files["m.c"]
    return text[text.index("M_CONST_ATTR") :]


@pytest.mark.parametrize("core", SAME)
def test_a_core_like_another_gets_its_c(core):
    other, cases = SAME[core]
    assert [each.name for each in cases if body(each, "size", core) != body(each, "size", other)] == []


def test_scalar32_has_no_assembly():
    texts = [body(case, aim, "scalar32") for case in SCALAR for aim in ("size", "speed")]
    assert any("scalar_group" in text for text in texts)
    assert not [text for text in texts if "__ARM" in text or "__riscv" in text]


@pytest.mark.parametrize("core", ["cortex-m0", "cortex-m3", "rv32imc"])
def test_registers_decide_not_the_name(core, monkeypatch):
    monkeypatch.setitem(TARGETS, "another", replace(TARGETS[core], name="another"))
    for case in (*SHAPES[::20], *DEPTHWISE_SHAPES[::20]):
        assert body(case, "size", "another") == body(case, "size", core)
