"""NaN, such as 0 / 0, has the lowest code also behind a Relu or a Clip; it had the code of the bound."""

import numpy as np
import pytest
from judged import judge
from qdq import A, Chain

import qcgen


def quotient(chain):
    x = chain.through("x", A)
    return chain.node("Div", [x, x])


def sum_of_quotient(chain):
    return chain.node("Add", [quotient(chain), chain.constant("one", np.float32(1))])


@pytest.mark.parametrize("bound", ["Relu", "Clip"])
@pytest.mark.parametrize(
    "build",
    [
        quotient,
        sum_of_quotient,
        lambda chain: chain.node("Log", [chain.through("x", A)]),
        lambda chain: chain.node("Sqrt", [chain.through("x", A)]),
    ],
    ids=["quotient", "sum", "logarithm", "root"],
)
def test_it_has_the_lowest_code(build, bound):
    chain = Chain()
    bounds = [chain.constant("low", np.float32(0)), chain.constant("high", np.float32(6))] if bound == "Clip" else []
    chain.through(chain.node(bound, [build(chain), *bounds]), (0.02, np.int8(3)), "y")
    model = chain.model((1, 256))
    feeds = {"x": ((np.arange(256) - 3) * 0.02).astype(np.float32)[None]}
    [found], [wanted] = qcgen.compile(model).load(("-O0",)).run(None, feeds), judge(model, feeds)
    assert np.array_equal(found, wanted)
