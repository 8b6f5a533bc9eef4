"""Scratch memory of the benchmarks' layers beside what CMSIS-NN asks its caller for, as recorded."""

import pytest
from marks import share_at_first

import qcgen
from qcgen.report import NodeReport
from tests.bench.cortex_text import CMSIS_NN
from tests.bench.layers import LAYERS, Layer, model_of

RECORDED = dict.fromkeys(("cortex-m4", "cortex-m7", "cortex-m33"), "cortex-m4") | {"cortex-m55": "cortex-m55"}
"""Cores, and whose figure stands for them."""

every_layer = pytest.mark.parametrize("layer", share_at_first(LAYERS), ids=lambda layer: layer.name)
every_core = pytest.mark.parametrize("core", RECORDED)


def theirs(layer: Layer, core: str) -> int:
    return CMSIS_NN["scratch_bytes"][layer.name][RECORDED[core]]


def compiled(layer: Layer, core: str, optimize: str) -> NodeReport:
    artifact = qcgen.compile(model_of(layer), name="layer", layout="nhwc", target=core, optimize=optimize)
    [node] = artifact.report.nodes
    assert artifact.report.arena_bytes >= node.scratch_bytes
    return node


@every_core
@every_layer
def test_for_size_no_layer_takes_more_scratch_than_cmsis_nn(layer, core):
    assert compiled(layer, core, "size").scratch_bytes <= theirs(layer, core)


@every_core
@every_layer
def test_for_speed_only_tiles_and_widened_pixels_take_more(layer, core):
    node = compiled(layer, core, "speed")
    if node.scratch_bytes > theirs(layer, core):
        is_pixel = node.kernel == "arm_dsp/conv" and layer.kernel == (1, 1)
        assert node.kernel == "arm_dsp/winograd" or is_pixel
