"""Copies of a layer's constants in scratch memory: which layers make one, and what it costs and saves."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from bench.compiling import Network
from emulated import require_core
from onnx import ModelProto

import qcgen
from qcgen.emulate import measure
from qcgen.ir.context import names_of
from qcgen.ir.plan import Call
from qcgen.reference import evaluate_all
from qcgen.targets import BOARDS
from qcgen.verify.boundary import from_boundary, to_boundary


def network() -> ModelProto:
    """A large image first, of which small ones are made, whose layers have more weights."""
    n = Network((1, 3, 48, 48))
    x = n.conv(n.conv("x", 8, 3, 2), 16, 3, 2)
    return n.model(n.conv(n.conv(x, 24), 16))


def compiled(**options: object) -> qcgen.Artifact:
    return qcgen.compile(network(), name="m", **{"target": "cortex-m4", "optimize": "speed", **options})


def without_copies(**options: object) -> qcgen.Artifact:
    with mock.patch("qcgen.plan.copies.FEWEST_PASSES", 10**9):
        return compiled(**options)


def copies(artifact: qcgen.Artifact) -> list[Call]:
    return [call for call in artifact.plan.calls if names_of(call.context).get("copied_words")]


def test_layers_copy_their_constants_where_the_arena_has_room_anyway():
    artifact, plain = compiled(), without_copies()
    assert artifact.plan.arena_bytes == plain.plan.arena_bytes
    assert copies(artifact)
    assert not copies(plain)
    for call in copies(artifact):
        [before] = [each for each in plain.plan.calls if each.symbol == call.symbol]
        assert call.scratch_bytes == before.scratch_bytes + call.tables[0].bytes


def test_layers_that_would_need_a_larger_arena_copy_if_they_are_given_one():
    few, all_layers = copies(compiled()), copies(compiled(arena=2**16))
    assert len(few) < len(all_layers) == 4
    assert compiled(arena=2**16).plan.arena_bytes <= 2**16


def test_an_arena_between_the_two_holds_some_of_the_copies(everything):
    plain, roomy = without_copies().plan.arena_bytes, compiled(arena=2**16).plan.arena_bytes
    least = len(copies(compiled()))
    for arena in range(plain, roomy, 16 if everything else (roomy - plain) // 3):
        artifact = compiled(arena=arena)
        assert plain <= artifact.plan.arena_bytes <= arena
        assert least <= len(copies(artifact)) < 4


@pytest.mark.parametrize(
    "options", [{"optimize": "size"}, {"target": "cortex-m33"}, {"target": "cortex-m3"}, {"arena": "least"}]
)
def test_nothing_is_copied_for_few_bytes_or_for_cores_that_do_not_wait(options):
    assert not copies(compiled(**options))


def test_constants_that_few_pixels_read_are_not_copied():
    n = Network((1, 16, 4, 4))
    model = n.model(n.conv("x", 32))  # eight times two pixels
    assert not copies(qcgen.compile(model, target="cortex-m4", optimize="speed", arena=2**16))


def test_copies_save_waits_and_change_no_output():
    require_core("cortex-m4")
    plain, copied = without_copies(), compiled(arena=2**16)
    x = plain.program.inputs[0]
    codes = {x.name: np.random.default_rng(1).integers(-128, 128, x.shape).astype(np.int8)}
    board = BOARDS["stm32l4r5"]
    found = [measure(each, to_boundary(each.plan, codes), boards=(board,)) for each in (plain, copied)]
    judge = evaluate_all(plain.program, codes)
    for artifact, each in zip((plain, copied), found, strict=True):
        for name, y in from_boundary(artifact.plan, each.outcome.outputs).items():
            assert np.array_equal(y, judge[name])
    before, after = found
    assert after.cycles < 1.02 * before.cycles
    assert after.cycles_on(board.name) - after.cycles < 0.3 * (before.cycles_on(board.name) - before.cycles)
