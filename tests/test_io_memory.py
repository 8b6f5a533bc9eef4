"""Inputs and outputs in the arena: where the header says, overwritten where that is safe, and the same outputs."""

import ctypes
from functools import cache

import numpy as np
import pytest
from batch import call, require
from interpreter import Interpreter
from row_networks import NETWORKS

import qcgen
from qcgen.artifact import Artifact
from qcgen.build import STRICT_FLAGS
from qcgen.emulate import random_feeds
from qcgen.emulate.image import models_header

VARIANTS = [(network, arena) for network in NETWORKS for arena in (None, "least")]


@cache
def artifact(network: str, arena: str | None, io_memory: str = "arena") -> Artifact:
    name = f"{network}_{arena}_{io_memory}"
    return qcgen.compile(
        NETWORKS[network](), name=name, layout="nhwc", io="quantized", arena=arena, io_memory=io_memory
    )


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """One shared library of all variants; NAME_whole copies inputs to where the header says, and outputs from there."""
    require("gcc")
    folder = tmp_path_factory.mktemp("io_memory")
    artifacts = [artifact(*variant) for variant in VARIANTS]
    text = models_header([each.plan for each in artifacts]).replace("#include", "#include <stdint.h>\n#include", 1)
    for index, each in enumerate(artifacts):
        each.write(folder)
        text += f'#include "{each.plan.prefix}.c"\nvoid {each.plan.prefix}_whole(void *const *tensors, void *arena);\n'
        text += f"void {each.plan.prefix}_whole(void *const *tensors, void *arena) {{ const struct model *m = &MODELS"
        text += f"[{index}]; m->put(tensors, arena); m->call(tensors, arena); m->get(tensors, arena); }}\n"
    (folder / "all.c").write_text(text)
    flags = ["-O1", "-fsanitize=undefined", "-fno-sanitize-recover=all", "-shared", "-fPIC"]
    call(["gcc", *STRICT_FLAGS, *flags, "-o", "all.so", "all.c"], folder)
    return ctypes.CDLL(str(folder / "all.so"))


@pytest.mark.parametrize(("network", "arena"), VARIANTS)
def test_outputs_do_not_depend_on_where_tensors_lie(network, arena, library):
    each, model = artifact(network, arena), artifact(network, None, "caller").load(flags=("-O0",))
    for seed, garbage in ((1, 0xA5), (2, 0)):
        feeds = random_feeds(each.plan, seed)
        expected = dict(zip((p.tensor.name for p in each.plan.outputs), model.run(None, feeds), strict=True))
        arrays = {port: np.ascontiguousarray(feeds[port.tensor.name]) for port in each.plan.inputs}
        arrays |= {port: np.zeros(port.shape, port.tensor.dtype.numpy) for port in each.plan.outputs}
        memory = np.full(each.plan.arena_bytes + 32, garbage, np.uint8)
        begin = 16 + -(memory.ctypes.data + 16) % 8
        pointers = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays.values()))
        getattr(library, f"{each.plan.prefix}_whole")(pointers, ctypes.c_void_p(memory.ctypes.data + begin))
        assert (memory[:begin] == garbage).all()
        assert (memory[begin + each.plan.arena_bytes :] == garbage).all()
        for port in each.plan.outputs:
            np.testing.assert_array_equal(arrays[port], expected[port.tensor.name])


@pytest.mark.parametrize(("network", "arena"), VARIANTS)
def test_every_byte_is_there_when_it_is_read(network, arena):
    Interpreter(artifact(network, arena).plan).run()


def test_an_input_that_is_overwritten_too_soon_is_missed():
    plan = artifact("separable", None).plan
    [port] = plan.inputs
    object.__setattr__(port, "offset", port.offset + 8)
    try:
        with pytest.raises(AssertionError, match=r"reads x|input x"):
            Interpreter(plan).run()
    finally:
        artifact.cache_clear()


@pytest.mark.parametrize("network", ["residual", "separable", "digits"])
def test_ram_in_all_is_the_arena_and_less_than_before(network):
    before, after = artifact(network, None, "caller").report, artifact(network, None).report
    assert after.ram_bytes == after.arena_bytes < before.ram_bytes


def test_one_input_and_one_output_have_plain_names():
    header = artifact("residual", None).files["residual_None_arena.h"]
    assert "static inline int8_t *residual_None_arena_input(void *arena)\n" in header
    assert "static inline int8_t *residual_None_arena_output(void *arena)\n" in header
    assert "void residual_None_arena_run(void *arena);\n" in header


def test_several_inputs_and_outputs_are_told_apart_by_their_names():
    header = artifact("two_inputs", None).files["two_inputs_None_arena.h"]
    for name in ("input_x", "input_b", "output_qlinearconv_0", "output_qlinearconv_2"):
        assert f"static inline int8_t *two_inputs_None_arena_{name}(void *arena)\n" in header


def test_the_accessors_lie_where_the_plan_says_and_apart_before_the_call():
    plan = artifact("two_inputs", None).plan
    a, b = sorted((port.offset, port.bytes) for port in plan.inputs)
    assert a[0] + a[1] <= b[0]


def test_a_node_called_input_does_not_take_the_accessor_s_name():
    model = NETWORKS["separable"]()
    model.graph.node[0].name = "input"
    model.graph.node[1].name = "output_x"
    files = qcgen.compile(model, name="net", layout="nhwc", io_memory="arena").files
    assert "net_n0_input(" in files["net.c"]
    assert "net_n1_output_x(" in files["net.c"]


def test_the_ram_is_told_with_inputs_and_outputs_in_it():
    from qcgen.cli.report_text import memory

    report = artifact("separable", None).report
    [line] = memory(report)
    assert line.startswith(f"RAM: {report.arena_bytes:,} B in all: arena ".replace(",", " "))
    assert "with inputs 1 152 B, outputs 480 B in it" in line
