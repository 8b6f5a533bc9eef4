"""The generated C functions that requantize, against float32 arithmetic: each over all accumulators it can meet."""

import re
import subprocess
from dataclasses import dataclass

import numpy as np
import pytest
from models import qlinear_conv

import qcgen
from qcgen.arithmetic import multiplier_scale
from qcgen.build import host_compiler
from qcgen.intervals import INT32_MAX, INT32_MIN, accumulator_interval
from qcgen.ir.context import names_of
from qcgen.requantize import choose
from qcgen.requantize.fixed_point import FixedPoint, decompose
from qcgen.requantize.lines import Staircase, staircase

PROCESSES = 2
STRICT_FLOAT = ("-std=c99", "-O2", "-ffp-contract=off", "-fno-fast-math", "-Wno-unused-function")

EMULATED_SCALES = {
    "power of two": 2.0**-8,
    "usual": 0.0037,
    "just below a power of two": float(np.nextafter(np.float32(2.0**-9), np.float32(0))),
    "above one": 2.1,
    "tiny": 1e-9,
}

EMULATE_PROGRAM = """
#include "e.c"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#if FLT_EVAL_METHOD != 0
#error "float expressions must be evaluated in float32"
#endif

static long differences = 0;
static const float limit = 8388608.0f; /* 2^23: what is beyond need not be told apart */

static void check(int64_t wide, float scale, int32_t mantissa, int32_t exponent)
{
    const int32_t acc = (int32_t)wide;
    const float value = (float)acc * scale;
    const long expected = lrintf(value > limit ? limit : value < -limit ? -limit : value);
    int32_t found = e_soft_float_code(acc, mantissa, exponent);

    found = found > 8388608 ? 8388608 : found < -8388608 ? -8388608 : found;
    if (found != expected && differences++ < 5) {
        printf("acc %ld: %ld, not %ld\\n", (long)acc, (long)found, expected);
    }
}

int main(int argc, char **argv)
{
    const long long first = atoll(argv[1]), last = atoll(argv[2]), stride = atoll(argv[3]);
    const float scale = strtof(argv[4], NULL);
    const int32_t mantissa = atoi(argv[5]), exponent = atoi(argv[6]);
    long long walked = 0;

    (void)argc;
    for (int64_t acc = first; acc <= last; acc += stride) {
        check(acc, scale, mantissa, exponent);
        walked++;
    }
    for (int bits = 0; bits < 31; bits++) {
        for (int64_t away = -3; away <= 3; away++) {
            check(((int64_t)1 << bits) + away, scale, mantissa, exponent);
            check(-((int64_t)1 << bits) + away, scale, mantissa, exponent);
        }
    }
    printf("%lld accumulators, %ld differences\\n", walked, differences);
    return differences != 0;
}
"""

LAYER_PROGRAM = """
#include "e.c"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#if FLT_EVAL_METHOD != 0
#error "float expressions must be evaluated in float32"
#endif

static const int64_t lowest[] = {@lo@};
static const int64_t highest[] = {@hi@};
static const int64_t addend[] = {@addend@};
static const float scale[] = {@scale@};

int main(int argc, char **argv)
{
    const int part = atoi(argv[1]), parts = atoi(argv[2]);
    const float low = @low@ - (@zero_point@), high = @high@ - (@zero_point@);
    long long walked = 0;
    long differences = 0;

    (void)argc;
    for (int32_t m = 0; m < @channels@; m++) {
        for (int64_t acc = lowest[m] + part; acc <= highest[m]; acc += parts) {
            const float value = (float)(int32_t)acc * scale[m];
            const long expected = lrintf(value < low ? low : value > high ? high : value) + (@zero_point@);
            const long found = @call@;

            walked++;
            if (found != expected && differences++ < 5) {
                printf("channel %ld, acc %lld: %ld, not %ld\\n", (long)m, (long long)acc, found, expected);
            }
        }
    }
    printf("%lld accumulators, %ld differences\\n", walked, differences);
    return differences != 0;
}
"""


@dataclass(frozen=True)
class Layer:
    """A compiled layer of 1x1 convolutions: its C text, the symbol of its node, what it means and what was chosen."""

    text: str
    header: str
    symbol: str
    stairs: Staircase
    fixed: FixedPoint


def compile_layer(
    scale, weights, bias=None, target: str = "portable", y_zero_point: int = -5, optimize: str = "size"
) -> Layer:
    """A QLinearConv, int8 in and out, whose scale in float32 is ``scale`` for each channel.

    For speed it has two pixels, since kernels sum 2^k times the accumulators of two at a time.
    """
    scale = np.asarray(scale, np.float32)
    model = qlinear_conv(
        (1, weights.shape[1], 1, 2 if optimize == "speed" else 1),
        weights[..., None, None],
        x_type="int8",
        y_type="int8",
        x_scale=1.0,
        w_scale=scale,
        y_scale=1.0,
        y_zero_point=y_zero_point,
        bias=None if bias is None else list(bias),
    )
    artifact = qcgen.compile(model, name="e", target=target, layout="nhwc", optimize=optimize)
    op = artifact.program.operators[0]
    one = np.ones(1, np.float32)
    assert np.array_equal(
        op.epilogue.scale, np.broadcast_to(multiplier_scale(one, scale, one), op.epilogue.scale.shape)
    )
    reached = accumulator_interval(op)
    stairs = staircase(op.epilogue, reached.lo, reached.hi)
    bits = 32 - names_of(artifact.plan.calls[0].context)["output"].word if optimize == "speed" else 0
    fixed = choose(stairs, narrow=target == "cortex-m0", bits=bits)
    return Layer(artifact.files["e.c"], artifact.files["e.h"], artifact.plan.calls[0].symbol, stairs, fixed)


def build_program(folder, layer: Layer, text: str):
    """An executable of a program that includes the layer's C file."""
    (folder / "e.c").write_text(layer.text)
    (folder / "e.h").write_text(layer.header)
    (folder / "walk.c").write_text(text)
    command = [*host_compiler(), *STRICT_FLOAT, "walk.c", "-lm", "-o", "walk"]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return folder / "walk"


def walk(program, arguments: list[list[object]]) -> int:
    """Runs the program with each list of arguments, all at once; the number of accumulators, if none differs."""
    runs = [
        subprocess.Popen([program, *map(str, words)], stdout=subprocess.PIPE, text=True)  # all start before any ends
        for words in arguments
    ]
    outputs = [run.communicate()[0] for run in runs]
    for run, output in zip(runs, outputs, strict=True):
        assert run.returncode == 0, output
    return sum(int(re.search(r"(\d+) accumulators, 0 differences", output)[1]) for output in outputs)


@pytest.fixture(scope="module")
def emulate_program(tmp_path_factory):
    """The program that walks through the C function soft_float_code, taken from a layer that has it."""
    layer = compile_layer([2.0**-8], np.ones((1, 4), np.int8))
    return build_program(tmp_path_factory.mktemp("emulate"), layer, EMULATE_PROGRAM)


def scale_words(scale: float) -> list[object]:
    """A scale as the program takes it: a float, its mantissa and its exponent."""
    mantissa, exponent = decompose(np.array([scale], np.float32))
    return [float(np.float32(scale)).hex(), int(mantissa[0]), int(exponent[0])]


@pytest.mark.parametrize(
    "scale",
    [*EMULATED_SCALES.values(), 3.7e-12, 1e-45, 0.5, 300.0, 1e30],
    ids=lambda scale: f"{scale:.4g}",
)
def test_emulate_equals_float32_on_every_65537th_accumulator(emulate_program, scale):
    walked = walk(emulate_program, [[INT32_MIN, INT32_MAX, 65537, *scale_words(scale)]])
    assert walked == (2**32 + 65536) // 65537


@pytest.mark.exhaustive
@pytest.mark.parametrize("scale", EMULATED_SCALES.values(), ids=EMULATED_SCALES.keys())
def test_emulate_equals_float32_on_all_accumulators(emulate_program, scale):
    words = scale_words(scale)
    halves = [[INT32_MIN + half, INT32_MAX, PROCESSES, *words] for half in range(PROCESSES)]
    assert walk(emulate_program, halves) == 2**32


def test_the_walk_notices_a_wrong_scale(emulate_program):
    scale, mantissa, exponent = scale_words(0.0037)
    with pytest.raises(AssertionError, match="differences"):
        walk(emulate_program, [[INT32_MIN, INT32_MAX, 65537, scale, mantissa + 1, exponent]])


def call_of(layer: Layer) -> str:
    """The call that requantizes the accumulator of channel m.

    Its arguments behind the accumulator are the channel or, in code made for a core, what the tables hold for it.
    """
    function = re.search(rf" ({layer.symbol}_(?:requantize|code))\(int32_t acc([^)]*)\)", layer.text)
    names = re.findall(r", int32_t (\w+)", function[2])
    arguments = ["m" if name == "m" else f"{layer.symbol}_{name}[m]" for name in names]
    return f"{function[1]}({', '.join([f'(int32_t)(acc * {2**layer.fixed.bits} + addend[m])', *arguments])})"


def layer_program(folder, layer: Layer):
    """The program that walks through the whole interval of each channel of a layer."""
    meaning = layer.stairs.requantize
    fills = {
        "lo": ", ".join(f"INT64_C({value})" for value in layer.stairs.lo),
        "hi": ", ".join(f"INT64_C({value})" for value in layer.stairs.hi),
        "addend": ", ".join(f"INT64_C({value})" for value in layer.fixed.addend),
        "scale": ", ".join(f"{float(value).hex()}f" for value in meaning.scale),
        "low": meaning.low,
        "high": meaning.high,
        "zero_point": meaning.zero_point,
        "channels": meaning.scale.size,
        "call": call_of(layer),
    }
    text = LAYER_PROGRAM
    for name, value in fills.items():
        text = text.replace(f"@{name}@", str(value))
    return build_program(folder, layer, text)


def walk_layer(folder, layer: Layer) -> None:
    """Fails unless the C equals float32 on every reachable accumulator of every channel."""
    program = layer_program(folder, layer)
    walked = walk(program, [[part, PROCESSES] for part in range(PROCESSES)])
    assert walked == int((layer.stairs.hi - layer.stairs.lo + 1).sum())


@dataclass(frozen=True)
class Case:
    """A layer of ``channels`` that is expected to get ``arithmetic`` and exactly these ``forms``."""

    name: str
    arithmetic: str
    forms: tuple[str, ...]
    scale: tuple[float, float]
    taps: int = 16
    powers_of_two: int = 0
    target: str = "portable"
    channels: int = 12
    optimize: str = "size"


CASES = (
    Case("multiply-high", "multiply-high", ("multiply-high",), (0.002, 0.02)),
    Case("multiply-high, long intervals", "multiply-high", ("multiply-high", "guard band"), (0.0002, 0.002), taps=100),
    Case(
        "multiply-high, guard bands", "multiply-high", ("multiply-high", "guard band"), (0.002, 0.02), powers_of_two=2
    ),
    Case("wide, guard bands only", "wide", ("guard band",), (0.002, 0.02), powers_of_two=12),
    Case("wide", "wide", ("wide",), (0.5, 0.9), taps=1),
    Case("wide, guard bands", "wide", ("wide", "guard band"), (0.5, 0.9), taps=1, powers_of_two=3),
    Case("wide, scales above one", "wide", ("wide",), (1.5, 9.0), taps=1),
    Case("narrow", "narrow", ("narrow",), (0.3, 2.0), taps=1, target="cortex-m0"),
    Case("split", "split", ("split",), (0.002, 0.02), target="cortex-m0"),
    Case("split, guard bands", "split", ("split", "guard band"), (0.0002, 0.002), taps=100, target="cortex-m0"),
    Case("soft-float", "soft-float", ("soft-float",), (3e9, 4e9), taps=1),
    Case("multiply-high, cortex-m3", "multiply-high", ("multiply-high",), (0.002, 0.02), target="cortex-m3"),
    Case(
        "multiply-high, finer sums, guard bands",
        "multiply-high",
        ("multiply-high", "guard band"),
        (0.002, 0.02),
        powers_of_two=2,
        target="cortex-m4",
        optimize="speed",
    ),
    Case("multiply-high, rv32imc", "multiply-high", ("multiply-high",), (0.002, 0.02), target="rv32imc"),
)


def layer_of(case: Case) -> Layer:
    """The layer of a case: random scales and weights, some of the scales replaced by powers of two."""
    rng = np.random.default_rng(21)
    scale = rng.uniform(*case.scale, case.channels).astype(np.float32)
    scale[: case.powers_of_two] = np.float32(2.0) ** -np.ceil(-np.log2(scale[: case.powers_of_two]))
    weights = rng.integers(-128, 128, (case.channels, case.taps)).astype(np.int8)
    weights[weights == 0] = 1
    if case.name == "wide, scales above one" or case.name == "narrow":
        weights = np.sign(weights).astype(np.int8) * 5
    return compile_layer(scale, weights, rng.integers(-200, 200, case.channels), case.target, optimize=case.optimize)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_requantize_equals_float32_on_every_reachable_accumulator(case, tmp_path):
    layer = layer_of(case)
    assert layer.fixed.arithmetic == case.arithmetic
    assert set(layer.fixed.forms) == set(case.forms)
    assert layer.fixed.subtracts == (case.optimize == "speed")
    walk_layer(tmp_path, layer)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("scale", "form"),
    [(0.0031415926, "multiply-high"), (2.0**-8, "guard band"), (2.0**-24, "guard band"), (0.71731, "wide")],
    ids=lambda value: value if isinstance(value, str) else f"{value:.4g}",
)
def test_requantize_of_a_sum_that_wraps_equals_float32_on_all_accumulators(scale, form, tmp_path):
    layer = compile_layer([scale], np.ones((1, 1), np.int8), [INT32_MAX])
    assert (int(layer.stairs.lo[0]), int(layer.stairs.hi[0])) == (INT32_MIN, INT32_MAX)
    assert layer.fixed.forms == {form: 1}
    walk_layer(tmp_path, layer)
