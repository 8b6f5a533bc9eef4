"""Einsum of one and of two tensors: against onnxruntime, in float and between codes, where its sums are of numbers."""

import numpy as np
import pytest
from batch import require
from judged import judge
from models import graph_model
from qdq import Chain

import qcgen
from qcgen.errors import ModelRejected

EXACT = {
    "ij,jk->ik": ((4, 150), (150, 140)),
    "bij, bjk -> bki": ((2, 4, 5), (2, 5, 6)),
    "bhid,bhjd->bhij": ((2, 3, 4, 8), (2, 3, 6, 8)),
    "bqhd,bkhd->bhqk": ((1, 4, 2, 8), (1, 5, 2, 8)),
    "bhqk,bkhd->bqhd": ((1, 2, 4, 5), (1, 5, 2, 8)),
    "bhwc,hkc->bhwk": ((2, 4, 3, 6), (4, 5, 6)),
    "nctkv,vkw->nctw": ((1, 4, 3, 2, 70), (70, 2, 50)),
    "ncuv,nctu->nctv": ((1, 4, 150, 6), (1, 4, 13, 150)),
    "i,j->ij": ((4,), (5,)),
    "...ij,...jk->...ik": ((2, 3, 4, 5), (2, 3, 5, 6)),
    "b...d,de -> ...be": ((2, 3, 4, 5), (5, 6)),
    "h...,b...->bh...": ((3, 4, 5), (2, 4, 5)),
    "...i->i...": ((4, 5, 6),),
    "...i->...": ((4, 5, 60),),
    "ij->ji": ((4, 5),),
    "bijk->jb": ((5, 6, 40, 7),),
    "bij->bi": ((2, 4, 50),),
    "bij->bj": ((2, 40, 5),),
}
NEAR = {"bi,bi->b": ((4, 50), (4, 50)), "bi,bij->bj": ((2, 40), (2, 40, 6)), "i,i->": ((40,), (40,))}
REFUSED = {
    "ii->i": ((4, 4),),
    "bij,bjk->bk": ((2, 4, 5), (2, 5, 6)),
    "...ij,...jk->...ik": ((2, 4, 5), (1, 5, 6)),
    "...ij,...jk->ik": ((2, 4, 5), (2, 5, 6)),
    "ij,jk": ((4, 5), (5, 6)),
    "ij,jk,kl->il": ((4, 5), (5, 6), (6, 7)),
}


def einsum(equation, shapes, *, coded=False):
    made, inputs = Chain(), {f"x{i}": ("uint8" if coded else "float", shape) for i, shape in enumerate(shapes)}
    operands = [made.dequantize(name, (0.03, np.uint8(100))) if coded else name for name in inputs]
    y = made.node("Einsum", operands, "r" if coded else "y", equation=equation)
    if coded:
        made.quantize(y, (0.9, np.uint8(120)), "y")
    return graph_model(made.nodes, inputs, {"y": None}, made.constants, opset=13)


@pytest.mark.parametrize("coded", [False, True], ids=["float", "codes"])
@pytest.mark.parametrize("equation", [*EXACT, *NEAR])
def test_it_is_onnxruntimes_or_named(equation, coded):
    require("gcc")
    shapes = {**EXACT, **NEAR}[equation]
    model, rng = einsum(equation, shapes, coded=coded), np.random.default_rng(10)
    artifact = qcgen.compile(model, name="net")
    feeds = {
        x.name: rng.integers(0, 256, x.shape).astype(np.uint8) if coded else rng.normal(size=x.shape).astype("f")
        for x in artifact.program.inputs
    }
    [got], [wanted] = artifact.load().run(None, feeds), judge(model, feeds)
    is_named = bool(artifact.report.inexact) or any(node.in_float for node in artifact.report.nodes)
    moves = equation in ("ij->ji", "...i->i...")
    assert is_named == (equation in NEAR or (coded and not moves))
    assert got.shape == wanted.shape
    apart = np.abs(got.astype(np.float64) - wanted)
    assert (apart <= (coded if is_named and coded else 1e-5 * np.maximum(1, np.abs(wanted)) * is_named)).all()


def test_what_is_behind_an_einsum_is_not_joined_with_it():
    """onnxruntime gives a MatMul a factor, and the operands of an Einsum are scaled before."""
    require("gcc")
    made = Chain()
    scaled = made.node("Mul", ["x0", made.constant("s", np.float32(0.3))])
    y = made.node("Einsum", [scaled, "x1"], equation="bij,bjk->bik")
    made.node("Div", [y, made.constant("t", np.float32(5.3))], "y")
    inputs = {"x0": ("float", (2, 4, 50)), "x1": ("float", (2, 50, 6))}
    model, rng = graph_model(made.nodes, inputs, {"y": None}, made.constants, opset=13), np.random.default_rng(11)
    feeds = {name: rng.normal(size=shape).astype(np.float32) for name, (_, shape) in inputs.items()}
    artifact = qcgen.compile(model, name="net")
    assert not artifact.report.inexact
    assert np.array_equal(artifact.load().run(None, feeds)[0], judge(model, feeds)[0])


@pytest.mark.parametrize("equation", REFUSED)
def test_other_equations_are_refused(equation):
    with pytest.raises(ModelRejected, match="Einsum is not supported"):
        qcgen.compile(einsum(equation, REFUSED[equation]))
