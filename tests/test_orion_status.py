"""What a compiled convolution returns where Orion panics: 1, only there, and no undefined behaviour on the way."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hostile_orion import HOSTILE, hostile_inputs, hostile_model, numerics

import qcgen
from qcgen.build import STRICT_FLAGS, host_compiler
from qcgen.errors import OrionPanic
from qcgen.reference import evaluate
from qcgen.verify import verify

GENERATED = Path(__file__).resolve().parents[1] / "generated"

SANITIZED = ("-O1", "-fsanitize=undefined", "-fno-sanitize-recover=all")


def outcome(compute):
    """The outputs, or None where Orion panics."""
    try:
        return compute()
    except OrionPanic:
        return None


@pytest.mark.parametrize("optimize", ["size", "speed"])
@pytest.mark.parametrize("name", HOSTILE)
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


def compiled(name, **options):
    return qcgen.compile(hostile_model(name), name="net", numerics=numerics(name), **options)


def test_verify_compares_what_the_function_returns():
    verification = verify(compiled("sum with groups"), cases=20)
    assert verification.is_right
    assert verification.cases > verification.outputs / 8  # cases without outputs count one return value


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
