"""How far the taps of a window are apart on an axis that has only one."""

import re

import pytest
from models import qlinear_conv, random_weights

import qcgen


@pytest.mark.parametrize("target", ["portable", "cortex-m0", "cortex-m4", "cortex-m55"])
@pytest.mark.parametrize(("kernel", "dilations"), [((1, 3), [3, 1]), ((3, 1), [1, 3]), ((1, 1), [2, 3])])
@pytest.mark.parametrize("group", [1, 8])
def test_a_single_tap_has_no_dilation(target, kernel, dilations, group):
    w = random_weights((8, 8 // group, *kernel))
    given = {"target": target, "layout": "nhwc", "name": "net"}
    dilated, plain = (
        qcgen.compile(qlinear_conv((1, 8, 6, 6), w, group=group, dilations=each), **given)
        for each in (dilations, [1, 1])
    )
    assert dilated.report.nodes[0].kernel == plain.report.nodes[0].kernel
    assert code(dilated) == code(plain)


def code(artifact):
    """What is compiled, without the comment at the head and the checksum."""
    return re.sub(r"HEADER_ID \S+ 0x\w+", "", artifact.files["net.c"].split("*/", 1)[1])
