"""Output steps driven from both sides in the C: right kernels are right there, wrong ones are found and named."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pytest
from batch import require
from gallery import ENTRIES
from marks import share_at_first, some_at_first
from models import node_model
from network_cases import UNITS, codes, quantized
from network_units import Unit, artifact

import qcgen
from qcgen.cli import main
from qcgen.ir.program import (
    GlobalAveragePool,
    InstanceNorm,
    LayerNorm,
    Quantize,
    QuantizedBinary,
    RoundOnce,
    Softmax,
    inputs_of,
)
from qcgen.ir.types import DType
from qcgen.plan.arrange import Arranged
from qcgen.verification import verify
from qcgen.verification.nodes import Nodes
from qcgen.verification.running import Builder
from qcgen.verification.steps import DrivenSteps, drive_steps
from qcgen.verification.steps.groups import _met

GALLERY = {entry.name: entry for entry in ENTRIES}
BY_NAME = {unit.name: unit for unit in UNITS}


@dataclass(frozen=True)
class UnitNodes(Nodes):
    """The only node of a unit, whose tensors lie in the unit's orders."""

    orders: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @cached_property
    def _arranged(self):
        [op] = self.artifact.planned.operators
        return (Arranged(op, tuple(self.orders[x.name] for x in inputs_of(op)), self.orders[op.y.name]),)


def driven(unit: Unit, folder) -> DrivenSteps:
    orders = dict(zip((x.name for x in inputs_of(unit.op)), unit.setting.xs, strict=True))
    nodes = UnitNodes(artifact(unit), Builder(("-O0",)), folder / unit.name, orders=orders | {"y": unit.setting.y})
    return drive_steps(nodes, 0)


def layer_norm(name: str, length: int, gain: float, about: float, y_zero: int, x_scale: float = 0.0371) -> Unit:
    """A normalization to codes of the whole type."""
    rng = np.random.RandomState(1)
    x = quantized("x", DType.INT8, (12, length), x_scale, -3)
    y = quantized("y", DType.INT8, x.shape, 0.02, y_zero)
    scale, bias = gain * rng.normal(1, 0.3, length), about + 0.2 * rng.normal(0, 1, length)
    op = LayerNorm("norm", "LayerNormalization", x, y, scale.astype("f4"), bias.astype("f4"), float(np.float32(1e-5)))
    return Unit(name, op, (codes(x.shape, DType.INT8),))


NORMAL = layer_norm("normal", 33, 1.0, 0.0, -10, 0.0213)
FLAT = layer_norm("flat", 16, 0.01, 4.8, -128)  # hardly any slope: what is added is all that float32 rounds


def mean_of_four(name: str, multiplier: int) -> Unit:
    """A mean of 16 bits, rounded once: the sum times the multiplier over 2^31."""
    x = quantized("x", DType.INT16, (2, 6, 2, 2), 0.01, 0)
    y = quantized("y", DType.INT16, (2, 6, 1, 1), 0.01, 0)
    by = RoundOnce(np.array([multiplier]), np.array([31]), 0, -32768, 32767)
    op = GlobalAveragePool("mean", "GlobalAveragePool", x, y, 1, 4, by)
    return Unit(name, op, (codes(x.shape, DType.INT16),))


DYADIC = mean_of_four("dyadic", 2**29)
FAINT = replace(BY_NAME["mean_image_u8_rank4_plain"], name="faint")  # all of its outputs are one code
FAINT = replace(FAINT, op=replace(FAINT.op, requantize=replace(FAINT.op.requantize, scale=np.array([1e-9], "f4"))))

DRIVEN = [
    *[unit for unit in UNITS if not isinstance(unit.op, Softmax | LayerNorm | InstanceNorm)][::3],
    *[unit for unit in UNITS if isinstance(unit.op, Softmax | LayerNorm | InstanceNorm)][::6],
]
"""Searches for rows take most of the time."""


# --- right kernels


@pytest.mark.parametrize("name", share_at_first([unit.name for unit in DRIVEN], 36))
def test_every_output_beside_a_step_is_the_references(name, tmp_path):
    require("gcc")
    assert driven(BY_NAME[name], tmp_path).wrong is None


ALL_SIDES = (
    "lookup_s8_u8", "quantize_u8_0_0371_0", "convert_float_to_float16", "add_s8_general", "mul_u8_general",
    "wide_sub_to_bytes", "mean_image_u8_rank4_plain", "average_padded_u8_last_1_ties", "matmul_even_s8_u8",
    "channel_lookup_lines_s8_u8_last", "wide_mean_int16_7_first",
)  # fmt: skip


def test_a_node_without_steps_is_called_all_the_same(tmp_path):
    require("gcc")
    [node] = driven(FAINT, tmp_path).nodes
    assert (node.wrong, node.sides, node.sides_of) == (None, 2, 2)


@pytest.mark.parametrize("name", ALL_SIDES)
def test_all_sides_are_reached_where_they_can_be_computed(name, tmp_path):
    require("gcc")
    [node] = driven(BY_NAME[name], tmp_path).nodes
    assert node.wrong is None
    assert node.sides == node.sides_of > 100


@pytest.mark.parametrize("unit", [NORMAL, BY_NAME["softmax_u8_0_1_10_256"]], ids=["normalization", "softmax"])
def test_rows_come_close_to_most_sides(unit, tmp_path):
    require("gcc")
    [node] = driven(unit, tmp_path).nodes
    assert node.wrong is None
    assert node.sides > 0.8 * node.sides_of > 300


@pytest.mark.parametrize("code", [-128, 127])
def test_a_row_in_which_no_element_can_be_raised_or_lowered_is_left_out(code):
    """verify ended with an IndexError where all elements that it would have moved were -128, or 127."""
    op = layer_norm("long", 300, 1.0, 0.0, 0).op
    row = np.full(300, code, np.int8)
    row[:4] = 0
    assert [_met(op, row, np.random.default_rng(seed)).shape[1] for seed in range(9)] == [300] * 9


# --- wrong kernels

MUTANTS = {
    "QuantizeLinear clamped one too low": (
        "quantize_s8_0_5_0", "library/float32.h", "above < (float)high ? above : (float)high",
        "above < (float)(high - 1) ? above : (float)(high - 1)",
    ),
    "ties of softmax rounded up": (
        "softmax_u8_0_1_10_500", "library/softmax.h", "+ ((uint64_t)low & 1u)", "+ 1u",
    ),
    "half the window of ties of softmax": (
        "softmax_u8_0_1_10_500", "library/softmax.h", "((share + 1u) & ((UINT32_C(1) << 12) - 1u)) < 2u",
        "(share & ((UINT32_C(1) << 12) - 1u)) < 1u",
    ),
    "an eighth of the base of a normalization's guard band": (
        FLAT, "library/layer_norm.h", "base = line->base +", "base = line->base / 8 +",
    ),
    "ties of what codes stand for rounded down": (
        NORMAL, "library/layer_norm.h", "|| (2 * rest == UINT32_C(1) << drop && (kept & 1) != 0)", "",
    ),
    "the highest code of 16 bits one too low": (
        DYADIC, "library/integers.h", "int32_t high)\n{\n    return value < low ? low : value > high ? high : value;",
        "int32_t high)\n{\n    return value < low ? low : value > high - 1 ? high - 1 : value;",
    ),
    "ties of 16 bits rounded up": (
        DYADIC, "library/integers.h", "(INT64_C(1) << (shift - 1)) - 1 + ((product >> shift) & 1)",
        "(INT64_C(1) << (shift - 1))",
    ),
    "ties of products of 16 bits rounded up": (
        "wide_mul_int16", "library/float32.h", "rintf(above < (float)high ? above : (float)high)",
        "floorf((above < (float)high ? above : (float)high) + 0.5f)",
    ),
    "pairs of codes beside a line, looked up wrongly": (
        "mul_s8_wide", "library/pairs.h", "half - 1] - pair)", "half - 1] - pair - 1)",
    ),
    "half the guard band of a mean": (
        "average_square_s8_first_0_ties", "library/code_pools.h", "<= 2 * mean->guard", "< mean->guard",
    ),
    "the lowest code of a normalization of channels": (
        "instance_norm_s8_25_first", "library/instance_norm.h",
        "code < layer->y_low ? layer->y_low", "code < layer->y_low + 1 ? layer->y_low + 1",
    ),
    "ties of float16 rounded down": (
        "convert_float_to_float16", "library/float32.h", "0xfff + (magnitude >> 13 & 1)", "0xfff",
    ),
}  # fmt: skip


@pytest.mark.parametrize("mutant", share_at_first(list(MUTANTS)))
def test_a_bug_in_an_output_step_is_found(mutant, mutate, tmp_path):
    unit, name, old, new = MUTANTS[mutant]
    require("gcc")
    mutate(name, old, new)
    assert driven(BY_NAME.get(unit, unit) if isinstance(unit, str) else unit, tmp_path).wrong is not None


# --- networks


@pytest.mark.parametrize("name", some_at_first(["network_qop", "network_in_rows", "network_16_bits", "layer_norm"]))
def test_every_other_node_of_a_network_is_driven(name, tmp_path):
    require("gcc")
    artifact = GALLERY[name].compile()
    steps = drive_steps(Nodes(artifact, Builder(("-O0",)), tmp_path / "nodes"), 0)
    kinds = Quantize | QuantizedBinary | Softmax | LayerNorm
    wanted = {op.name for op in artifact.planned.operators if isinstance(op, kinds)}
    assert wanted <= {node.node for node in steps.nodes}
    assert steps.wrong is None


def quantize_model():
    inputs = {"x": ("float", (2, 5)), "scale": np.array(0.1, np.float32), "zero": np.array(3, np.int8)}
    return node_model("QuantizeLinear", inputs)


def test_verify_says_what_was_driven(tmp_path, capsys):
    require("gcc")
    model = tmp_path / "m.onnx"
    model.write_bytes(quantize_model().SerializeToString())
    assert main(["verify", str(model)]) == 0
    assert "steps of 1 other node: 0 wrong on 103 inputs; driven to 510 of 510 sides" in capsys.readouterr().out
    assert main(["verify", str(model), "--json"]) == 0
    [node] = json.loads(capsys.readouterr().out)["nodes"]
    [steps] = node["steps"]["nodes"]
    assert (steps["sides"], steps["sides_of"], steps["wrong"]) == (510, 510, None)
    assert main(["verify", str(model), "--no-sums"]) == 0
    assert "other node" not in capsys.readouterr().out


def test_verify_fails_and_names_the_node_if_a_code_beside_a_step_is_wrong(mutate, tmp_path, capsys):
    require("gcc")
    within = "above < (float)high ? above : (float)high"
    mutate("library/float32.h", f"rintf({within})", f"floorf(({within}) + 0.5f)")
    model = tmp_path / "m.onnx"
    model.write_bytes(quantize_model().SerializeToString())
    assert main(["verify", str(model)]) == 1
    text = capsys.readouterr().out
    assert "first wrong code: numbers beside steps, of output [" in text
    result = verify(qcgen.compile(quantize_model()), cases=1)
    assert not result.is_right
