"""On the host, too, the C starts with garbage in its memory: what it reads before it writes it is found."""

from dataclasses import replace

import numpy as np
from batch import require
from models import qlinear_conv

import qcgen
from qcgen.verification import verify


def dense():
    """37 elements times weights of which one product fills half a word: one element is left over, another is 0."""
    weights = np.full((9, 37, 1, 1), -128, np.int8)
    return qcgen.compile(qlinear_conv((1, 37, 1, 1), weights), target="rv32imc", name="dense")


def test_an_element_that_is_never_written_is_found():
    require("gcc")
    artifact = dense()
    assert verify(artifact).is_right
    text = artifact.files["dense.c"]
    wrong = text.replace("    elements[3] = 0;\n", "")
    assert wrong.count("\n") == text.count("\n") - 1
    assert not verify(replace(artifact, files={**artifact.files, "dense.c": wrong})).is_right


def test_an_output_that_is_never_written_is_no_zero():
    require("gcc")
    artifact = dense()
    text = artifact.files["dense.c"]
    start = text.index("void dense_run(")
    body = text.index("{", start)
    nothing = text[:body] + "{ (void)x; (void)y; (void)arena; }\n#if 0\n" + text[body:] + "\n#endif\n"
    files = {**artifact.files, "dense.c": nothing}
    [port] = artifact.plan.inputs
    feeds = {port.tensor.name: np.zeros(port.shape, port.tensor.dtype.numpy)}
    loaded = replace(artifact, files=files).load(("-O0", "-Wno-unused-function", "-Wno-unused-const-variable"))
    [y] = loaded.run(None, feeds)
    assert y.all()
