"""What a pattern raises at a node: nothing is lost where the node is malformed, and it is told where it is not."""

from pathlib import Path

import pytest

from qcgen.check import check
from qcgen.compiler import read
from qcgen.rewrite.wiring import NoMatch, apply

DIGITS = Path(__file__).parent / "data" / "digits" / "digits_qop_s8.onnx"


@pytest.fixture(scope="module")
def graph():
    return read(DIGITS)


def test_what_fails_at_a_well_formed_node_is_told(graph):
    def fails_at_pools(wiring, node):
        return wiring.graph.constants["missing"] if node.op_type == "MaxPool" else None

    found = check(apply(graph, fails_at_pools))
    assert found.nodes == graph.nodes
    [note] = set(found.notes) - set(graph.notes)
    assert "(MaxPool) stays as it is, a pattern failed: fails_at_pools: KeyError('missing')" in note


def test_no_match_is_no_failure(graph):
    def never_matches(_wiring, _node):
        raise NoMatch

    assert apply(graph, never_matches) is graph


def test_an_error_that_no_malformed_node_explains_ends_the_search(graph):
    def is_broken(_wiring, _node):
        raise AssertionError

    with pytest.raises(AssertionError):
        apply(graph, is_broken)
