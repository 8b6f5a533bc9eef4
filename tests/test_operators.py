"""An operator is a row in the table of every layer: the tables agree, and some model reaches every row and class."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, get_args

import numpy as np
import pytest
from fuzz.operators import NODES, operator_models
from models import NHWC, graph_model, node_model, qlinear_conv, random_weights
from onnx import ModelProto, helper
from tflite_models import MODELS
from tflite_states import STREAMS
from tflite_wide import WIDE_MODELS

import qcgen
from qcgen import check, infer, lower
from qcgen.check.specs import SPECS, signature_of
from qcgen.compiler import read
from qcgen.geometry import CONVOLUTIONS
from qcgen.ir.program import FloatOutput, Operator, Program
from qcgen.reference import evaluate
from qcgen.rewrite import FOLDS_AT_FIRST
from qcgen.rewrite.fold_constants import FOLDS

Key = tuple[str, str]


def shape_of_x() -> ModelProto:
    """x added to its own number of rows, modulo 7."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Constant", [], ["first"], value_ints=[0]),
        helper.make_node("Gather", ["shape", "first"], ["rows"]),
        helper.make_node("Constant", [], ["seven"], value_int=7),
        helper.make_node("Mod", ["rows", "seven"], ["rest"]),
        helper.make_node("Cast", ["rest"], ["number"], to=1),
        helper.make_node("Add", ["x", "number"], ["y"]),
    ]
    return graph_model(nodes, {"x": ("float", (2, 3))}, {"y": None})


MORE: Mapping[str, Callable[[], ModelProto]] = {
    "Shape, Constant": shape_of_x,
    "NHWC QLinearConv": partial(qlinear_conv, (1, 4, 5, 2), random_weights((3, 2, 2, 2)), domain=NHWC),
}
"""Operators that are known only for what becomes of them."""


def of_constants(key: Key) -> ModelProto:
    """The model of an operator with ones in place of its inputs."""
    domain, op_type = key
    operands, attributes = NODES[key]
    types = {"float": np.float32}
    constants = {
        name: np.ones(given[1], types.get(given[0], given[0])) if isinstance(given, tuple) else given
        for name, given in operands.items()
    }
    return node_model(op_type, constants, domain=domain, **attributes)


@dataclass
class Reached:
    """The rows of each table that were asked for, and the classes of operators that programs had."""

    rows: dict[str, set[Key]] = field(default_factory=lambda: {name: set() for name in TABLES})
    classes: set[type] = field(default_factory=set)
    programs: dict[str, Program] = field(default_factory=dict)


TABLES: Mapping[str, dict[Key, Any]] = {
    "shapes": infer.RULES,
    "rules": check.RULES,
    "lowerings": lower.LOWERINGS,
    "folds": FOLDS,
}


def recorded(row: Callable[..., Any], key: Key, rows: set[Key]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        rows.add(key)
        return row(*arguments)

    return call


@pytest.fixture(scope="module")
def reached() -> Reached:
    """Every model compiled while each table records which of its rows are used."""
    found = Reached()
    with pytest.MonkeyPatch.context() as patch:
        for name, table in TABLES.items():
            for key, row in list(table.items()):
                patch.setitem(table, key, recorded(row, key, found.rows[name]))
        for key in FOLDS_AT_FIRST:
            patch.setitem(FOLDS_AT_FIRST, key, FOLDS[key])
        for name, model in {**operator_models(), **{name: build() for name, build in MORE.items()}}.items():
            found.programs[name] = qcgen.compile(model).program
        for key in FOLDS.keys() & NODES.keys():
            read(of_constants(key))
        signed = qlinear_conv((1, 2, 4, 5), random_weights((3, 2, 2, 2)), x_type="int8", y_type="int8")
        orion = qcgen.compile(signed, numerics="orion-fp16x16").program
    found.programs["Orion's QLinearConv"] = orion
    for name in ("softmax", "log_softmax", "bilinear"):
        found.programs[f"{name} of a .tflite file"] = qcgen.compile(MODELS[name]).program
    found.programs |= {name: qcgen.compile(STREAMS[name]).program for name in ("filters", "gates")}
    found.programs["wide_softmax"] = qcgen.compile(WIDE_MODELS["wide_softmax"]).program
    found.programs["short_to_byte"] = qcgen.compile(MODELS["short_to_byte"]).program
    found.classes = {type(op) for program in found.programs.values() for op in program.operators}
    return found


@pytest.mark.parametrize("name", TABLES)
def test_every_row_is_reached_by_some_model(name, reached):
    assert set(TABLES[name]) - reached.rows[name] == set(), "tests/fuzz/operators.py must have a model with them"


def test_every_class_of_the_program_is_what_some_row_means(reached):
    assert reached.classes == classes(Operator) - {FloatOutput}  # which is the planner's


def test_the_reference_evaluates_what_every_row_means(reached):
    for name, program in reached.programs.items():
        feeds = {x.name: np.zeros(x.shape, x.dtype.numpy) for x in program.inputs}
        assert set(evaluate(program, feeds)) == {y.name for y in program.outputs}, name


def test_the_tables_agree():
    supported = set(lower.LOWERINGS)
    assert set(check.RULES) == supported
    assert set(SPECS) | set(CONVOLUTIONS) == supported
    assert set(infer.RULES) >= supported | set(FOLDS)


@pytest.mark.parametrize("key", SPECS, ids=" ".join)
def test_what_is_said_of_inputs_is_said_of_some_that_there_are(key):
    spec, inputs = SPECS[key], signature_of(*key).inputs
    assert len(spec.types) <= len(inputs)
    assert {*spec.constant, *spec.numbers, *spec.scales, *(name for pair in spec.same.items() for name in pair)} <= {
        *inputs
    }


def classes(union: Any) -> set[type]:
    """The classes of a union, those of unions in it among them."""
    return set().union(*map(classes, get_args(union))) if get_args(union) else {union}


def test_a_row_that_no_model_reaches_is_found(reached):
    rows = {**lower.LOWERINGS, ("", "Mystery"): None}
    assert ("", "Mystery") in set(rows) - reached.rows["lowerings"]
