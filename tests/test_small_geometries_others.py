"""Every small geometry by the kernels for Helium and the host, in their portable meaning, and ConvTranspose."""

import pytest
from marks import share_at_first
from small_geometries import assert_right
from small_geometries_kernels import OTHERS


@pytest.mark.parametrize("subject", share_at_first(OTHERS, 4), ids=lambda subject: subject.kernel)
def test_images_of_every_small_geometry_are_right(subject, tmp_path, everything, exhaustive):
    assert_right(subject, tmp_path, everything=everything, exhaustive=exhaustive)
