"""The arena: buffers that are alive together lie apart, or one over the other where the kernel's order allows it."""

import random

import pytest

from qcgen.ir.plan import PlacedBuffer
from qcgen.kernels.kernel import Scratch
from qcgen.plan.memory import WORD, Buffer, Over, Placement, lower_bound, place
from qcgen.plan.storage import Stored


def violations(buffers, offsets):
    """Pairs that are alive together, share bytes and may not."""
    found = []
    for b in buffers:
        for other in buffers:
            together = b.name < other.name and b.first <= other.last and other.first <= b.last
            begin, end = offsets[b.name], offsets[b.name] + b.bytes
            if not together or end <= offsets[other.name] or offsets[other.name] + other.bytes <= begin:
                continue
            before = offsets[other.name] - begin
            allowed = _may(b.over.get(other.name), before) or _may(other.over.get(b.name), -before)
            found += [] if allowed else [(b.name, other.name)]
    return found


def _may(over, before):
    return over is not None and before >= over.distance and (before - over.distance) % over.step == 0


def chain(sizes, distances, step=1):
    """Tensors, each computed from the one before it."""
    return [
        Buffer(str(i), size, 1, i, i + 1, {str(i - 1): Over(distance, step)} if i else {})
        for i, (size, distance) in enumerate(zip(sizes, distances, strict=True))
    ]


def test_an_output_begins_its_distance_before_the_input():
    placed = place(chain([1000, 1000], [0, 32]))
    assert placed.offsets["0"] - placed.offsets["1"] >= 32
    assert (placed.bytes, placed.lower_bound) == (1032, 1032)


def test_an_output_that_runs_behind_may_begin_behind_the_start():
    placed = place(chain([1000, 1000], [0, -8]))
    assert placed.bytes == 1000


def test_a_larger_output_ends_where_the_input_does():
    placed = place(chain([500, 1000], [0, 520]))
    assert placed.bytes == 1020


def test_what_is_read_again_later_is_not_overwritten():
    x, y = Buffer("x", 100, 1, 0, 2), Buffer("y", 100, 1, 1, 2)
    assert place([x, y]).bytes == 200


@pytest.mark.parametrize("seed", range(40))
def test_random_buffers_lie_apart_or_over_each_other_as_they_may(seed):
    rng = random.Random(seed)
    sizes = [rng.choice([16, 64, 100, 256, 1000]) for _ in range(12)]
    step = rng.choice([1, 4, 15])
    distances = [rng.randrange(-8, 200) // step * step for _ in sizes]
    scratch = [Buffer(f"scratch{i}", 4 * rng.randrange(1, 20), 4, i, i) for i in range(0, 12, 3)]
    buffers = [*chain(sizes, distances, step), *scratch]
    placed = place(buffers)
    assert violations(buffers, placed.offsets) == []
    assert lower_bound(buffers) <= placed.bytes <= sum(b.bytes for b in buffers)
    assert all(placed.offsets[b.name] % b.align == 0 and placed.offsets[b.name] >= 0 for b in buffers)


@pytest.mark.parametrize("distance", [-16, 0, 32, 60])
def test_tensors_that_shrink_by_half_reach_the_bound(distance):
    placed = place(chain([1600, 800, 400, 200, 100], [distance] * 5))
    assert placed.bytes == placed.lower_bound == 1600 + max(distance, 0)


def test_outputs_over_inputs_find_room_above_the_lower_bound():
    """Each may begin a little before the one under it: together they need more than any two of them."""
    sizes, distances = (12, 156, 80, 160, 116), (0, 16, 8, 8, 12)
    chain = [
        Buffer(f"b{i}", size, 1, i - 1, i, {f"b{i - 1}": Over(distance)} if i else {})
        for i, (size, distance) in enumerate(zip(sizes, distances, strict=True))
    ]
    found = place([*chain, Buffer("s0", 8, 4, 0, 0), Buffer("s4", 8, 4, 3, 4)])
    assert found.lower_bound == 180
    assert found.bytes == 184


def test_constants_that_are_copied_find_room_beside_tensors_that_lie_over_each_other():
    """Keyword spotting for speed: the tops that changes try brought 14,720 bytes down to 13,884."""
    outputs = [320 if i % 2 else 64 for i in range(9)]
    tensors = [
        Buffer(str(i), 8000, 1, i, i + 1, {str(i - 1): Over(distance, 64 if i % 2 else 1)} if i else {})
        for i, distance in enumerate(outputs)
    ]
    constants = [Buffer(f"constants {i}", size, 4, i, i) for i, size in ((0, 5696), (2, 4928), (4, 4864), (6, 4928))]
    windows = [Buffer(f"windows {i}", 256 if i else 160, 4, i, i) for i in range(0, 10, 2)]
    last = [Buffer("constants 8", 4864, 4, 8, 8), Buffer("9", 64, 1, 9, 11)]
    found = place([*tensors, *constants, *windows, *last])
    assert found.lower_bound == 13_856
    assert found.bytes <= 14_000


@pytest.mark.parametrize("seed", range(20))
def test_scratch_that_is_added_lies_where_nothing_is_alive(seed):
    rng = random.Random(seed)
    buffers = tuple(
        PlacedBuffer(str(i), "tensor", rng.randrange(150), rng.randrange(1, 40), first, first + rng.randrange(3))
        for i, first in enumerate(rng.choices(range(6), k=10))
    )
    size = max(buffer.offset + buffer.bytes for buffer in buffers) + rng.randrange(30)
    stored = Stored({}, [()] * 8, Placement({}, size, 0), 1, frozenset(), {}, buffers)
    for step in range(8):
        alive = [buffer for buffer in buffers if buffer.first <= step <= buffer.last]
        free = [all(not 0 <= at - each.offset < each.bytes for each in alive) for at in range(size)]
        runs = [free[at:].index(False) if False in free[at:] else size - at for at in range(0, size, WORD)]
        assert stored.free_bytes(step) == max(runs)
        if max(runs):
            placed = stored.with_scratch(step, [Scratch(max(runs), WORD)])
            [place_of_scratch] = placed.scratch[step]
            assert all(free[place_of_scratch.offset :][: max(runs)])
            assert place_of_scratch.offset % WORD == 0 == placed.align % WORD
            assert len(placed.buffers) == len(buffers) + 1
