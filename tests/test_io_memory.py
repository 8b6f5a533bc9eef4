"""Inputs and outputs in the arena, inputs that come row by row: the same outputs, in memory that is there."""

import ctypes
from functools import cache

import numpy as np
import pytest
from batch import call, require
from bench.compiling import Network
from gallery_networks import network_qdq
from interpreter import Interpreter
from marks import some_at_first
from onnx import ModelProto
from row_networks import NETWORKS

import qcgen
from qcgen import ModelRejected
from qcgen.artifact import Artifact
from qcgen.build import STRICT_FLAGS
from qcgen.emulate import random_feeds
from qcgen.emulate.image import models_header
from qcgen.verification import verify

VARIANTS = [(network, arena, "arena", "whole") for network in NETWORKS for arena in (None, "least")]
VARIANTS += [
    (network, arena, io_memory, "rows")
    for network in ("residual", "separable", "digits")
    for arena in (None, "least")
    for io_memory in ("caller", "arena")
]
VARIANTS_AT_FIRST = [variant for variant in VARIANTS if variant[0] == "residual"]


@cache
def artifact(network: str, arena: str | None, io_memory: str = "arena", input: str = "whole") -> Artifact:
    name = f"{network}_{arena}_{io_memory}" + ("_rows" if input == "rows" else "")
    options = {"layout": "nhwc", "io": "quantized", "arena": arena, "io_memory": io_memory, "input": input}
    return qcgen.compile(NETWORKS[network](), name=name, **options)


@pytest.fixture(scope="module")
def library(tmp_path_factory, level, everything):
    """One shared library of all variants; NAME_whole copies inputs to where the header says, and outputs from there."""
    require("gcc")
    folder = tmp_path_factory.mktemp("io_memory")
    artifacts = [artifact(*variant) for variant in (VARIANTS if everything else VARIANTS_AT_FIRST)]
    text = models_header([each.plan for each in artifacts]).replace("#include", "#include <stdint.h>\n#include", 1)
    for index, each in enumerate(artifacts):
        each.write(folder)
        text += f'#include "{each.plan.prefix}.c"\nvoid {each.plan.prefix}_whole(void *const *tensors, void *arena);\n'
        text += f"void {each.plan.prefix}_whole(void *const *tensors, void *arena) {{ const struct model *m = &MODELS"
        text += f"[{index}]; m->put(tensors, arena); m->call(tensors, arena); m->get(tensors, arena); }}\n"
    (folder / "all.c").write_text(text)
    flags = [level, "-fsanitize=undefined", "-fno-sanitize-recover=all", "-shared", "-fPIC"]
    call(["gcc", *STRICT_FLAGS, *flags, "-o", "all.so", "all.c"], folder)
    return ctypes.CDLL(str(folder / "all.so"))


@pytest.mark.parametrize("variant", some_at_first(VARIANTS, *VARIANTS_AT_FIRST))
def test_outputs_do_not_depend_on_where_tensors_lie(variant, library):
    each, model = artifact(*variant), artifact(variant[0], None, "caller").load(flags=("-O0",))
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


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_byte_is_there_when_it_is_read(variant):
    Interpreter(artifact(*variant).plan).run()


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
    from qcgen.cli.report_text import ram

    report = artifact("separable", None).report
    line = ram(report)
    assert line.startswith(f"RAM: {report.arena_bytes:,} B without the stack: arena ".replace(",", " "))
    assert "with inputs 1 152 B, outputs 480 B in it" in line


# --- rows


def test_of_an_input_that_comes_in_rows_one_row_is_counted():
    report = artifact("separable", "least", "caller", "rows").report
    assert report.ram_bytes == report.arena_bytes + 8 * 3 + report.output_bytes
    assert report.ram_bytes < 0.7 * artifact("separable", "least", "caller").report.ram_bytes


def test_the_ram_is_told_with_a_row_of_the_input():
    from qcgen.cli.report_text import ram

    report = artifact("separable", "least", "caller", "rows").report
    assert f"arena {report.arena_bytes} B, a row of the input 24 B, outputs 480 B" in ram(report)


def test_a_row_may_be_forgotten_or_come_too_often(library):
    """The outputs are wrong then, but nothing is written beside the arena."""
    each = artifact("residual", "least", "arena", "rows")
    name, row = each.plan.prefix, np.zeros(30, np.int8)
    memory = np.full(each.plan.arena_bytes + 32, 0xA5, np.uint8)
    begin = 16 + -(memory.ctypes.data + 16) % 8
    arena = ctypes.c_void_p(memory.ctypes.data + begin)
    for rows in (0, 10, 100):
        getattr(library, f"{name}_begin")(arena)
        for _ in range(rows):
            getattr(library, f"{name}_push_row")(arena, ctypes.c_void_p(row.ctypes.data))
        getattr(library, f"{name}_end")(arena)
        assert (memory[:begin] == 0xA5).all()
        assert (memory[begin + each.plan.arena_bytes :] == 0xA5).all()


def test_a_budget_holds_with_rows_too():
    least = artifact("residual", "least", "caller", "rows").plan.arena_bytes
    options = {"layout": "nhwc", "input": "rows"}
    assert qcgen.compile(NETWORKS["residual"](), arena=least, **options).plan.arena_bytes <= least
    with pytest.raises(ModelRejected, match=f"the least that was reached is {least} bytes"):
        qcgen.compile(NETWORKS["residual"](), arena=least - 1, **options)


def matrix() -> ModelProto:
    n = Network((1, 8, 1, 1))
    return n.model(n.conv("x", 4))


def mean_first() -> ModelProto:
    n = Network((1, 4, 12, 6))
    return n.model(n.conv(n.mean("x"), 4))


def many_rows() -> ModelProto:
    n = Network((1, 4, 1030, 1))
    return n.model(n.conv("x", 4))


def read_from_afar() -> ModelProto:
    """The input is added behind a mean, which ends every chain."""
    n = Network((1, 4, 12, 6))
    y = n.conv("x", 4, 3)
    total = n.sum(y, y)
    model = n.model(n.conv(total, 4))
    [node] = [node for node in model.graph.node if node.name == total]
    node.input[0] = "x"
    node.input[3] = n.mean(y)
    model.graph.node.insert(1, n._nodes[-1])
    return model


REFUSED = {
    "two_inputs": (NETWORKS["two_inputs"], {}, "it has 2 inputs, and rows are pushed of a single one"),
    "nchw": (NETWORKS["residual"], {"layout": "nchw"}, "its channels lie first.*use layout=.nhwc."),
    "batch": (NETWORKS["batch"], {}, r"its shape is \[2, 3, 12, 6\], and rows are those of one image"),
    "rows": (many_rows, {}, "it has 1,030 rows, and images of at most 1,024 run row by row"),
    "one row": (matrix, {}, "it reads the input and does not run row by row"),
    "from afar": (read_from_afar, {}, "it reads the input, too, and no chain of layers"),
    "float": (network_qdq, {"io": "model"}, "its elements are float, .*use io=.quantized."),
}


def test_rows_of_a_mean_are_added_up_as_they_are_pushed():
    pushed = qcgen.compile(mean_first(), layout="nhwc", io="quantized", input="rows", io_memory="arena")
    assert pushed.plan.streams[0].calls[0].kernel == "portable/mean_of_rows"
    assert verify(pushed, cases=3, sums=False, flags=("-O0",)).is_right


@pytest.mark.parametrize("what", REFUSED)
def test_rows_are_refused_with_the_reason(what):
    model, options, message = REFUSED[what]
    with pytest.raises(ModelRejected, match=f"(?s){message}"):
        qcgen.compile(model(), **{"layout": "nhwc", "io": "quantized", "input": "rows", **options})


def test_a_single_layer_takes_rows_if_its_output_lies_in_the_arena():
    n = Network((1, 3, 12, 6))
    model = n.model(n.conv("x", 4, 3))
    with pytest.raises(ModelRejected, match=r"(?s)before the caller says where.*use io_memory=.arena."):
        qcgen.compile(model, layout="nhwc", input="rows")
    artifact = qcgen.compile(model, layout="nhwc", input="rows", io_memory="arena")
    assert verify(artifact, cases=2, sums=False).is_right
