"""Every small geometry by portable kernels; that all kernels get them, and that a wrong one is found."""

import re

import pytest
from batch import require
from marks import share_at_first
from small_geometries import AXES, assert_right, facts, wrong
from small_geometries_kernels import PORTABLE, SUBJECTS

from qcgen import geometry
from qcgen.kernels import KERNELS

WINDOWS = re.compile("conv$|conv_|depthwise|dense|pointwise|pool|short_window|winograd")
"""What the names of kernels hold that have windows."""


@pytest.mark.parametrize("subject", share_at_first(PORTABLE, 4), ids=lambda subject: subject.kernel)
def test_images_of_every_small_geometry_are_right(subject, tmp_path, everything, exhaustive):
    assert_right(subject, tmp_path, everything=everything, exhaustive=exhaustive)


def test_every_kernel_with_windows_gets_them():
    assert {subject.kernel for subject in SUBJECTS} == {each.name for each in KERNELS if WINDOWS.search(each.name)}


def test_each_axis_is_a_height_and_a_width_and_each_pair_of_facts_comes():
    conv = PORTABLE[0]
    images = [plane for plane in conv.planes if len(plane) == 2]
    assert {height for height, _ in images} == {width for _, width in images} == set(AXES)
    found = {(facts(height), facts(width)) for height, width in images}
    assert len(found) == len(set(map(facts, AXES))) ** 2


def test_a_stride_that_is_forgotten_where_there_is_one_window_is_found(tmp_path, monkeypatch):
    def forgotten(stride, windows, _room):
        return stride if windows > 1 else 1

    require("gcc")
    monkeypatch.setattr(geometry, "_effective", forgotten)
    [pointwise] = [subject for subject in PORTABLE if subject.kernel == "portable/pointwise" and len(subject.ways) > 2]
    columns = [plane for plane in pointwise.planes if [axis.outputs > 1 for axis in plane] == [True, False]]
    assert wrong(tmp_path, pointwise.models(columns[::3]))
