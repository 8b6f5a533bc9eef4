"""What a pattern raises at a node: only NoMatch, and what malformed attributes raise, leave the node as it is."""

from pathlib import Path

import pytest

from qcgen.compiler import read
from qcgen.rewrite.wiring import NoMatch, apply

DIGITS = Path(__file__).parent / "data" / "digits" / "digits_qop_s8.onnx"


@pytest.fixture(scope="module")
def graph():
    return read(DIGITS)


def test_no_match_is_no_failure(graph):
    def never_matches(_wiring, _node):
        raise NoMatch

    assert apply(graph, never_matches) is graph


def test_a_malformed_attribute_is_no_failure(graph):
    def wants_text(_wiring, node):
        node.text("group", "") if node.op_type == "QLinearConv" else node.integers("axis")

    assert apply(graph, wants_text) is graph


@pytest.mark.parametrize("error", [AssertionError, AttributeError, LookupError, TypeError, ValueError, ArithmeticError])
def test_every_other_error_ends_the_search(graph, error):
    def is_broken(_wiring, _node):
        raise error

    with pytest.raises(error):
        apply(graph, is_broken)
