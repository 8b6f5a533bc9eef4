"""Code built with -Os takes at most 1.05 times the instructions of -O2, but for the kernels that are named here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import pytest
from emulated import require_core

import qcgen
from qcgen.emulate import Measurement, measure, random_feeds
from tests.bench.whole import DIGITS, MLPERF, Network

LIMIT = 1.05

CORES = ("cortex-m0", "cortex-m3", "cortex-m4", "cortex-m55", "rv32imc")
"""One of each family of kernels."""

NETWORKS = {each.title: each for each in (DIGITS[0], *MLPERF[:2])}

WHOLE = "network"

ABOVE: dict[tuple[str, str], Mapping[str, float]] = {
    ("cortex-m0", "digits, int8"): {"scalar/conv": 1.08},
    ("cortex-m0", "keyword spotting"): {"portable/softmax": 1.08},
    ("cortex-m3", "digits, int8"): {"scalar/depthwise": 1.07},
    ("cortex-m3", "keyword spotting"): {"scalar/depthwise": 1.07},
    ("cortex-m4", "digits, int8"): {"arm_dsp/depthwise_direct": 1.08},
    ("rv32imc", "digits, int8"): {"portable/global_average_pool": 1.06},
    ("rv32imc", "keyword spotting"): {"scalar/dense": 1.08},
}
"""By core and network: kernels of which a layer takes more, and how much the worst one may take.

Whole networks stay below 1.05: these layers are a small part of them."""


@cache
def counted(core: str, title: str, compiler: str) -> tuple[Measurement, Measurement]:
    """One inference of a network at -Os and at -O2."""
    network: Network = NETWORKS[title]
    artifact = qcgen.compile(network.path, name="net", target=core, layout="nhwc", io="quantized", optimize="speed")
    feeds = random_feeds(artifact.plan, seed=1)
    small, fast = (measure(artifact, feeds, flags=(level,), compiler=compiler) for level in ("-Os", "-O2"))
    return small, fast


def worst(core: str, title: str) -> dict[str, float]:
    """By kernel the largest ratio of -Os to -O2 of its layers, built by gcc, and that of the network."""
    small, fast = counted(core, title, "gcc")
    found = {WHOLE: small.instructions / fast.instructions}
    for one, other in zip(small.nodes, fast.nodes, strict=True):
        found[one.kernel] = max(found.get(one.kernel, 0.0), one.instructions / other.instructions)
    return found


def required(core: str, title: str, compiler: str = "gcc") -> None:
    require_core(core, compiler)
    if not NETWORKS[title].path.is_file():
        pytest.skip(f"{NETWORKS[title].path} is not here")


PAIRS = [
    pytest.param(core, title, marks=() if (core, title) == ("cortex-m3", DIGITS[0].title) else pytest.mark.all)
    for core in CORES
    for title in NETWORKS
]


@pytest.mark.parametrize(("core", "title"), PAIRS)
def test_networks_and_layers_take_hardly_more_but_for_those_named(core, title):
    required(core, title)
    found, above = worst(core, title), ABOVE.get((core, title), {})
    assert {kernel: ratio for kernel, ratio in found.items() if ratio > above.get(kernel, LIMIT)} == {}
    assert [kernel for kernel in above if found[kernel] <= LIMIT] == [], "no longer above: take it from the table"


@pytest.mark.all
@pytest.mark.parametrize("core", CORES)
def test_a_network_built_by_clang_does_so(core):
    title = MLPERF[1].title
    required(core, title, "clang")
    small, fast = counted(core, title, "clang")
    assert small.instructions <= LIMIT * fast.instructions


def main() -> None:
    """Prints ABOVE as measured, rounded up."""
    for core in CORES:
        for title in NETWORKS:
            above = {kernel: round(ratio + 0.006, 2) for kernel, ratio in worst(core, title).items() if ratio > LIMIT}
            print(f'    ("{core}", "{title}"): {above},', flush=True)


if __name__ == "__main__":
    main()
