"""A self-test with nothing to compare would always pass; its C left a parameter and a function unused."""

from __future__ import annotations

import pytest
from models import node_model

import qcgen


def test_a_self_test_that_compares_nothing_is_refused():
    artifact = qcgen.compile(node_model("Softmax", {"x": ("float", (3, 4))}))
    with pytest.raises(qcgen.ModelRejected, match="there is nothing to compare"):
        artifact.with_self_test()
