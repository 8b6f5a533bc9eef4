"""Layers without guard bands were packed with one that has some, then divided from it: their function had no tables."""

from bench.compiling import Network

import qcgen
from qcgen.verification import verify


def test_layers_that_are_divided_from_others_have_in_common_what_they_need(monkeypatch, level):
    monkeypatch.setattr("qcgen.plan.functions.PRICE", 0)
    n = Network((1, 32, 2, 2), seed=11)
    x = "x"
    for channels in (24, 24, 16, 600):
        x = n.conv(x, channels)
    artifact = qcgen.compile(n.model(x), target="cortex-m4", layout="nhwc", name="net")
    assert artifact.plan.shared
    assert verify(artifact, cases=2, flags=(level,), sums=False).is_right
