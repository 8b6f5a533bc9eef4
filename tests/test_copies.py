"""Copies of a layer's constants in scratch memory: which layers make one, and what it costs and saves."""

from __future__ import annotations

import json
from dataclasses import asdict
from unittest import mock

import numpy as np
import onnx
import pytest
from bench.compiling import Network
from emulated import require_core
from onnx import ModelProto

import qcgen
from qcgen.cli import main
from qcgen.cli.terminal import size
from qcgen.cores import BOARDS
from qcgen.emulate import measure
from qcgen.ir.context import names_of
from qcgen.ir.plan import Call
from qcgen.reference import evaluate_all
from qcgen.verification.running import from_boundary, to_boundary


def network(tiles: int = 0) -> ModelProto:
    """A large image first, of which small ones are made, whose layers have more weights; some layers without copies."""
    n = Network((1, 3, 48, 48))
    x = n.conv("x", 8, 3, 2)
    for _ in range(tiles):
        x = n.conv(x, 8, 3)
    return n.model(n.conv(n.conv(n.conv(x, 16, 3, 2), 24), 16))


def compiled(model: ModelProto | None = None, **options: object) -> qcgen.Artifact:
    return qcgen.compile(model or network(), name="m", **{"target": "cortex-m4", "optimize": "speed", **options})


def without_copies(**options: object) -> qcgen.Artifact:
    with mock.patch("qcgen.plan.storage.FEWEST_PASSES", 10**9):
        return compiled(**options)


def small(**options: object) -> qcgen.Artifact:
    """With an arena of the size that it needs without copies."""
    return compiled(**{"arena": without_copies().plan.arena_bytes, **options})


def copies(artifact: qcgen.Artifact) -> list[Call]:
    return [call for call in artifact.plan.calls if names_of(call.context).get("copied_words")]


def test_layers_copy_their_constants_where_the_arena_has_room_anyway():
    artifact, plain = small(), without_copies()
    assert artifact.plan.arena_bytes == plain.plan.arena_bytes
    assert copies(artifact)
    assert not copies(plain)
    for call in copies(artifact):
        [before] = [each for each in plain.plan.calls if each.symbol == call.symbol]
        assert call.scratch_bytes == before.scratch_bytes + call.tables[0].bytes


def test_layers_that_would_need_a_larger_arena_copy_if_they_are_given_one():
    few, all_layers = copies(small()), copies(compiled(arena=2**16))
    assert len(few) < len(all_layers) == 4
    assert compiled(arena=2**16).plan.arena_bytes <= 2**16


@pytest.mark.all
def test_an_arena_between_the_two_holds_some_of_the_copies(everything):
    plain, roomy = without_copies().plan.arena_bytes, compiled(arena=2**16).plan.arena_bytes
    least = len(copies(small()))
    for arena in range(plain, roomy, 16 if everything else (roomy - plain) // 3):
        artifact = compiled(arena=arena)
        assert plain <= artifact.plan.arena_bytes <= arena
        assert least <= len(copies(artifact)) < 4


def test_the_arena_grows_where_copies_save_a_twentieth_of_the_cycles():
    grown, bounded = compiled(), small()
    growth = grown.plan.growth
    assert growth is not None
    assert growth.bytes == grown.plan.arena_bytes - bounded.plan.arena_bytes > 0
    assert growth.cycles <= 0.95 * growth.cycles_without
    assert len(copies(bounded)) < len(copies(grown)) == 4
    assert bounded.plan.growth is None


@pytest.mark.all
def test_the_arena_does_not_grow_for_less_but_may_be_given():
    model = network(tiles=2)
    own, given = compiled(model), compiled(model, arena=2**16)
    assert own.plan.growth is None
    assert own.plan.arena_bytes < given.plan.arena_bytes
    assert given.plan.growth is not None
    assert 0.95 < given.plan.growth.cycles / given.plan.growth.cycles_without < 1


def test_the_arena_of_one_layer_does_not_grow():
    node = compiled(node="qlinearconv_2")
    assert node.plan.growth is None
    assert not copies(node)
    assert copies(compiled(node="qlinearconv_2", arena=2**16))


def test_the_arena_grows_by_what_gains_most_for_a_byte_and_no_further():
    """The last layer would save 4 % of the cycles more, in three times as many bytes."""
    n = Network((1, 8, 12, 12))
    x = n.conv(n.conv(n.conv("x", 16), 16), 16)
    model = n.model(n.conv(x, 48, 1, 2))
    assert [len(copies(each)) for each in (compiled(model), compiled(model, arena=2**16))] == [3, 4]


@pytest.mark.all
def test_reports_say_how_much_it_grew_and_what_that_saves(capsys, tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save(network(), path)
    command = ["compile", str(path), "--target=cortex-m4", "--optimize=speed", "-o", str(tmp_path)]
    assert main(command) == 0
    growth, least = compiled().plan.growth, small().plan.arena_bytes
    assert growth is not None
    text = capsys.readouterr().out
    assert f"arena: {size(growth.bytes)} more than it needs" in text
    assert f"--arena {least} goes without" in text
    for arguments in (command, ["inspect", *command[1:4]]):
        assert main([*arguments, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["arena_growth"] == asdict(growth)
    assert main([*command, f"--arena={least}", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["arena_growth"] is None


@pytest.mark.parametrize(
    "options", [{"optimize": "size"}, {"target": "cortex-m33"}, {"target": "cortex-m3"}, {"arena": "least"}]
)
def test_nothing_is_copied_for_few_bytes_or_for_cores_that_do_not_wait(options):
    assert not copies(compiled(**options))


def test_constants_that_few_pixels_read_are_not_copied():
    n = Network((1, 16, 4, 4))
    model = n.model(n.conv("x", 32))  # eight times two pixels
    assert not copies(qcgen.compile(model, target="cortex-m4", optimize="speed", arena=2**16))


@pytest.mark.all
def test_copies_save_waits_and_change_no_output():
    require_core("cortex-m4")
    plain, bounded, grown = without_copies(), small(), compiled()
    x = plain.program.inputs[0]
    codes = {x.name: np.random.default_rng(1).integers(-128, 128, x.shape).astype(np.int8)}
    boards = BOARDS["stm32l4r5"], BOARDS["stm32f407"]
    artifacts = plain, bounded, grown
    found = [measure(each, to_boundary(each.plan, codes), boards=boards) for each in artifacts]
    judge = evaluate_all(plain.program, codes)
    for artifact, each in zip(artifacts, found, strict=True):
        for name, y in from_boundary(artifact.plan, each.outcome.outputs).items():
            assert np.array_equal(y, judge[name])
    none, some, all_copied = found
    assert all_copied.cycles < 1.02 * none.cycles
    slow = boards[0].name
    assert all_copied.cycles_on(slow) - all_copied.cycles < 0.3 * (none.cycles_on(slow) - none.cycles)
    growth = grown.plan.growth
    assert growth is not None
    estimated = growth.cycles_without - growth.cycles
    saved = [some.cycles_on(board.name) - all_copied.cycles_on(board.name) for board in boards]
    assert min(saved) == pytest.approx(estimated, rel=0.1)
