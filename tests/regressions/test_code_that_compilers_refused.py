"""C that a compiler or an assembler refused, or warned of."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import onnx
import pytest
from batch import call, family_unit, require
from bench.compiling import Network
from cases_mve_depthwise import DEPTHWISE
from cases_scalar import EXTREMES, SHAPES
from cases_scalar_planes import DEPTHWISE_EXTREMES, DEPTHWISE_SHAPES
from emulated import require_core, wrong_outputs
from judged import assert_judged, drawn, held, judge
from marks import some_at_first
from models import graph_model, qlinear_conv, random_weights
from network_cases import NCHW, quantized
from network_units import Unit
from network_units import artifact as artifact_of
from onnx import TensorProto, helper
from subjects import on_core

import qcgen
from qcgen.build import STRICT_FLAGS
from qcgen.cores import TARGETS
from qcgen.cross import compile_command
from qcgen.emulate import Trial, cross_build, emulate
from qcgen.emulate.image import c_library
from qcgen.ir.program import AveragePool, ConvGeometry, MaxPool
from qcgen.ir.types import DType


@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
def test_a_line_that_all_channels_share_takes_no_channel(layout):
    """Depthwise layers with guard bands, but one multiplier and offset for all channels, gave an unused parameter."""
    require("gcc")
    scales = {"x_scale": 1.0, "w_scale": 2.0**-7, "y_scale": 1.0}
    model = qlinear_conv((1, 3, 5, 6), random_weights((3, 1, 2, 2)), group=3, **scales)
    artifact = qcgen.compile(model, name="net", layout=layout)
    assert "guard band" in artifact.report.nodes[0].requantize
    assert "_line(int32_t acc)" in artifact.files["net.c"]
    artifact.load()


@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
@pytest.mark.parametrize(("kernel", "x_type"), [(3, "uint8"), (1, "int8")])
def test_sums_of_taps_that_wrap_compile_without_a_warning(kernel, x_type, layout):
    """gcc warns of sign conversion where a tap narrower than int is converted to unsigned within a sum."""
    require("gcc")
    w = random_weights((3, 3, kernel, kernel), "uint8")
    model = qlinear_conv((1, 3, 4, 4), w, x_type=x_type, w_zero_point=3, bias=[2**31 - 1, 0, 1])
    artifact = qcgen.compile(model, name="net", layout=layout, optimize="speed")
    assert artifact.report.nodes[0].wraps
    artifact.load()


# clang takes "2 ^ X" and "10 ^ X" for powers and warns: a zero point of 2 stood there as the padding of windows.
@pytest.mark.parametrize("zero_point", [2, 10])
def test_clang_takes_windows_padded_with_two_or_ten(zero_point, tmp_path):
    require("clang")
    options = {"x_type": "int8", "y_type": "int8", "x_zero_point": zero_point, "pads": [1, 1, 1, 1]}
    model = qlinear_conv((1, 16, 5, 5), random_weights((16, 16, 3, 3)), **options)
    qcgen.compile(model, target="host", layout="nhwc", name="net").write(tmp_path)
    call(["clang", *STRICT_FLAGS, "-c", "net.c"], tmp_path)


def test_clang_takes_depthwise_kernels_for_helium(tmp_path):
    """Helium depthwise kernels without a fast output step held a function that none called, which clang warns of."""
    core = "cortex-m55"
    require_core(core, "clang", counting=False)
    cases = [case for case in DEPTHWISE if case.name in ("mve_depthwise_huge_scale", "mve_depthwise_integer")]
    units = [family_unit(case, "speed", core, "arm_mve") for case in cases]
    for each in units:
        each.artifact.write(tmp_path)
    command = [*compile_command(TARGETS[core], ("-O2",), "clang"), *c_library(TARGETS[core], "clang")]
    call([*command, *(f"{each.name}.c" for each in units)], tmp_path)


# A row of a pooling had loops that never ran, of which gcc -O2 said that "iteration 613566756 invokes undefined".
POOLS = {
    # label: input, kernel, strides, pads_begin, pads_end, output
    "above": ((4, 5), (2, 3), (3, 1), (1, 0), (0, 0), (2, 3)),
    "below": ((4, 5), (2, 3), (3, 1), (0, 0), (1, 0), (2, 3)),
    "before": ((4, 5), (2, 3), (2, 3), (0, 1), (0, 0), (2, 2)),
    "behind": ((4, 5), (2, 3), (2, 3), (0, 0), (0, 1), (2, 2)),
    "all around": ((6, 6), (3, 3), (2, 2), (1, 1), (1, 1), (3, 3)),
}


def pools():
    for (label, (size, kernel, strides, before, after, output)), last in product(POOLS.items(), (False, True)):
        g = ConvGeometry(1, 7, 7, 7, size, kernel, strides, (1, 1), before, after, output)
        x = quantized("x", DType.INT8, (1, 7, *size), 0.1, 3, NCHW)
        y = quantized("y", DType.INT8, (1, 7, *output), 0.05, 3, NCHW)
        same = quantized("y", DType.INT8, (1, 7, *output), 0.1, 3, NCHW)
        zeros = np.zeros(x.shape, np.int8)
        order = (0, 2, 3, 1) if last else ()
        name = f"{label.replace(' ', '_')}_{'last' if last else 'first'}"
        yield Unit(
            f"average_{name}",
            AveragePool("pool", "AveragePool", x, y, g, True),
            (zeros,),
            (order,) if last else (),
            order,
        )
        yield Unit(f"max_{name}", MaxPool("pool", "MaxPool", x, same, g), (zeros,), (order,) if last else (), order)


@pytest.mark.parametrize("compiler", some_at_first(["gcc", "clang"]))
@pytest.mark.parametrize("level", some_at_first(["-O2", "-O3", "-Os"]))
def test_padded_pools_take_the_strict_flags(compiler, level, tmp_path):
    require(compiler)
    units = list(pools())
    for each in units:
        artifact_of(each).write(tmp_path)
    call([compiler, *STRICT_FLAGS, level, "-c", *(f"{each.name}.c" for each in units)], tmp_path)


# gcc keeps r8 to r11 from operands when it optimizes Thumb-1 code for size: assembly that needed them did not build.
#
# The same holds for the baseline of ARMv8-M (Cortex-M23), which has these instructions and some more.
GALLERY = sorted((Path(__file__).resolve().parents[2] / "generated").glob("*_cortex_m0.c"))
OF_THUMB1 = (*EXTREMES, *SHAPES[::9], *DEPTHWISE_EXTREMES, *DEPTHWISE_SHAPES[::9])
LEVELS = ("-Os", "-O0")


@pytest.mark.parametrize("core", ["cortex-m0", "cortex-m23"])
@pytest.mark.parametrize("level", some_at_first(["-Os", "-O0", "-O1", "-O2", "-O3"]))
def test_the_gallery_compiles_at_every_level(core, level, tmp_path):
    require("arm-none-eabi-gcc")
    flags = [f"-mcpu={core}", "-mthumb", "-mfloat-abi=soft", *STRICT_FLAGS, level]
    assert GALLERY
    call(["arm-none-eabi-gcc", *flags, "-c", *map(str, GALLERY)], tmp_path)


@pytest.mark.parametrize("compiler", some_at_first(["gcc", "clang"]))
@pytest.mark.parametrize("level", some_at_first(LEVELS))
def test_outputs_of_thumb1_for_size_equal_the_reference(compiler, level, tmp_path, everything):
    require_core("cortex-m0", compiler, counting=False)
    cases = OF_THUMB1 if everything else OF_THUMB1[::8]
    assert not wrong_outputs("cortex-m0", on_core(cases, "cortex-m0"), tmp_path, compiler, (level,))


@pytest.mark.parametrize("optimize", ["size", "speed"])
def test_a_product_with_a_table_far_away_assembles(tmp_path, optimize):
    """LDRD reaches 1020 bytes: gcc once added a larger offset to a table's address, which the assembler refused."""
    require("arm-none-eabi-gcc")
    weights = np.random.default_rng(1).integers(-127, 128, (10, 64, 1, 1)).astype(np.int8)
    model = qlinear_conv((1, 64, 1, 1), weights, x_type="int8", y_type="int8", w_zero_point=np.zeros(10), y_scale=4.0)
    artifact = qcgen.compile(model, name="product", target="cortex-m4", layout="nhwc", optimize=optimize)
    artifact.write(tmp_path)
    call(["arm-none-eabi-gcc", *TARGETS["cortex-m4"].flags, "-std=c99", "-O3", "-c", "product.c"], tmp_path)


@pytest.mark.emulated
@pytest.mark.parametrize("taps", [63, 95])
def test_loops_that_a_branch_does_not_reach_back_to_assemble(taps, tmp_path):
    """Of channels in groups of four and of two elements: with 95 of them, both loops take more than 2 KiB."""
    require_core("cortex-m0", counting=False)
    weights = np.full((16, taps, 1, 1), 60, np.int8)
    weights[::8] = 120
    model = qlinear_conv((1, taps, 4, 4), weights)
    artifact = qcgen.compile(model, target="cortex-m0", optimize="speed", layout="nhwc", name="far")
    assert artifact.files["far.c"].count("_large_loop") > 1
    feeds = drawn(model)
    image = cross_build("cortex-m0", [artifact], ("-O2",), tmp_path)
    [outcome] = emulate(image, [Trial({name: held(x, artifact.plan.inputs[0]) for name, x in feeds.items()}, 0)])
    [expected] = judge(model, feeds)
    np.testing.assert_array_equal(
        outcome.outputs["y"].reshape(-1), held(expected, artifact.plan.outputs[0]).reshape(-1)
    )


# Two equal depthwise layers, channels first: the macro before the function that they share was not defined.
LAYERS: dict[str, Callable[[Network, str], str]] = {
    "window": lambda n, x: n.conv(x, 6, 3),
    "pointwise": lambda n, x: n.conv(x, 6),
    "groups": lambda n, x: n.conv(x, 6, 3, group=2),
    "depthwise": lambda n, x: n.depthwise(x, 3),
    "large": lambda n, x: n.depthwise(x, 5),
    "narrow": lambda n, x: n.conv(x, 6, 2),
    "dense": lambda n, x: n.conv(x, 16),
}


def pairs(kind: str, depth: int) -> onnx.ModelProto:
    """Two layers from input to output, or two behind two others: they differ in nothing but weights and scales.

    No other layer defines what their functions need.
    """
    n = Network((1, 16, 1, 1) if kind == "dense" else (1, 6, 12, 11))
    ys = ["x", "x"]
    for _ in range(depth):
        ys = [LAYERS[kind](n, y) for y in ys]
    model = n.model(ys[0])
    model.graph.output.append(helper.make_tensor_value_info(ys[1], TensorProto.INT8, n.image(ys[1])))
    return model


@pytest.mark.parametrize("layout", some_at_first(["nhwc", "nchw"]))
@pytest.mark.parametrize("target", some_at_first(list(TARGETS), "cortex-m4"))
def test_the_c_of_layers_that_share_functions_compiles(target, layout, tmp_path):
    require("gcc")
    options = {"target": target, "layout": layout, "io": "quantized"}
    artifacts = [
        qcgen.compile(pairs(kind, depth), name=f"{kind}_{depth}", **options) for kind, depth in product(LAYERS, (1, 2))
    ]
    assert sum(bool(artifact.plan.shared) for artifact in artifacts) >= 4
    for artifact in artifacts:
        artifact.write(tmp_path)
    call(["gcc", *STRICT_FLAGS, "-fsyntax-only", *(path.name for path in tmp_path.glob("*.c"))], tmp_path)


# A depthwise layer none of whose taps meets the image, on cores without a DSP extension: variables were not used.
@pytest.mark.parametrize("optimize", some_at_first(["size", "speed"]))
@pytest.mark.parametrize("zero", some_at_first([5, 0]))
@pytest.mark.parametrize("target", ["portable", "cortex-m0", "cortex-m4", "cortex-m55", "host"])
def test_a_depthwise_layer_beside_the_image_has_onnxruntimes_outputs(target, zero, optimize):
    require("gcc")
    window = {"kernel_shape": [3, 3], "strides": [2, 1], "pads": [3, 1, 2, 3], "dilations": [2, 2], "group": 3}
    nodes = [helper.make_node("ConvInteger", ["x", "w", "zero"], ["y"], **window)]
    weights = np.arange(1, 28, dtype=np.int8).reshape(3, 1, 3, 3)
    model = graph_model(nodes, {"x": ("uint8", (1, 3, 1, 1))}, {"y": None}, {"w": weights, "zero": np.uint8(zero)})
    feeds = {"x": np.array([7, 200, 13], np.uint8).reshape(1, 3, 1, 1)}
    compiled = assert_judged(model, feeds, flags="-O1", target=target, optimize=optimize, layout="nhwc")
    assert compiled.plan.calls[0].kernel != "scalar/depthwise"


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("target", ["portable", "cortex-m0", "rv32imc", "cortex-m4", "cortex-m55", "host"])
def test_sums_of_few_codes_are_those_of_onnxruntime(target, count):
    """The loop of cores with few registers ends at 0, for which a single element has no count."""
    node = helper.make_node("QLinearAdd", ["a", "s", "z", "b", "s", "z", "t", "z"], ["y"], domain="com.microsoft")
    constants = {"s": np.float32(0.5), "t": np.float32(0.7), "z": np.uint8(3)}
    given = dict.fromkeys("ab", ("uint8", (1, count)))
    model = graph_model([node], given, {"y": ("uint8", (1, count))}, constants, opsets={"com.microsoft": 1})
    assert_judged(model, target=target)
