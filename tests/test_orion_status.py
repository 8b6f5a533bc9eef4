"""What a compiled convolution returns where Orion panics: 1, only there, and no undefined behaviour on the way."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from emulated import require_core
from hostile_orion import HOSTILE, hostile_inputs, hostile_model, numerics
from marks import share_at_first, some_at_first
from models import qlinear_conv

import qcgen
from qcgen.build import STRICT_FLAGS, host_compiler
from qcgen.emulate import measure
from qcgen.errors import EmulationFailed, OrionPanic
from qcgen.package import package
from qcgen.reference import evaluate
from qcgen.verification import verify

GENERATED = Path(__file__).resolve().parents[1] / "generated"

SANITIZED = ("-O1", "-fsanitize=undefined", "-fno-sanitize-recover=all")


def outcome(compute):
    """The outputs, or None where Orion panics."""
    try:
        return compute()
    except OrionPanic:
        return None


@pytest.mark.parametrize("optimize", ["size", "speed"])
@pytest.mark.parametrize("name", share_at_first(list(HOSTILE)))
def test_the_c_returns_1_exactly_where_orion_panics(name, optimize):
    layout = "nhwc" if (len(name) + len(optimize)) % 2 else "nchw"
    artifact = qcgen.compile(hostile_model(name), numerics=numerics(name), optimize=optimize, layout=layout)
    loaded, panics = artifact.load(SANITIZED), []
    for x in hostile_inputs(HOSTILE[name][1], 31):
        expected = outcome(lambda x=x: evaluate(artifact.program, {"x": x})["y"])
        held = x if layout == "nchw" else np.ascontiguousarray(np.moveaxis(x, 1, -1))
        got = outcome(lambda held=held: loaded.run(None, {"x": held})[0])
        panics.append(expected is None)
        assert (got is None) == (expected is None)
        if expected is not None:
            np.testing.assert_array_equal(got if layout == "nchw" else np.moveaxis(got, -1, 1), expected)
    assert min(panics.count(True), panics.count(False)) >= 4


UNIT = 1 / 65536
AT_THE_LIMIT = {
    "product": ({"xs": 1 + UNIT, "ws": 257.0, "ys": 300.0}, [[[[3]]]], [85], [86]),
    "negative product": ({"xs": 1.0, "ws": 256.0, "ys": 300.0}, [[[[2]]]], [-127], [-128]),
    "channel": ({"xs": 1 + UNIT, "ws": 257.0, "ys": 300.0}, [[[[2, 1]]]], [64, 127], [65, 126]),
    "negative channel": ({"xs": 1.0, "ws": 256.0, "ys": 300.0}, [[[[2, 1]]]], [-64, -127], [-64, -128]),
    "sum": ({"xs": 1 + UNIT, "ws": 257.0, "ys": 300.0}, [[[[2]], [[1]]]], [64, 127], [65, 126]),
    "negative sum": ({"xs": 1.0, "ws": 256.0, "ys": 300.0}, [[[[2]], [[1]]]], [-64, -127], [-64, -128]),
    "quotient": ({"xs": 1 + 257 * UNIT, "ws": 1.0, "ys": 1 / 256}, [[[[3]]]], [85], [86]),
    "negative quotient": ({"xs": 1.0, "ws": 1.0, "ys": 1 / 256}, [[[[2]]]], [-127], [-128]),
}
"""Scales, weights, an input on which Orion does not panic and one on which it does.

With these scales 85 * 3 is 2^32 - 1 units, or after the division, and 2 * -128 is -2^32 of them.
"""


@pytest.mark.parametrize("name", AT_THE_LIMIT)
def test_the_last_number_that_fits_is_no_panic_and_the_next_one_is(name):
    q, weights, fine, beyond = AT_THE_LIMIT[name]
    w = np.asarray(weights, np.int8)
    shape = (1, *w.shape[1:])
    scales = {"x_scale": q["xs"], "w_scale": q["ws"], "y_scale": q["ys"]}
    artifact = qcgen.compile(qlinear_conv(shape, w, x_type="int8", y_type="int8", **scales), numerics="orion-fp16x16")
    loaded = artifact.load(SANITIZED)
    for codes, is_fine in ((fine, True), (beyond, False)):
        feeds = {"x": np.asarray(codes, np.int8).reshape(shape)}
        expected = outcome(lambda feeds=feeds: evaluate(artifact.program, feeds)["y"].tolist())
        assert (expected is not None) == is_fine
        assert outcome(lambda feeds=feeds: loaded.run(None, feeds)[0].tolist()) == expected


def test_a_layer_that_panics_ends_the_network():
    """Its successor would not panic on what lies in memory then."""
    w = np.full((1, 1, 1, 1), 100, np.int8)
    q = {"x_type": "int8", "y_type": "int8", "x_scale": 1.0, "w_scale": 1.0}
    first = qlinear_conv((1, 1, 2, 2), w, **q, y_scale=0.125, node_name="conv1")
    second = qlinear_conv((1, 1, 2, 2), w // 100, **q, y_scale=1.0, node_name="conv2")
    renamed = {"x": "between", **{each.name: f"second {each.name}" for each in second.graph.initializer}}
    first.graph.node[0].output[0] = "between"
    for each in second.graph.initializer:
        each.name = renamed[each.name]
    second.graph.node[0].input[:] = [renamed[name] for name in second.graph.node[0].input]
    first.graph.node.append(second.graph.node[0])
    first.graph.initializer.extend(second.graph.initializer)
    artifact = qcgen.compile(first, name="net", numerics="orion-fp16x16")
    assert [call.returns_status for call in artifact.plan.calls] == [True, False]
    loaded = artifact.load(SANITIZED)
    loaded.run(None, {"x": np.full((1, 1, 2, 2), 81, np.int8)})
    with pytest.raises(OrionPanic, match="net_run returned 1: Orion panics on these inputs"):
        loaded.run(None, {"x": np.full((1, 1, 2, 2), 82, np.int8)})
    assert verify(artifact).is_right


def compiled(name, **options):
    return qcgen.compile(hostile_model(name), name="net", numerics=numerics(name), **options)


def test_verify_compares_what_the_function_returns():
    verification = verify(compiled("sum with groups"))
    assert verification.is_right
    [border] = [each for each in verification.outcomes if each.group == "next to a panic"]
    assert border.cases == 2 * border.panics == 16
    assert border.outputs == 8 * 8 + 8  # 8 outputs without a panic, else the return value alone


def test_verify_finds_a_panic_that_the_c_misses():
    artifact = compiled("sum with groups")
    source = artifact.files["net.c"]
    files = {**artifact.files, "net.c": source.replace("return 1;", ";", 1)}
    verification = verify(replace(artifact, files=files), cases=40, flags=("-O1", "-fwrapv"))
    assert not verification.is_right
    assert verification.first.output == "the return value"
    assert (verification.first.expected, verification.first.got) == (1, 0)


def test_verify_finds_a_panic_that_orion_does_not_have():
    artifact = compiled("sum with groups")
    source = artifact.files["net.c"]
    files = {**artifact.files, "net.c": source.replace("INT64_C(4294967295)", "INT64_C(42949)", 1)}
    verification = verify(replace(artifact, files=files), cases=4)
    assert (verification.first.expected, verification.first.got) == (0, 1)
    assert verification.cause.text == "the function returns 1, but Orion does not panic"


@pytest.mark.parametrize("name", HOSTILE)
def test_the_self_test_takes_inputs_on_which_orion_does_not_panic(name, tmp_path):
    artifact = compiled(name).with_self_test()
    artifact.write(tmp_path)
    main = '#include "net_test.h"\nint main(void) { static net_arena arena; return net_test(&arena); }\n'
    (tmp_path / "main.c").write_text(main)
    command = [*host_compiler(), *STRICT_FLAGS, "-O1", "main.c", "net.c", "net_test.c", "-o", "test"]
    subprocess.run(command, cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "test"], check=False).returncode == 0


def test_networks_that_cannot_panic_return_nothing():
    header = (GENERATED / "orion_fp16x16.h").read_text()
    assert re.search(r"^void orion_fp16x16_run\(", header, re.MULTILINE)
    assert "panics" not in header + (GENERATED / "orion_fp16x16.c").read_text()


@pytest.mark.emulated
@pytest.mark.parametrize("core", some_at_first(["cortex-m4", "cortex-m0", "cortex-m55", "rv32imc"]))
def test_an_emulated_core_returns_1_where_orion_panics(core):
    require_core(core)
    verification = verify(compiled("product that the sum takes back", target=core), emulated=True)
    assert verification.is_right
    assert verification.panics > 8


def test_what_counts_instructions_refuses_inputs_on_which_orion_panics():
    require_core("cortex-m4")
    artifact = compiled("quotient", target="cortex-m4")
    with pytest.raises(EmulationFailed, match="the function returns 1, as Orion panics on these inputs"):
        measure(artifact, {"x": np.full((1, 1, 2, 2), 127, np.int8)})


def test_examples_of_packages_look_at_what_the_function_returns():
    files = package(compiled("quotient"))
    for name in ("net/README.md", "net/examples/net/net.ino"):
        assert "if (net_run(net_tensor_x, net_tensor_y, &arena) != 0) {" in files[name]
