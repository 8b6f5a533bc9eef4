"""Certificates hold whatever the interpreter's flags: a number that is wrong is refused, and nothing claims it."""

import ast
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from marks import some_at_first

import qcgen
from qcgen.render import render

ROOT = Path(__file__).parents[1]
DIGITS = ROOT / "tests/data/digits/digits_qop_u8.onnx"

PLANTED = """
import sys
from dataclasses import replace

from qcgen import requantize
from qcgen.cli import main

honest = requantize._cheapest
requantize._cheapest = lambda *given: replace(found := honest(*given), multiplier=found.multiplier * 2)
sys.exit(main(["compile", *sys.argv[1:]]))
"""


@pytest.mark.parametrize("flags", some_at_first([("-O",), (), ("-OO",)]), ids=" ".join)
def test_a_wrong_multiplier_is_refused_whatever_flags_python_has(tmp_path, flags):
    command = [sys.executable, *flags, "-c", PLANTED, str(DIGITS), "-o", str(tmp_path)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert run.returncode == 1
    assert "not proved: the requantization is exact" in run.stderr
    assert "defect of qcgen" in run.stderr
    assert not list(tmp_path.iterdir())


def is_narrowing(condition: ast.expr) -> bool:
    """Whether a condition tells the type checker what something is: isinstance(...), ... is not None, or such."""
    match condition:
        case ast.Call(func=ast.Name(id="isinstance")):
            return True
        case ast.Compare(ops=[ast.IsNot() | ast.Is()], comparators=[ast.Constant(value=None)]):
            return True
        case ast.BoolOp(values=values):
            return all(map(is_narrowing, values))
    return False


@pytest.mark.parametrize("package", ["requantize", "orion", "kernels", "plan", "intervals", "simplify", "render"])
def test_no_assert_carries_a_proof(package):
    for path in (ROOT / "qcgen" / package).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Assert):
                assert is_narrowing(node.test), f"{path}:{node.lineno} is gone under python -O"


def test_the_head_claims_nothing_that_was_not_compared():
    plan = qcgen.compile(DIGITS).plan
    steps = [replace(call, certificate=replace(call.certificate, comparisons=0)) for call in plan.calls]
    [head] = [text[: text.index("*/")] for text in render(replace(plan, steps=steps)).values() if "accumulator" in text]
    assert "equal to" not in head


@pytest.mark.parametrize("family", ["arm_dsp", "arm_mve", "scalar"])
def test_every_kernel_with_an_output_step_of_its_own_certifies_that(family):
    """``packed.certificate`` is that of the exact function alone."""
    for path in (ROOT / "qcgen/kernels" / family).glob("*.py"):
        assert path.name == "output.py" or "packed.certificate" not in path.read_text(encoding="utf-8"), path
