"""Every small geometry by the kernels for cores without SIMD, in their portable meaning."""

import pytest
from small_geometries import assert_right
from small_geometries_kernels import SCALAR


@pytest.mark.parametrize("subject", SCALAR, ids=lambda subject: subject.kernel)
def test_images_of_every_small_geometry_are_right(subject, tmp_path, everything, exhaustive):
    assert_right(subject, tmp_path, everything=everything, exhaustive=exhaustive)
