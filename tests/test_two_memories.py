"""An arena in two memories: `--arena FAST+SLOW`."""

from __future__ import annotations

from itertools import combinations

import pytest
from batch import require
from bench.compiling import Network
from emulated import require_core
from levels import DIGITS
from marks import some_at_first

import qcgen
from qcgen.emulate import measure, random_feeds
from qcgen.verification import verify

OPTIONS = {"layout": "nhwc", "io": "quantized"}


def network():
    n = Network((1, 3, 20, 20))
    y = n.conv(n.conv("x", 16, 3, 2), 24)
    return n.model(n.conv(n.mean(n.sum(y, n.depthwise(y))), 10))


@pytest.mark.parametrize("target", some_at_first(["portable", "cortex-m4", "cortex-m0", "rv32imc"]))
@pytest.mark.parametrize("fast", some_at_first([1, 600, 2000, 3000, 4000], 1, 2000))
def test_outputs_are_the_same_and_no_two_tensors_lie_over_each_other(fast, target):
    artifact = qcgen.compile(network(), name="two", target=target, arena=f"{fast}+20000", **OPTIONS)
    plan = artifact.plan
    assert plan.arena_bytes <= fast
    assert plan.slow is not None
    ends = {True: plan.slow.bytes, False: plan.arena_bytes}
    for buffer in plan.buffers:
        assert 0 <= buffer.offset <= buffer.offset + buffer.bytes <= ends[buffer.is_slow]
    for a, b in combinations([buffer for buffer in plan.buffers if buffer.is_slow], 2):
        together = a.first <= b.last and b.first <= a.last
        assert not together or a.offset + a.bytes <= b.offset or b.offset + b.bytes <= a.offset
    require("gcc")
    assert verify(artifact, cases=3, flags=("-O1",), oracle="own").is_right


def test_what_is_used_most_for_each_byte_is_in_the_fast_memory():
    need = qcgen.compile(network(), target="cortex-m4", **OPTIONS).plan.arena_bytes
    shares = []
    for fast in (100, 600, 2000, need - 64):
        plan = qcgen.compile(network(), target="cortex-m4", arena=f"{fast}+20000", **OPTIONS).plan
        shares.append(plan.fast_share)
        scratch = [buffer for buffer in plan.buffers if buffer.kind == "scratch" and buffer.bytes <= fast // 2]
        assert not any(buffer.is_slow for buffer in scratch)
    assert shares == sorted(shares)
    assert shares[0] < 0.1
    assert shares[-1] > 0.5


@pytest.mark.parametrize("core", ["cortex-m4", "rv32imc"])
def test_it_runs_on_an_emulated_core(core):
    require_core(core)
    artifact = qcgen.compile(network(), name="two", target=core, arena="2000+20000", **OPTIONS)
    measure(artifact, random_feeds(artifact.plan, seed=1))  # compares the outputs


def test_its_self_test_passes():
    require("gcc")
    artifact = qcgen.compile(DIGITS / "digits_qop_s8.onnx", arena="600+20000", **OPTIONS).with_self_test()
    assert verify(artifact, cases=1, oracle="own", sums=False).is_right
    assert "_SLOW_BYTES" in artifact.files["digits_qop_s8.h"]


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"arena": "500+600"}, "bytes of slow memory"),
        ({"arena": "99999+600"}, "all tensors fit into the fast memory"),
        ({"arena": "2000+20000", "io_memory": "arena"}, 'leave io_memory="arena" out'),
        ({"arena": "2000+20000", "input": "rows"}, 'leave input="rows" out'),
    ],
)
def test_what_cannot_be_is_refused(options, what):
    with pytest.raises(qcgen.ModelRejected, match=what) as rejected:
        qcgen.compile(network(), **OPTIONS, **options)
    assert len(rejected.value.problems) == 1


@pytest.mark.parametrize("arena", ["1+", "+1", "0+5", "1+2+3", "64kB+2", "1+least"])
def test_other_words_are_no_sizes(arena):
    with pytest.raises(ValueError, match="two of them such as"):
        qcgen.compile(network(), arena=arena)
