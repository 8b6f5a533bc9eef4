"""The choice of fixed-point arithmetic and its certificate, against equation (1)."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from marks import share_at_first
from requantization_layers import KINDS, probes, random_layer, stairs_of

from qcgen.errors import ProofFailed
from qcgen.intervals import INT32_MAX, INT32_MIN
from qcgen.requantize import choose
from qcgen.requantize.fixed_point import FORMS, certify, evaluate, in_window, scaled, windows_that_never_close

MISFIT = 2.0**-8  # exact ties at every other step: no line serves it
PI, E = 0.0031415926, 0.0027182818  # no accumulator comes next to a tie: lines serve them


def always_emulated(fixed):
    """(M,): the channels whose window never closes."""
    return (fixed.guard >= windows_that_never_close(fixed.shift)) | (fixed.arithmetic == "soft-float")


def whole_interval(stairs):
    """(M, N): every accumulator of every channel, the highest repeated where an interval is shorter than others."""
    count = int((stairs.hi - stairs.lo).max()) + 1
    return np.minimum(stairs.lo[:, None] + np.arange(count), stairs.hi[:, None])


def is_equal(fixed, stairs, acc) -> bool:
    return np.array_equal(evaluate(fixed, stairs, acc), stairs.at(acc))


@pytest.mark.parametrize("narrow", [False, True], ids=["", "narrow"])
@pytest.mark.parametrize("kind", share_at_first(KINDS), ids=lambda kind: kind.name)
def test_the_chosen_arithmetic_equals_float32_at_every_step_and_at_random(kind, narrow):
    rng = np.random.default_rng(4)
    for channels in (1, 2, 8, 40):
        for _ in range(4):
            stairs = random_layer(rng, kind, channels)
            fixed = choose(stairs, narrow=narrow)
            assert is_equal(fixed, stairs, probes(rng, stairs, 100_000 // channels))
            assert fixed.multiplier.shape == fixed.guard.shape == fixed.addend.shape == (channels,)
            assert sum(fixed.forms.values()) == channels
            assert set(fixed.forms) <= set(FORMS)


@pytest.mark.parametrize("narrow", [False, True], ids=["", "narrow"])
def test_the_chosen_arithmetic_equals_float32_on_every_accumulator_of_small_intervals(narrow):
    rng = np.random.default_rng(5)
    for kind in KINDS:
        stairs = random_layer(rng, replace(kind, width=(2, 14), has_extremes=False), 12)
        assert is_equal(choose(stairs, narrow=narrow), stairs, whole_interval(stairs))


@pytest.mark.parametrize("bits", [1, 5, 8])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_finer_line_equals_float32_at_every_step_and_at_random(kind, bits):
    rng = np.random.default_rng(8)
    for channels in (1, 9, 40):
        stairs = random_layer(rng, kind, channels)
        fixed = choose(stairs, bits=bits)
        assert is_equal(fixed, stairs, probes(rng, stairs, 100_000 // channels))
        if fixed.arithmetic == "multiply-high" and fixed.word != 32:
            assert fixed.word == 32 - bits
            assert all(np.abs((end << bits) + fixed.addend).max() <= INT32_MAX for end in (stairs.lo, stairs.hi))


def test_a_finer_line_needs_no_offset():
    rng = np.random.default_rng(4)
    stairs = stairs_of(rng.uniform(0.0005, 0.004, 30), [-60_000] * 30, 60_000)
    assert choose(stairs).offset.all()
    assert not choose(stairs, bits=8).offset.any()


def test_a_line_is_no_finer_than_int32_has_room_for():
    stairs = stairs_of([0.0253153, 0.021], [-2_000_000, -9_000], 2_000_000)
    assert [choose(stairs, bits=bits).word for bits in (0, 8, 9, 10, 11)] == [32, 24, 23, 22, 32]


def test_a_finer_line_comes_near_a_tie_less_often():
    stairs = stairs_of([MISFIT, 0.003, 0.005, 0.001] * 4, [-30_000] * 16, 30_000)
    plain, fine = (choose(stairs, bits=bits) for bits in (0, 6))
    acc = whole_interval(stairs)
    shares = [in_window(fixed, scaled(fixed, acc))[fixed.guard > 0].mean() for fixed in (plain, fine)]
    assert fine.shift == plain.shift + 6
    assert 0 < shares[1] <= shares[0] / 4


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    exponents=st.lists(st.floats(-160, 100), min_size=1, max_size=6),
    ends=st.tuples(st.integers(INT32_MIN, INT32_MAX), st.integers(INT32_MIN, INT32_MAX)),
    codes=st.tuples(st.integers(-128, 127), st.integers(-128, 127), st.integers(-128, 127)),
    narrow=st.booleans(),
)
def test_any_layer_gets_an_arithmetic_that_equals_float32(exponents, ends, codes, narrow):
    low, zero_point, high = sorted(codes)
    scale = np.maximum(np.exp2(np.array(exponents)), 2.0**-149)
    stairs = stairs_of(scale, [min(ends)] * len(scale), max(ends), zero_point, low, high)
    fixed = choose(stairs, narrow=narrow)
    assert is_equal(fixed, stairs, probes(np.random.default_rng(6), stairs, 200))


@settings(max_examples=80, deadline=None, derandomize=True)
@given(
    exponents=st.lists(st.one_of(st.floats(-14, -0.01), st.integers(-14, -1)), min_size=1, max_size=20),
    width=st.integers(4, 2**24 - 1),
    center=st.floats(-1, 1),
    zero_point=st.integers(-128, 127),
)
def test_nothing_is_emulated_while_accumulators_stay_below_2_to_24(exponents, width, center, zero_point):
    middle = int(center * (2**24 - 1 - width))
    count = len(exponents)
    stairs = stairs_of(np.exp2(np.array(exponents, float)), [middle - width] * count, middle + width, zero_point)
    assert "soft-float" not in choose(stairs).forms


def test_a_layer_whose_channels_all_admit_it_gets_the_multiply_high():
    scale = np.random.default_rng(71).uniform(0.001, 0.01, 64)
    fixed = choose(stairs_of(scale, [-30_000] * 64, 30_000))
    assert (fixed.arithmetic, fixed.forms) == ("multiply-high", {"multiply-high": 64})
    assert fixed.shift == 5  # 0.01 is below 2^-6, so multipliers in units of 2^-37 are below 2^31


def test_one_misfit_channel_gets_a_window_and_leaves_the_layer_in_the_multiply_high():
    scale = np.random.default_rng(71).uniform(0.001, 0.01, 64)
    scale[17] = MISFIT
    fixed = choose(stairs_of(scale, [-30_000] * 64, 30_000))
    assert (fixed.arithmetic, fixed.forms) == ("multiply-high", {"multiply-high": 63, "guard band": 1})
    assert np.flatnonzero(fixed.guard).tolist() == [17]


def test_a_window_covers_few_accumulators():
    stairs = stairs_of([MISFIT, 0.003, 0.005, 0.001] * 4, [-30_000] * 16, 30_000)
    fixed = choose(stairs)
    share = in_window(fixed, scaled(fixed, whole_interval(stairs)))[fixed.guard > 0].mean()
    assert 0 < share < 0.1


def test_a_channel_beyond_int32_is_emulated_and_leaves_the_others_on_their_lines():
    scale = np.random.default_rng(72).uniform(0.5, 0.9, 8)
    fixed = choose(stairs_of([*scale, 2.0], [*[-500] * 8, INT32_MIN], [*[500] * 8, INT32_MAX]))
    assert fixed.arithmetic == "wide"
    assert fixed.forms == {"wide": 8, "soft-float": 1}


def test_a_layer_that_has_no_lines_at_all_is_emulated():
    fixed = choose(stairs_of([3e9, 1e30], [-5, -5], 5))
    assert (fixed.arithmetic, fixed.forms) == ("soft-float", {"soft-float": 2})


def test_dead_channels_are_counted_as_constant_next_to_the_ends_of_int32():
    ends = [INT32_MIN, INT32_MIN + 1, INT32_MAX - 1, INT32_MAX]
    for narrow in (False, True):
        for scale in (3.7e-12, 0.003, 300.0):
            stairs = stairs_of([PI, E, *[scale] * 4], [-9000, -9000, *ends], [9000, 9000, *ends])
            fixed = choose(stairs, narrow=narrow)
            assert fixed.forms["constant"] == 4
            assert not fixed.guard.any()


def test_forms_count_each_channel_once_in_order_of_their_cost():
    stairs = stairs_of([PI, PI, MISFIT, MISFIT, *[E] * 28], [-9000, 5, *[-9000] * 30], [9000, 5, *[9000] * 30])
    forms = choose(stairs).forms
    assert forms == {"constant": 1, "multiply-high": 29, "guard band": 2}
    assert list(forms) == [form for form in FORMS if form in forms]


# narrow


def narrow_c(fixed, acc: int, m: int, low: int, high: int) -> int:
    """The C function of the narrow form in Python's own integers; fails where an int32 overflows."""
    inside = min(max(acc, int(fixed.clamp_low[m])), int(fixed.clamp_high[m]))
    product = inside * int(fixed.multiplier[m])
    total = product + int(fixed.offset[m])
    for value in (inside, product, total, int(fixed.multiplier[m]), int(fixed.offset[m])):
        assert INT32_MIN <= value <= INT32_MAX
    return min(max(total >> fixed.shift, low), high)


def test_narrow_stays_in_int32_and_equals_float32_on_every_accumulator():
    rng = np.random.default_rng(9)
    served = 0
    for _ in range(60):
        channels = int(rng.integers(1, 4))
        lo = rng.integers(-4000, 0, channels)
        stairs = stairs_of(rng.uniform(0.02, 0.9, channels), lo, lo + rng.integers(0, 6000, channels), 3)
        fixed = choose(stairs, narrow=True)
        if fixed.arithmetic != "narrow":
            continue
        served += 1
        acc = whole_interval(stairs)
        expected = stairs.at(acc)
        for m in range(channels):
            assert [narrow_c(fixed, int(a), m, -128, 127) for a in acc[m]] == expected[m].tolist()
    assert served > 20


def test_narrow_serves_long_intervals_because_it_clamps_to_the_steps():
    stairs = stairs_of([100 * PI, 100 * E, 0.1], [INT32_MIN, -(2**20), INT32_MAX], [INT32_MAX, 2**20, INT32_MAX])
    fixed = choose(stairs, narrow=True)
    assert fixed.forms == {"constant": 1, "narrow": 2}
    assert is_equal(fixed, stairs, probes(np.random.default_rng(10), stairs, 10_000))


def test_narrow_gives_way_where_a_channel_does_not_admit_it():
    stairs = stairs_of([100 * PI, 0.25], [-2000, -2000], 2000)
    assert choose(stairs, narrow=True).arithmetic != "narrow"
    assert choose(stairs_of([100 * PI], [-2000], 2000), narrow=True).arithmetic == "narrow"


def test_narrow_is_chosen_only_where_it_is_asked_for():
    assert choose(stairs_of([100 * PI], [-2000], 2000)).arithmetic == "multiply-high"


# the certificate


def certified_layers():
    """Layers of every arithmetic, with and without windows, whose intervals can be walked through."""
    rng = np.random.default_rng(11)
    high, wide = rng.uniform(0.002, 0.03, 8), rng.uniform(0.2, 0.9, 8)
    return {
        "multiply-high": (stairs_of(high, [-9000] * 8, 9000), False),
        "wide": (stairs_of(wide, [-500] * 8, 500, 5), False),
        "narrow": (stairs_of(wide, [-500] * 8, 500, -7), True),
        "multiply-high with windows": (stairs_of([*high, MISFIT, MISFIT], [-9000] * 10, 9000), False),
        "split with windows": (stairs_of([*high, MISFIT, MISFIT], [-9000] * 10, 9000), True),
        "wide with windows": (stairs_of([*wide, 0.5, 0.25], [-500] * 10, 500), False),
    }


LAYERS = certified_layers()


@pytest.mark.parametrize("name", LAYERS)
def test_the_certified_layers_are_what_their_names_say(name):
    stairs, narrow = LAYERS[name]
    fixed = choose(stairs, narrow=narrow)
    assert (fixed.arithmetic, fixed.is_guarded) == (name.removesuffix(" with windows"), name.endswith("windows"))
    assert not always_emulated(fixed).any()


def mutations(fixed, rng):
    """The same requantization with one number of one channel changed."""
    step = 1 << (fixed.shift + fixed.prescale)
    sizes = {
        "multiplier": [1, 2, -1, -2, 1000, int(fixed.multiplier.max()) // 64],
        "addend": [1, -1, 2, -50],
        "offset": [1, -1, step // 4, -step // 2, step],
        "guard": [-1, 1, -1000],
        "clamp_low": [1, 2, -40],
        "clamp_high": [-1, -2, 40],
    }
    for field, differences in sizes.items():
        for difference in differences:
            for channel in rng.choice(fixed.guard.size, 4, replace=False):
                values = getattr(fixed, field).copy()
                values[channel] += difference
                if field in ("guard", "multiplier") or field.startswith("clamp"):
                    values = np.clip(values, 0 if field in ("guard", "multiplier") else INT32_MIN, INT32_MAX)
                if not np.array_equal(values, getattr(fixed, field)):
                    yield replace(fixed, **{field: values})


@pytest.mark.parametrize("name", LAYERS)
def test_the_certificate_fails_wherever_a_changed_number_changes_some_code(name):
    stairs, narrow = LAYERS[name]
    fixed = choose(stairs, narrow=narrow)
    assert certify(fixed, stairs) == fixed.comparisons
    acc = whole_interval(stairs)
    accepted = wrong = 0
    for mutant in mutations(fixed, np.random.default_rng(12)):
        equal = is_equal(mutant, stairs, acc)
        try:
            certify(mutant, stairs)
        except ProofFailed:
            wrong += not equal
        else:
            assert equal
            accepted += 1
    assert accepted > 0
    assert wrong > 10


@pytest.mark.parametrize("name", ["multiply-high with windows", "wide with windows"])
def test_the_certificate_fails_without_its_windows(name):
    stairs, _ = LAYERS[name]
    fixed = choose(stairs)
    with pytest.raises(ProofFailed):
        certify(replace(fixed, guard=np.zeros_like(fixed.guard)), stairs)


def test_what_is_emulated_is_freed_of_an_addend_where_a_channel_with_a_window_has_one():
    stairs = stairs_of([0.5], [-500], 500)
    fixed = choose(stairs)
    shifted = replace(fixed, addend=fixed.addend + 1, offset=fixed.offset - fixed.multiplier)
    assert np.array_equal(scaled(shifted, stairs.lo[:, None]), scaled(fixed, stairs.lo[:, None]))
    assert (fixed.subtracts, shifted.subtracts) == (False, True)
    assert certify(shifted, stairs) > 0


SPLIT_SCALES = (0.002610005, 0.002829781, 0.001943862)


def test_split_serves_accumulators_that_leave_narrow_too_few_bits():
    stairs = stairs_of(SPLIT_SCALES, [-120000] * 3, 120000)
    fixed = choose(stairs, narrow=True)
    assert fixed.forms == {"split": 3}
    assert (np.abs(stairs.hi + fixed.addend) * ((1 << fixed.word) - 1) < 2**31).all()


def test_the_certificate_fails_where_a_part_of_a_split_product_leaves_its_type():
    stairs = stairs_of(SPLIT_SCALES, [-120000] * 3, 120000)
    fixed = choose(stairs, narrow=True)
    longer = replace(fixed, word=fixed.word + 2, multiplier=4 * fixed.multiplier)
    assert np.array_equal(scaled(longer, stairs.lo[:, None]), scaled(fixed, stairs.lo[:, None]))
    with pytest.raises(ProofFailed, match="C type"):
        certify(longer, stairs)


def test_the_certificate_fails_where_a_variable_leaves_its_type():
    stairs = stairs_of([0.003], [INT32_MIN], INT32_MAX, 0, 0, 255)
    fixed = choose(stairs)
    with pytest.raises(ProofFailed):
        certify(replace(fixed, addend=np.array([1])), stairs)
    with pytest.raises(ProofFailed, match="C type"):
        certify(replace(fixed, offset=fixed.offset + 2**31, guard=fixed.guard * 0 + 2**fixed.shift), stairs)
