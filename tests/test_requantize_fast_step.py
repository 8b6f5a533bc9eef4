"""The certificate of the fast output step: what kernels compile, near-tie test included, against equation (1)."""

import importlib
from dataclasses import replace

import numpy as np
import pytest
from models import qlinear_conv, random_weights
from requantization_layers import stairs_of

import qcgen
from qcgen.errors import ProofFailed
from qcgen.intervals import INT32_MAX, INT32_MIN
from qcgen.kernels import fast_output
from qcgen.requantize import choose
from qcgen.requantize.fixed_point import FastStep, certify_fast, window_needed

SCALES = (0.0025, 0.0071, 0.0113, 0.00307, 2.0**-8, 2.0**-9)
WINDOW = 3  # odd: the power of two below it is too narrow


def wide_windows(fixed, stairs):
    """The same arithmetic with slopes so far off that the widest guard band is of 3 units."""
    for change in range(1, 1 << 20, 64):
        coarse = replace(fixed, multiplier=fixed.multiplier + change)
        needed = window_needed(coarse, stairs)
        if needed.max() == WINDOW:
            return replace(coarse, guard=needed)
    raise AssertionError("no slope needs such a window")


@pytest.fixture(scope="module")
def layer():
    """A staircase whose line has guard bands, and the line."""
    stairs = stairs_of(SCALES, [-9000] * len(SCALES), 9000, 3)
    return stairs, wide_windows(choose(stairs, bits=4), stairs)


def dsp_step(fixed, stairs, guard=4):
    """The step of the DSP and scalar kernels."""
    mask = ((1 << fixed.shift) - 1) & ~(2 * guard - 1)
    return step_of(fixed, stairs, guard=guard, mask=mask)


def mve_step(fixed, stairs, widest=WINDOW):
    """The step of the Helium kernels, whose shift rounds."""
    half = 1 << (fixed.shift - 1)
    limit = 2**31 - (widest << (32 - fixed.shift))
    return step_of(fixed, stairs, offset=fixed.offset - half, half=half, limit=limit)


def step_of(fixed, stairs, **changes):
    assert fixed.arithmetic == "multiply-high"
    step = FastStep(
        fixed.multiplier, fixed.addend, fixed.offset, fixed.guard > 0, fixed.bits, fixed.word, False, fixed.shift, 0,
        INT32_MIN, INT32_MAX, stairs.requantize.low, stairs.requantize.high, 0, 0, 0,
    )  # fmt: skip
    return replace(step, **changes)


STEPS = {"dsp": dsp_step, "mve": mve_step}


def is_right(step, stairs) -> bool:
    """Whether no reachable accumulator gets a wrong code, all of them tried."""
    acc = np.minimum(stairs.lo[:, None] + np.arange(int((stairs.hi - stairs.lo).max()) + 1), stairs.hi[:, None])
    h = step.scaled(acc)
    wrong = step.codes(h) != stairs.at(acc)
    exact = step.is_guarded(h) if step.is_tested else True
    return not (wrong & ~(step.guarded[:, None] & exact)).any()


@pytest.mark.parametrize("family", STEPS)
def test_the_fast_step_of_a_layer_with_odd_windows_is_certified(family, layer):
    stairs, fixed = layer
    step = STEPS[family](fixed, stairs)
    assert fixed.guard.max() == WINDOW
    assert is_right(step, stairs)
    assert certify_fast(step, stairs) == 512 * len(SCALES)


def test_a_test_too_narrow_for_an_odd_window_is_refused(layer):
    stairs, fixed = layer
    with pytest.raises(ProofFailed):
        certify_fast(dsp_step(fixed, stairs, guard=2), stairs)


@pytest.mark.parametrize("family", STEPS)
def test_whatever_number_is_changed_the_certificate_accepts_no_wrong_step(family, layer):
    stairs, fixed = layer
    step = STEPS[family](fixed, stairs)
    line = {"shift": (-1, 1), "low": (1,), "high": (-1,), "offset": (-64, 1, 8, 64), "multiplier": (-(2**16), 2**16)}
    test = {"guard": (-3, -2, 1, 4), "mask": (1, 2, 4)} if family == "dsp" else {"limit": (1, 2**30), "half": (-4, 8)}
    refused = 0
    for field, differences in (line | test).items():
        for difference in differences:
            mutant = replace(step, **{field: getattr(step, field) + difference})
            right = is_right(mutant, stairs)
            try:
                certify_fast(mutant, stairs)
            except ProofFailed:
                refused += not right
            else:
                assert right, f"{field} {difference:+}"
    assert refused > 6


@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m3"])
def test_a_kernel_whose_test_is_too_narrow_is_not_compiled(target, monkeypatch):
    """A mutant of this kind passed every random program: windows of more than one unit are rare."""
    model = qlinear_conv((1, 32, 6, 6), random_weights((16, 32, 3, 3)), pads=[1, 1, 1, 1], y_scale=0.5)
    prepared = importlib.import_module("qcgen.kernels.epilogue")
    honest = prepared.requantize.choose

    def coarse(stairs, **options):
        return wide_windows(honest(stairs, **options), stairs)

    monkeypatch.setattr(prepared.requantize, "choose", coarse)
    assert "_is_near_tie" in "".join(qcgen.compile(model, target=target, layout="nhwc").files.values())
    monkeypatch.setattr(fast_output, "_guard", lambda *_: 2)
    with pytest.raises(ProofFailed, match=r"test next to a tie|fast output step"):
        qcgen.compile(model, target=target, layout="nhwc")
