"""DynamicQuantizeLSTM, whose scales are found for each input, for h before each step: onnxruntime's in every bit."""

import subprocess

import numpy as np
import pytest
from cffi import FFI
from marks import share_at_first
from models import MICROSOFT, node_model
from onnx import ModelProto, helper
from tools import require

import qcgen
from qcgen import functions
from qcgen.build import STRICT_FLAGS
from qcgen.verification import verify

STEPS, INPUTS, UNITS = 7, 5, 6
FUSING = ("-O3", "-march=native", "-ffp-contract=fast")
"""Flags that allow a product and a sum to become one operation, and that give the processor's fused one."""

CASES = {
    "forward": {},
    "backward": {"direction": "reverse"},
    "both": {"direction": "bidirectional"},
    "uint8": {"zero": np.uint8(131)},
    "int8 with a zero point": {"zero": np.int8(-9)},
    "a scale for each row": {"rows": True},
    "states given": {"states": "given", "direction": "bidirectional"},
    "constant states": {"states": "constant"},
    "no bias": {"bias": False},
    "the last state alone": {"outputs": ["", "h", ""]},
    "the cell alone": {"outputs": ["", "", "c"], "direction": "bidirectional"},
}


ZERO = np.int8(0)


def lstm(direction="forward", *, zero=ZERO, rows=False, states="", bias=True, outputs=("y", "h", "c")) -> ModelProto:
    """A layer of a few units; ``zero`` is the zero point of its weights, and their type."""
    generator = np.random.default_rng(len(direction) + rows)
    count, info = 2 if direction == "bidirectional" else 1, np.iinfo(zero.dtype)
    sizes = (count, 4 * UNITS) if rows else (count,)

    def codes(terms: int) -> np.ndarray:
        return generator.integers(info.min, info.max + 1, (count, terms, 4 * UNITS)).astype(zero.dtype)

    def scales() -> np.ndarray:
        return generator.uniform(0.002, 0.01, sizes).astype(np.float32)

    def state() -> object:
        shape = (count, 1, UNITS)
        return {"given": ("float", shape), "constant": generator.normal(size=shape).astype(np.float32)}.get(states)

    operands = {
        "x": ("float", (STEPS, 1, INPUTS)), "w": codes(INPUTS), "r": codes(UNITS),
        "b": generator.normal(size=(count, 8 * UNITS)).astype(np.float32) if bias else None,
        "lengths": None, "h0": state(), "c0": state(), "p": None,
        "ws": scales(), "wz": np.full(sizes, zero), "rs": scales(), "rz": np.full(sizes, zero),
    }  # fmt: skip
    named = dict.fromkeys(name for name in outputs if name)
    model = node_model("DynamicQuantizeLSTM", operands, named, domain=MICROSOFT, hidden_size=UNITS, direction=direction)
    del model.graph.node[0].output[:]
    model.graph.node[0].output.extend(outputs)
    return model


@pytest.mark.parametrize("flags", [("-O0",), FUSING], ids=["unfused", "fused"])
@pytest.mark.parametrize("name", share_at_first(list(CASES), 2))
def test_every_bit_is_onnxruntimes(name, flags):
    require("gcc")
    result = verify(qcgen.compile(lstm(**CASES[name]), name="net"), cases=6, flags=flags, sums=False)
    assert result.is_right, result
    assert result.judge.oracle == "onnxruntime"
    assert result.judge.criterion == "bit for bit"


@pytest.mark.parametrize(
    ("flags", "library"),
    [((), "0"), ((), "1"), (FUSING, "1")],
    ids=["in integers", "by the library", "by the processor"],
)
def test_the_functions_are_those_with_fused_multiply_add(flags, library, tmp_path):
    """All exponents of both signs, and every number of some."""
    require("gcc")
    names = (
        "rounded",
        "soft_float_split",
        "soft_float_multiply_add",
        "fused",
        *(f"fused_{name}" for name in FUNCTIONS),
    )
    text = "".join(qcgen.render.library("").needed([], "t", names))
    text = text.replace("defined(__x86_64__)", library)
    (tmp_path / "f.c").write_text(f"#include <math.h>\n#include <stdint.h>\n#include <string.h>\n{text}{EACH}")
    command = ["gcc", *STRICT_FLAGS, "-O2", *flags, "-shared", "-fPIC", "f.c", "-o", "f.so"]
    subprocess.run(command, cwd=tmp_path, check=True)
    ffi = FFI()
    ffi.cdef(DECLARED)
    library = ffi.dlopen(str(tmp_path / "f.so"))
    words = np.concatenate([np.arange(0, 2**31, 10007), np.arange(0x3F800000, 0x3F800000 + 2**17)]).astype(np.uint32)
    x = np.concatenate([words, words | 2**31]).astype(np.uint32).view(np.float32)
    is_subnormal = (x != 0) & (np.abs(x) < np.finfo(np.float32).tiny)
    x, y = np.ascontiguousarray(x[~np.isnan(x) & ~is_subnormal]), np.zeros(x.size, np.float32)
    for name, function in FUNCTIONS.items():
        getattr(library, f"each_{name}")(ffi.from_buffer("float *", x), ffi.from_buffer("float *", y), x.size)
        with np.errstate(under="ignore"):
            assert np.array_equal(y[: x.size].view(np.uint32), function(x).view(np.uint32)), name


FUNCTIONS = {
    "erf": functions.erf,
    "exponential": functions.exponential,
    "logistic": functions.logistic,
    "tangent": functions.tanh,
}
DECLARED = "".join(f"void each_{name}(const float *x, float *y, int32_t count);\n" for name in FUNCTIONS)
EACH = DECLARED + "".join(
    f"""
void each_{name}(const float *x, float *y, int32_t count)
{{
    for (int32_t i = 0; i < count; i++) {{
        y[i] = t_fused_{name}(x[i]);
    }}
}}
"""
    for name in FUNCTIONS
)


@pytest.mark.parametrize(
    ("change", "what"),
    [({"clip": 1.0}, "it has a clip"), ({"input_forget": 1}, "input_forget"), ({"batch": 2}, "its batch is 2")],
)
def test_what_is_not_certain_is_refused(change, what):
    model = lstm()
    if "batch" in change:
        model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 2
    else:
        model.graph.node[0].attribute.extend(helper.make_attribute(*each) for each in change.items())
    with pytest.raises(qcgen.ModelRejected, match=what):
        qcgen.compile(model)
