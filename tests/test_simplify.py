"""Simplified programs: what goes, what must stay, and that no output changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy as np
import pytest
from test_intervals import Net, recorded_inputs, shared_program, tried_inputs, weights

from qcgen.intervals import annotate, channel_ranges
from qcgen.ir.program import (
    AveragePool,
    Conv,
    MaxPool,
    Pad,
    Program,
    Quantize,
    Requantize,
    Reshape,
    Resize,
    Slice,
    Tensor,
    Transpose,
    macs_of,
)
from qcgen.ir.types import Array, DType, Layout
from qcgen.reference import evaluate, evaluate_all
from qcgen.simplify import PASSES, simplify
from qcgen.simplify.channels import Channels, needed_channels, remove_channels
from qcgen.simplify.wiring import inner_names

DEAD, ZERO_POINT_IS_NOT = -(10**6), 5000
"""Biases under which, with weights 0, a channel is the lowest code, or code 50 at a scale of 0.01."""


def positive(*shape: int) -> Array:
    """Weights that make no channel constant by themselves."""
    return np.random.default_rng(2).integers(1, 128, shape).astype(np.int8)


def assert_same(before: Program, after: Program, feeds: Iterable[Mapping[str, Array]] | None = None) -> None:
    """Both programs have the same signature and give the same outputs."""
    assert after.inputs == before.inputs
    assert after.outputs == before.outputs
    for feed in tried_inputs(before) if feeds is None else feeds:
        expected, got = evaluate(before, feed), evaluate(after, feed)
        for name, values in expected.items():
            assert values.dtype == got[name].dtype
            np.testing.assert_array_equal(got[name], values)


def simplified(*outputs: Tensor, net: Net) -> Program:
    """The simplified program, which gives the same outputs and cannot be simplified further."""
    program = net.program(*outputs)
    result = simplify(program)
    assert_same(program, result)
    assert simplify(result) is result
    return result


def kinds(program: Program) -> list[str]:
    return [type(op).__name__ for op in program.operators]


def channels_of(program: Program) -> list[tuple[int, int]]:
    """Input and output channels of every convolution."""
    return [(op.geometry.in_channels, op.geometry.out_channels) for op in program.operators if isinstance(op, Conv)]


def partly_constant(net: Net, constant_bias: int, channels: int = 5, y_zero_point: int = 0, **options) -> Tensor:
    """An image (1, 5, 6, 6) whose channels 1 and 4 are constant."""
    x = net.input((1, 2, 6, 6), zero_point=options.pop("zero_point", 0), **options)
    w = weights(channels, 2, 3, 3, seed=3)
    w[[1, 4]] = 0
    bias = [constant_bias if channel in (1, 4) else 700 * channel for channel in range(channels)]
    return net.conv(x, w, bias, y_zero_point=y_zero_point)


@pytest.fixture
def net() -> Net:
    return Net()


@pytest.mark.parametrize("pads", [0, 1])
def test_channels_that_are_the_zero_point_go_with_or_without_padding(net, pads):
    y = net.conv(partly_constant(net, DEAD), weights(3, 5, 3, 3), [1, 2, 3], pads=pads)
    assert channels_of(simplified(y, net=net)) == [(2, 3), (3, 3)]


def test_other_constants_join_the_bias_where_there_is_no_padding(net):
    w = weights(3, 5, 3, 3)
    y = net.conv(partly_constant(net, ZERO_POINT_IS_NOT), w, [1, 2, 3])
    result = simplified(y, net=net)
    assert channels_of(result) == [(2, 3), (3, 3)]
    added = 50 * w[:, [1, 4]].astype(np.int64).sum(axis=(1, 2, 3))
    assert result.operators[1].bias.tolist() == (added + np.array([1, 2, 3])).tolist()


def test_other_constants_stay_where_there_is_padding(net):
    y = net.conv(partly_constant(net, ZERO_POINT_IS_NOT), weights(3, 5, 3, 3), [1, 2, 3], pads=1)
    assert channels_of(simplified(y, net=net)) == [(2, 5), (5, 3)]


def test_constants_join_the_bias_where_every_window_sees_the_same_padding(net):
    x = net.input((1, 1, 1, 1))
    y = net.conv(x, np.array([[0], [90]], np.int8).reshape(2, 1, 1, 1), [ZERO_POINT_IS_NOT, 0])
    z = net.conv(y, weights(2, 2, 3, 3), [10, 20], pads=1)
    assert channels_of(simplified(z, net=net)) == [(1, 1), (1, 2)]


@pytest.mark.parametrize("zero_point", [0, 50, 200])
def test_the_zero_point_of_the_consumer_decides(net, zero_point):
    constant = partly_constant(net, 0, y_zero_point=zero_point)
    y = net.conv(constant, weights(3, 5, 3, 3), [1, 2, 3], pads=1)
    assert channels_of(simplified(y, net=net)) == [(2, 3), (3, 3)]


def test_a_bias_that_leaves_int32_wraps_as_the_accumulator_does(net):
    x = net.input((1, 1, 2, 2))
    y = net.conv(x, np.array([[0], [1]], np.int8).reshape(2, 1, 1, 1), [10**6, 0], scale=1.0)
    z = net.conv(y, np.array([[100, 1]], np.int8).reshape(1, 2, 1, 1), [2**31 - 100], raw=True)
    result = simplified(z, net=net)
    assert channels_of(result) == [(1, 1), (1, 1)]
    assert result.operators[1].bias.tolist() == [2**31 - 100 + 25500 - 2**32]


def test_a_convolution_behind_a_quantized_float_loses_output_channels(net):
    real = net.input((1, 2, 6, 6), dtype=DType.FLOAT32)
    codes = net.add(Quantize("q", "QuantizeLinear", real, net.tensor((1, 2, 6, 6))))
    w = weights(5, 2, 3, 3)
    w[1] = 0
    y = net.conv(codes, w, [0, DEAD, 0, 0, 0])
    z = net.conv(y, weights(3, 5, 3, 3), [1, 2, 3], pads=1)
    program = net.program(z)
    result = simplify(program)
    assert channels_of(result) == [(2, 4), (4, 3)]
    assert_same(program, result, [{real.name: np.linspace(-200, 200, 72, dtype=np.float32).reshape(1, 2, 6, 6)}])


def test_a_chain_of_depthwise_convolutions_loses_a_channel_from_end_to_end(net):
    x = partly_constant(net, DEAD)
    for seed in range(3):
        x = net.conv(x, weights(5, 1, 3, 3, seed=seed), [0] * 5, group=5, pads=1, scale=0.005)
    y = net.conv(x, weights(4, 5, 1, 1), [1, 2, 3, 4])
    assert channels_of(simplified(y, net=net)) == [(2, 3), (3, 3), (3, 3), (3, 3), (3, 4)]


def test_a_depthwise_channel_that_is_constant_by_itself_takes_its_input_along(net):
    x = net.conv(net.input((1, 2, 6, 6)), weights(5, 2, 3, 3), [0] * 5)
    y = net.conv(x, weights(5, 1, 3, 3), [0, DEAD, 0, 0, 10**7], group=5, pads=1, scale=0.002)
    z = net.conv(y, weights(4, 5, 1, 1), [1, 2, 3, 4])
    assert channels_of(simplified(z, net=net)) == [(2, 3), (3, 3), (3, 4)]


def test_groups_go_whole_or_not_at_all(net):
    x = net.conv(net.input((1, 2, 6, 6)), positive(6, 2, 1, 1), [0] * 6)
    y = net.conv(x, positive(6, 2, 1, 1), [DEAD, 0, DEAD, DEAD, 0, 0], group=3, scale=0.001)
    z = net.conv(y, weights(4, 6, 1, 1), [1, 2, 3, 4])
    result = simplified(z, net=net)
    assert channels_of(result) == [(2, 4), (4, 4), (4, 4)]
    assert result.operators[1].geometry.group == 2


def test_a_channel_that_no_weight_reads_goes_with_all_that_feeds_only_it(net):
    w = weights(3, 4, 3, 3)
    w[:, 2] = 0
    x = net.conv(net.input((1, 2, 6, 6)), weights(4, 2, 1, 1), [0] * 4)
    y = net.conv(x, weights(4, 1, 3, 3), [0] * 4, group=4, pads=1)
    assert channels_of(simplified(net.conv(y, w, [0] * 3), net=net)) == [(2, 3), (3, 3), (3, 3)]


def test_a_channel_that_one_of_two_readers_needs_stays_for_both(net):
    y = partly_constant(net, ZERO_POINT_IS_NOT)
    padded, bare = (net.conv(y, weights(3, 5, 3, 3), [1, 2, 3], pads=pads) for pads in (1, 0))
    assert channels_of(simplified(padded, bare, net=net)) == [(2, 5), (5, 3), (5, 3)]


def test_outputs_of_the_program_keep_all_their_channels(net):
    y = partly_constant(net, DEAD)
    z = net.conv(y, weights(3, 5, 3, 3), [1, 2, 3])
    assert channels_of(simplified(y, z, net=net)) == [(2, 5), (5, 3)]


def test_a_convolution_of_nothing_but_constants_keeps_one_input_channel(net):
    y = net.conv(net.input((1, 2, 6, 6)), np.zeros((3, 2, 1, 1), np.int8), [100, 200, 300])
    assert channels_of(simplified(net.conv(y, weights(2, 3, 1, 1), [5, 6]), net=net)) == [(2, 1), (1, 2)]


def end(net: Net, x: Tensor) -> Tensor:
    """A convolution that reads the channels of an image, or the columns of a matrix."""
    if x.layout is None:
        return net.conv(x, weights(3, x.shape[-1], 1), [1, 2, 3], scale=0.003)
    axis = 1 if x.layout is Layout.CHANNELS_FIRST else -1
    return net.conv(x, weights(3, x.shape[axis], 1, 1), [1, 2, 3], scale=0.003)


def through(net: Net, y: Tensor) -> dict[str, tuple[Tensor, int]]:
    """What can stand between two convolutions, with the channels that are left of the first one, which has 5."""
    table = np.random.default_rng(7).permutation(256)
    row = net.constant(np.arange(3, 8, dtype=np.uint8).reshape(5, 1, 1))
    last = net.moved(Transpose, y, (1, 4, 4, 5), perm=(0, 2, 3, 1))
    last = replace(last, layout=Layout.CHANNELS_LAST)
    net.operators[-1] = replace(net.operators[-1], y=last)
    channels = (0, 1, 2, 3, 4)
    return {
        "lookup": (net.lookup(y, table), 3),
        "max pool": (net.pool(y, MaxPool, 2, 1), 3),
        "average pool": (net.pool(y, AveragePool, 3, 1, count_include_pad=False), 3),
        "average pool with padding counted": (net.pool(y, AveragePool, 3, 1, count_include_pad=True), 3),
        "global average": (net.global_average(y), 3),
        "flatten": (net.moved(Reshape, y, (1, 80)), 3),
        "flatten pixels": (replace(net.moved(Reshape, y, (1, 5, 4, 4))), 3),
        "transpose": (last, 3),
        "pad": (net.moved(Pad, y, (1, 5, 6, 6), before=(0, 0, 1, 1), value=7), 5),
        "pad with zeros": (net.moved(Pad, y, (1, 5, 6, 6), before=(0, 0, 1, 1), value=0), 3),
        "pad channels": (net.moved(Pad, y, (1, 8, 4, 4), before=(0, 2, 0, 0), value=7), 3),
        "slice": (net.moved(Slice, y, (1, 3, 4, 4), starts=(0, 1, 0, 0), steps=(1, 1, 1, 1)), 2),
        "slice backwards": (net.moved(Slice, y, (1, 4, 4, 4), starts=(0, 3, 0, 0), steps=(1, -1, 1, 1)), 3),
        "slice with gaps": (net.moved(Slice, y, (1, 3, 4, 4), starts=(0, 0, 0, 0), steps=(1, 2, 1, 1)), 5),
        "slice of pixels": (net.moved(Slice, y, (1, 5, 2, 2), starts=(0, 0, 1, 0), steps=(1, 1, 2, 2)), 3),
        "resize": (net.moved(Resize, y, (1, 5, 8, 8), places=((0,), channels, *2 * ((0, 0, 1, 1, 2, 2, 3, 3),))), 3),
        "concat": (net.concat([y, net.lookup(y, table), y]), 3),
        "concat of rows": (net.concat([y, y], 2), 5),
        "add": (net.binary("add", y, net.lookup(y, table)), 3),
        "add of itself": (net.binary("add", y, y, 4), 3),
        "mul by a constant": (net.binary("mul", y, row), 3),
        "mul by a constant first": (net.binary("mul", row, y), 3),
    }


BETWEEN = sorted(through(*(lambda net: (net, partly_constant(net, DEAD)))(Net())))


@pytest.mark.parametrize("bias", [DEAD, ZERO_POINT_IS_NOT])
@pytest.mark.parametrize("name", BETWEEN)
def test_channels_go_through(net, name, bias):
    between, left = through(net, partly_constant(net, bias))[name]
    result = simplified(end(net, between), net=net)
    # With padding counted or written the constant is one no more, unless it is what padding holds.
    mixed = bias == ZERO_POINT_IS_NOT and name in ("average pool with padding counted", "pad with zeros")
    assert channels_of(result)[0] == (2, 5 if mixed else left)


def test_an_operand_that_is_broadcast_over_channels_stays(net):
    y = partly_constant(net, DEAD)
    one = net.conv(y, weights(1, 5, 1, 1), [0], scale=0.003)
    gated = net.binary("mul", y, one)
    assert channels_of(simplified(end(net, gated), net=net)) == [(2, 3), (3, 1), (3, 3)]


def test_an_operand_that_is_not_constant_keeps_the_other_ones_channel(net):
    y = partly_constant(net, DEAD)
    other = net.conv(net.input((1, 2, 4, 4)), positive(5, 2, 1, 1), [0] * 5)
    assert channels_of(simplified(end(net, net.binary("add", y, other)), net=net)) == [(2, 5), (2, 5), (5, 3)]


def test_one_part_of_a_concatenation_can_go_altogether(net):
    y = partly_constant(net, DEAD)
    constant = net.conv(net.input((1, 1, 4, 4)), np.zeros((2, 1, 1, 1), np.int8), [DEAD, ZERO_POINT_IS_NOT])
    result = simplified(end(net, net.concat([constant, y])), net=net)
    assert channels_of(result) == [(2, 3), (3, 3)]
    assert kinds(result) == ["Conv", "Conv"]


def test_signed_codes_and_channels_last_are_simplified_alike(net):
    x = net.input((1, 6, 6, 2), zero_point=-7, dtype=DType.INT8, layout=Layout.CHANNELS_LAST)
    w = weights(4, 2, 3, 3)
    w[2] = 0
    y = net.conv(x, w, [0, 0, DEAD, 0], y_zero_point=-128)
    z = net.conv(y, weights(3, 4, 3, 3), [0, 1, 2], pads=1, y_zero_point=3)
    assert channels_of(simplified(z, net=net)) == [(2, 3), (3, 3)]


def clamp(low: int, high: int) -> Array:
    return np.clip(np.arange(256), low, high)


def test_a_clamp_behind_a_convolution_becomes_its_bounds(net):
    y = net.conv(net.input((1, 2, 4, 4)), weights(3, 2, 3, 3), [0] * 3, y_zero_point=100)
    result = simplified(net.lookup(net.lookup(y, clamp(100, 255)), clamp(0, 140)), net=net)
    assert kinds(result) == ["Conv"]
    assert (result.operators[0].epilogue.low, result.operators[0].epilogue.high) == (100, 140)


def test_a_clamp_behind_a_global_average_becomes_its_bounds(net):
    y = net.global_average(net.input((1, 3, 4, 4), zero_point=9))
    result = simplified(net.lookup(y, clamp(90, 160)), net=net)
    assert kinds(result) == ["GlobalAveragePool"]


def test_clamps_that_leave_one_code_are_joined(net):
    y = net.conv(net.input((1, 2, 4, 4)), weights(3, 2, 3, 3), [0] * 3, y_zero_point=100)
    result = simplified(net.lookup(net.lookup(y, clamp(0, 90)), clamp(120, 255)), net=net)
    assert kinds(result) == ["Conv"]


@pytest.mark.parametrize("other", ["table", "scale", "reader", "output"])
def test_other_tables_stay(net, other):
    y = net.conv(net.input((1, 2, 4, 4)), weights(3, 2, 3, 3), [0] * 3, y_zero_point=100)
    table = np.arange(256)[::-1] if other == "table" else clamp(100, 255)
    z = net.lookup(y, table, 99 if other == "scale" else 100)
    more = {"reader": [net.lookup(y, clamp(0, 9))], "output": [y]}.get(other, [])
    assert "Lookup" in kinds(simplified(z, *more, net=net))


def test_a_pad_with_the_zero_point_becomes_padding_of_all_its_readers(net):
    x = net.input((1, 2, 4, 4), zero_point=77)
    padded = net.moved(Pad, x, (1, 2, 7, 5), before=(0, 0, 1, 0), value=77)
    a, b = net.conv(padded, weights(3, 2, 3, 3), [0] * 3, pads=1), net.conv(padded, weights(2, 2, 2, 2), [1, 2])
    result = simplified(a, b, net=net)
    assert kinds(result) == ["Conv", "Conv"]
    assert [(op.geometry.pads_begin, op.geometry.pads_end) for op in result.operators] == [
        ((2, 1), (3, 2)),
        ((1, 0), (2, 1)),
    ]


def test_two_pads_become_padding_one_after_the_other(net):
    x = net.input((1, 2, 4, 4))
    inner = net.moved(Pad, x, (1, 2, 5, 5), before=(0, 0, 1, 0), value=0)
    outer = net.moved(Pad, inner, (1, 2, 7, 7), before=(0, 0, 1, 1), value=0)
    assert kinds(simplified(net.conv(outer, weights(3, 2, 3, 3), [0] * 3), net=net)) == ["Conv"]


@pytest.mark.parametrize(
    ("before", "shape"), [((0, 0, 1, 1), (1, 2, 6, 6)), ((0, 1, 0, 0), (1, 4, 4, 4))], ids=["pixels", "channels"]
)
def test_a_pad_with_another_value_stays(net, before, shape):
    x = net.moved(Pad, net.input((1, 2, 4, 4)), shape, before=before, value=3)
    assert "Pad" in kinds(simplified(net.conv(x, weights(3, shape[1], 3, 3), [0] * 3, pads=1), net=net))


def test_channels_of_padding_join_the_bias(net):
    x = net.moved(Pad, net.input((1, 2, 4, 4)), (1, 4, 4, 4), before=(0, 1, 0, 0), value=3)
    result = simplified(net.conv(x, weights(3, 4, 3, 3), [0] * 3), net=net)
    assert kinds(result) == ["Conv"]
    assert channels_of(result) == [(2, 3)]


def test_a_pad_with_a_value_that_never_wins_becomes_padding_of_a_max_pool(net):
    y = net.conv(net.input((1, 1, 4, 4)), weights(2, 1, 1, 1), [3000, 4000], scale=0.001)
    low = int(channel_ranges(net.program(y))[y.name].lo.min())
    results = []
    for value in (low, low + 1):
        padded = net.moved(Pad, y, (1, 2, 6, 6), before=(0, 0, 1, 1), value=value)
        results.append(net.pool(padded, MaxPool, 2))
    assert kinds(simplified(*results, net=net)) == ["Conv", "MaxPool", "Pad", "MaxPool"]


def test_a_pad_stays_where_a_max_pool_would_see_nothing_but_padding(net):
    padded = net.moved(Pad, net.input((1, 2, 4, 4)), (1, 2, 8, 8), before=(0, 0, 2, 2), value=0)
    assert "Pad" in kinds(simplified(net.pool(padded, MaxPool, 2), net=net))


def test_what_changes_nothing_goes(net):
    y = net.lookup(net.input((1, 2, 4, 4)), np.arange(256))
    y = net.moved(Transpose, net.moved(Transpose, y, (1, 4, 4, 2), perm=(0, 2, 3, 1)), (1, 2, 4, 4), perm=(0, 3, 1, 2))
    y = net.moved(Reshape, net.moved(Reshape, y, (1, 32)), (1, 2, 4, 4))
    y = net.moved(Slice, y, (1, 2, 4, 4), starts=(0, 0, 0, 0), steps=(1, 1, 1, 1))
    assert kinds(simplified(net.conv(y, weights(3, 2, 3, 3), [0] * 3), net=net)) == ["Conv"]


def test_an_identity_that_writes_an_output_leaves_it_to_the_operator_before(net):
    y = net.conv(net.input((1, 2, 4, 4)), weights(3, 2, 3, 3), [0] * 3)
    z = net.lookup(y, np.arange(256))
    other = net.lookup(y, np.arange(256)[::-1])
    result = simplified(z, other, net=net)
    assert kinds(result) == ["Conv", "Lookup"]


def test_an_identity_between_an_input_and_an_output_stays(net):
    assert kinds(simplified(net.lookup(net.input((1, 2)), np.arange(256)), net=net)) == ["Lookup"]


def test_two_outputs_with_the_same_elements_stay_two(net):
    y = net.conv(net.input((1, 2, 4, 4)), weights(3, 2, 3, 3), [0] * 3)
    a, b = net.lookup(y, np.arange(256)), net.lookup(y, np.arange(256))
    assert kinds(simplified(a, b, net=net)) == ["Conv", "Lookup"]


def test_transposes_that_do_not_cancel_become_one(net):
    x = net.moved(Transpose, net.input((1, 2, 3, 4)), (1, 3, 4, 2), perm=(0, 2, 3, 1))
    [op] = simplified(net.moved(Transpose, x, (1, 4, 3, 2), perm=(0, 2, 1, 3)), net=net).operators
    assert op.perm == (0, 3, 2, 1)


def test_operators_and_constants_that_nobody_reads_go(net):
    y = net.conv(net.input((1, 2, 4, 4)), weights(3, 2, 3, 3), [0] * 3)
    net.binary("mul", y, net.constant(np.ones((3, 1, 1), np.uint8)))
    result = simplified(y, net=net)
    assert kinds(result) == ["Conv"]
    assert not result.constants


def test_what_was_proved_of_the_whole_is_not_kept_of_the_parts(net):
    y = net.conv(partly_constant(net, ZERO_POINT_IS_NOT), weights(3, 5, 3, 3), [1, 2, 3])
    program = net.program(y)
    result = simplify(annotate(program))
    assert [op.accumulator_range for op in result.operators] == [None, None]
    again = annotate(result)
    before, after = annotate(program).operators[1], again.operators[1]
    assert [ends.tolist() for ends in after.accumulator_range] == [ends.tolist() for ends in before.accumulator_range]


def random_net(seed: int) -> tuple[Net, Tensor]:
    """A chain of operators of all kinds, some channels of every convolution constant or unread."""
    rng = np.random.default_rng(seed)
    net = Net()
    x = net.input((1, 2, 8, 8), zero_point=int(rng.choice([0, 5])))
    for _ in range(int(rng.integers(3, 8))):
        x = LINKS[rng.integers(len(LINKS))](net, x, rng)
    return net, x


def _conv_link(net: Net, x: Tensor, rng: np.random.Generator) -> Tensor:
    count, kernel = int(rng.integers(2, 7)), int(rng.integers(1, min(4, x.shape[2] + 1)))
    w = rng.integers(-60, 61, (count, x.shape[1], kernel, kernel)).astype(np.int8)
    w[rng.random(count) < 0.3] = 0
    w[:, rng.random(x.shape[1]) < 0.2] = 0
    bias = rng.choice([-(10**6), 0, 4000, 12000], count)
    zero_point = int(rng.choice([0, 40]))
    return net.conv(x, w, bias, pads=int(rng.integers(0, kernel)), y_zero_point=zero_point, scale=0.004)


def _depthwise_link(net: Net, x: Tensor, rng: np.random.Generator) -> Tensor:
    channels, kernel = x.shape[1], int(rng.integers(1, min(4, x.shape[2] + 1)))
    count = channels * int(rng.integers(1, 3))
    w = rng.integers(-60, 61, (count, 1, kernel, kernel)).astype(np.int8)
    w[rng.random(count) < 0.3] = 0
    bias = rng.choice([-(10**6), 0, 4000], count)
    return net.conv(x, w, bias, group=channels, pads=int(rng.integers(0, kernel)), scale=0.01)


def _lookup_link(net: Net, x: Tensor, rng: np.random.Generator) -> Tensor:
    table = rng.choice([0, 1, 2])
    return net.lookup(x, [np.arange(256), clamp(x.zero_point, 200), rng.integers(0, 256, 256)][table])


def _pool_link(net: Net, x: Tensor, rng: np.random.Generator) -> Tensor:
    if x.shape[2] < 2:
        return _lookup_link(net, x, rng)
    if rng.random() < 0.5:
        return net.pool(x, MaxPool, 2, int(rng.integers(0, 2)))
    return net.pool(x, AveragePool, 2, int(rng.integers(0, 2)), count_include_pad=bool(rng.integers(0, 2)))


def _pad_link(net: Net, x: Tensor, rng: np.random.Generator) -> Tensor:
    extra = int(rng.integers(0, 2))
    shape = (1, x.shape[1] + 2 * extra, x.shape[2] + 1, x.shape[3] + 1)
    return net.moved(Pad, x, shape, before=(0, extra, 1, 0), value=int(rng.choice([x.zero_point, 9])))


def _join_link(net: Net, x: Tensor, rng: np.random.Generator) -> Tensor:
    other = _lookup_link(net, x, rng)
    kind = rng.integers(3)
    return net.concat([x, other]) if kind == 0 else net.binary(["add", "mul"][kind - 1], x, other, 3)


def _slice_link(net: Net, x: Tensor, rng: np.random.Generator) -> Tensor:
    if x.shape[1] < 3:
        return _lookup_link(net, x, rng)
    backwards = rng.random() < 0.5
    starts, steps = (0, x.shape[1] - 1 if backwards else 1, 0, 0), (1, -1 if backwards else 1, 1, 1)
    return net.moved(Slice, x, (1, x.shape[1] - 1, *x.shape[2:]), starts=starts, steps=steps)


Link = Callable[[Net, Tensor, np.random.Generator], Tensor]
LINKS: list[Link] = [
    *3 * [_conv_link],
    *2 * [_depthwise_link],
    _lookup_link,
    _pool_link,
    _pad_link,
    _join_link,
    _slice_link,
]
RANDOM_NETS = 120


def test_random_networks_give_the_same_outputs(everything):
    smaller, count = 0, RANDOM_NETS if everything else RANDOM_NETS // 4
    for seed in range(count):
        net, y = random_net(seed)
        program = net.program(end(net, y))
        result = simplify(program)
        assert_same(program, result, tried_inputs(program, 2, seed))
        assert_same(program, annotate(result), tried_inputs(program, 1, seed))
        smaller += sum(map(macs_of, result.operators)) < sum(map(macs_of, program.operators))
    assert smaller > count / 2


def weight_bytes(program: Program) -> int:
    """Weights, biases and one multiplier of four bytes for every channel that is requantized."""
    total = 0
    for op in program.operators:
        if isinstance(op, Conv):
            total += op.weights.nbytes + op.bias.nbytes
            total += 4 * op.geometry.out_channels if isinstance(op.epilogue, Requantize) else 0
    return total


def test_more_than_half_of_the_visual_wake_words_network_is_constant():
    program = shared_program("vww_mbv1_tfl_qop")
    result = simplify(program)
    before, after = (sum(map(macs_of, p.operators)) for p in (program, result))
    print(
        f"MACs {before:,} -> {after:,}; weights and tables {weight_bytes(program):,} -> {weight_bytes(result):,} bytes"
    )
    assert before == 7_489_664
    assert after <= 3_790_000
    assert weight_bytes(result) < 60_000
    assert sum(op.weights.nbytes for op in result.operators if isinstance(op, Conv)) <= 31_752


def test_every_tensor_of_the_simplified_network_is_part_of_the_original_one():
    program = shared_program("vww_mbv1_tfl_qop")
    channels = Channels(program)
    keep = needed_channels(program, channels, inner_names(program) & channels.axes.keys())
    ranges, result = channels.ranges, remove_channels(program)
    for feed in [*recorded_inputs(program, "vww_mbv1_tfl_qop", 2), *tried_inputs(program, 2)]:
        whole, part = evaluate_all(program, feed), evaluate_all(result, feed)
        for name, mask in keep.items():
            axis = channels.axes[name]
            np.testing.assert_array_equal(np.compress(mask, whole[name], axis), part[name], name)
            lo, hi = ranges[name].along(axis, mask.size)
            gone = np.moveaxis(whole[name], axis, -1)[..., ~mask & (lo == hi)]
            assert (gone == lo[~mask & (lo == hi)]).all()


@pytest.mark.parametrize("name", ["kws_dscnn_tfl_qop", "ic_resnet8_tfl_qop", "ad_fc_tfl_qop"])
def test_networks_without_constant_channels_keep_all_multiplications(name):
    program = shared_program(name)
    result = simplify(program)
    assert sum(map(macs_of, result.operators)) == sum(map(macs_of, program.operators))
    assert weight_bytes(result) == weight_bytes(program)
    assert_same(program, result, [*recorded_inputs(program, name, 1), *tried_inputs(program, 1)])


@pytest.mark.parametrize("improve", PASSES, ids=lambda improve: improve.__name__)
def test_a_pass_returns_the_very_program_that_it_cannot_improve(net, improve):
    program = net.program(net.conv(net.input((1, 2, 4, 4)), weights(3, 2, 3, 3), [0] * 3))
    assert improve(program) is program
