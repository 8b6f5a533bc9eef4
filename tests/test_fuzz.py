"""The fuzzer itself: it starts from every operator, its mutants can be made again, it sees what it must not miss."""

from __future__ import annotations

import os
import random
import signal
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from batch import require
from fuzz.__main__ import children, compiling
from fuzz.minimize import minimized
from fuzz.mutate import CHANGES
from fuzz.operators import NODES, operator_models
from fuzz.oracle import judged
from fuzz.seeds import seeds
from fuzz.trial import Accepted, Find, Rejected, accepted, mutant_of
from marks import share_at_first
from models import graph_model
from onnx import ModelProto, helper

import qcgen
from qcgen.check.specs import SPECS
from qcgen.geometry import CONVOLUTIONS


def test_mutation_starts_from_every_operator():
    assert set(NODES) == set(SPECS) - set(CONVOLUTIONS)


@pytest.mark.parametrize("name", share_at_first(list(operator_models()), 4))
def test_the_model_of_an_operator_is_accepted(name):
    assert qcgen.compile(operator_models()[name]).files


def test_mutants_are_compiled_with_arenas_of_every_kind():
    arenas = [mutant_of(1, number)[1]["arena"] for number in range(100)]
    assert {type(arena) for arena in arenas} == {type(None), str, int}


@pytest.mark.parametrize("name", [name for name, _ in seeds().in_rows])
def test_the_least_arena_lets_this_model_run_row_by_row(name):
    content = dict(seeds().own)[name]
    assert qcgen.compile(content, layout="nhwc", arena="least").plan.streams


def test_a_mutant_is_the_same_for_the_same_seed_and_number():
    assert mutant_of(3, 14) == mutant_of(3, 14)
    assert mutant_of(3, 14) != mutant_of(3, 15) != mutant_of(4, 15)


@pytest.mark.parametrize("change", dict.fromkeys(CHANGES), ids=lambda change: change.__name__)
def test_every_change_changes_some_model(change):
    rng = random.Random(0)
    for _ in range(50):
        model = ModelProto.FromString(rng.choice(seeds().own)[1])
        before = model.SerializeToString(deterministic=True)
        try:
            change(model, rng)
        except (IndexError, TypeError, ValueError, OverflowError):
            continue
        if model.SerializeToString(deterministic=True) != before:
            return
    raise AssertionError("nothing changed")


@pytest.fixture
def outcomes(monkeypatch, tmp_path):
    """The outcomes of three mutants where ``compile`` does something of its own for the second."""

    def tried(behave):
        def compile(*_, name, **__):
            if name == "m5":
                behave()
            raise qcgen.ModelRejected([qcgen.Problem("model", "it is wrong", "correct it")])

        monkeypatch.setattr(qcgen, "compile", compile)
        return list(children([4, 5, 6], compiling(lambda _: (b"", {})), tmp_path / "log"))

    return tried


def raising(error):
    def behave():
        raise error

    return behave


def test_a_mutant_that_is_rejected_is_no_find(outcomes):
    assert outcomes(lambda: None) == [Rejected(4), Rejected(5), Rejected(6)]


class Wordy(qcgen.ModelRejected):
    """A rejection that tells a text as it is."""

    def __init__(self, text):
        super().__init__([qcgen.Problem("model", "it is wrong", "correct it")])
        self.text = text

    def __str__(self):
        return self.text


BEHAVIOURS = {
    "another exception": (raising(KeyError("x")), "KeyError"),
    "a warning": (lambda: warnings.warn("careful", stacklevel=1), "UserWarning"),
    "words on standard error": (lambda: os.write(2, b"careful"), "standard error"),
    "control characters": (raising(Wordy("node '\x1b': it is wrong")), "control characters"),
    "a flood": (raising(Wordy("model: it is wrong\n" * 10_000)), "long text"),
    "too much memory at once": (lambda: bytearray(3 << 30), "MemoryError"),
    "too much memory": (lambda: bytearray(b"x") * (600 << 20), "memory"),
    "the end of the process": (lambda: os.kill(os.getpid(), signal.SIGKILL), "SIGKILL"),
}


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_this_is_a_find_and_the_other_mutants_are_tried(name, outcomes, monkeypatch):
    behave, kind = BEHAVIOURS[name]
    monkeypatch.setattr("fuzz.trial.RESIDENT", 500 << 20)
    before, find, after = outcomes(behave)
    assert (before, after) == (Rejected(4), Rejected(6))
    assert isinstance(find, Find)
    assert find.kind.startswith(kind)


def test_an_endless_mutant_is_a_find(outcomes, monkeypatch):
    def spin():
        while True:
            pass

    monkeypatch.setattr("fuzz.trial.SECONDS", 0)
    assert outcomes(spin)[1].kind == "more than 10 s"


def compiled(number: int, op_type: str = "Relu") -> Accepted:
    return accepted(number, qcgen.compile(operator_models()[op_type], name=f"m{number}"))


def spoilt(number: int, old: str, new: str) -> Accepted:
    """A model of Relu whose C is not what it should be."""
    right = compiled(number)
    name = f"m{number}.c"
    assert old in right.files[name]
    return replace(right, files={**right.files, name: right.files[name].replace(old, new, 1)})


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("(x[i], 0.0f)", "(x[i], 1.0f)", "output"),
        ("COUNT = 40", "COUNT = 41", "sanitizer: AddressSanitizer: heap-buffer-overflow"),
        ("i < COUNT", "i < j", "C compiler:"),
    ],
)
def test_wrong_c_is_found_among_right_c(old, new, kind, tmp_path: Path):
    require("gcc")
    batch = [compiled(1, "Sigmoid"), spoilt(2, old, new), compiled(3, "Concat")]
    [find] = judged(batch, tmp_path)
    assert find.number == 2
    assert find.kind.startswith(kind)


def test_a_find_is_made_smaller_as_long_as_it_is_of_its_kind():
    nodes = [("Relu", "x", "a"), ("Tanh", "a", "b"), ("Neg", "b", "c"), ("Sigmoid", "c", "y")]
    made = [helper.make_node(op_type, [x], [y], name=y) for op_type, x, y in nodes]
    model = graph_model(made, {"x": ("float", (2,))}, {"y": None}, {"unused": np.zeros(100, np.float32)})

    def tried(content):
        has_tanh = any(node.op_type == "Tanh" for node in ModelProto.FromString(content).graph.node)
        return Find(0, "Tanh", "") if has_tanh else Rejected(0)

    smaller = ModelProto.FromString(minimized(model.SerializeToString(), "Tanh", tried))
    assert [node.op_type for node in smaller.graph.node] == ["Tanh"]
    assert not smaller.graph.initializer
