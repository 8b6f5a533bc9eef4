"""Every small geometry by the kernels for cores without SIMD, in their portable meaning."""

import pytest
from marks import share_at_first
from small_geometries import assert_right
from small_geometries_kernels import SCALAR


@pytest.mark.parametrize("subject", share_at_first(SCALAR, 4), ids=lambda subject: subject.kernel)
def test_images_of_every_small_geometry_are_right(subject, tmp_path, everything, exhaustive):
    assert_right(subject, tmp_path, everything=everything, exhaustive=exhaustive)
