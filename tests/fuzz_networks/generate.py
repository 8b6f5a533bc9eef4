"""From a seed and a number to a model's bytes and the options to compile it with."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from fuzz_networks.network import Network, Value
from fuzz_networks.operators import IMAGE, LARGEST, OPERATORS, Extend
from fuzz_networks.options import Options, random_options
from fuzz_networks.quantizer import dynamically_quantized, quantized
from fuzz_networks.rare import RARE

QUANTIZED = 0.12
"""The share of networks that onnxruntime's quantizer makes of float ones."""

DYNAMIC = 20
"""It quantizes one of so many networks dynamically, or fewer."""

OPSETS = (10, 11, 12, 13, 13, 14, 15, 16, 17, 17, 18, 19, 20, 21)
RARELY = 8
"""One of so many networks has rare operators and spellings, too, and one of the newest opsets."""


@dataclass(frozen=True)
class Recipe:
    """A model, how far outputs may be off ("exact", "bits", "code" or "float"), and what becomes of it.

    ``source`` says how the model was made.
    """

    content: bytes
    tolerance: str
    source: str
    options: Options


def recipe(seed: int, number: int, narrow: bool) -> Recipe:
    """The same for the same arguments; ``narrow``: weights that processors without VNNI multiply right, too."""
    rng = random.Random(f"networks {seed} {number}")
    if number % RARELY == RARELY - 1:
        net = random_network(rng, narrow, (*OPSETS, 22, 23, 24, 25), {**OPERATORS, **RARE})
        content, tolerance = net.bytes(), net.tolerance
        source = f"opset {net.opset}, rare operators"
    elif rng.random() < QUANTIZED:
        content, source = quantized(rng, narrow)
        tolerance = "exact"
    elif number % DYNAMIC == DYNAMIC - 1:
        content, source = dynamically_quantized(rng, narrow)
        tolerance = "bits"
    else:
        net = random_network(rng, narrow)
        content, tolerance = net.bytes(), net.tolerance
        source = f"opset {net.opset}, {net.integer:.0%} QOperator"
    return Recipe(content, tolerance, source, random_options(rng))


def random_network(
    rng: random.Random, narrow: bool, opsets: Sequence[int] = OPSETS, others: Mapping[Extend, int] = OPERATORS
) -> Network:
    """``others`` are the operators of networks that are not for images."""
    opset = rng.choice(opsets)
    net = Network(rng, opset, rng.choice([0.0, 0.0, 0.5, 1.0, 1.0]), narrow)
    is_image = net.chance(0.35)
    operators = IMAGE if is_image else others
    for _ in range(1 if is_image else net.pick(1, 1, 1, 2, 2, 3)):
        net.input(image_shape(net) if is_image else input_shape(net))
    steps = net.pick(2, 3, 4, 5, 6, 7) if is_image else net.pick(1, 2, 3, 3, 4, 4, 5, 6, 8)
    for _ in range(60):
        x = source(net)
        if steps == 0 or x is None:
            break
        [operator] = rng.choices(list(operators), list(operators.values()))
        if operator(net, x) is not None:
            steps -= 1
    net.finish()
    return net


def source(net: Network) -> Value | None:
    """Mostly the newest tensor."""
    fitting = [value for value in net.values if prod(value.shape) <= LARGEST]
    if not fitting:
        return None
    return fitting[-1] if net.chance(0.6) else net.rng.choice(fitting)


def image_shape(net: Network) -> tuple[int, ...]:
    """An image of some rows, so that layers may run row by row."""
    return (1, net.pick(1, 2, 3, 4, 8, net.channels()), net.size() + net.pick(3, 4, 6), net.size() + net.pick(0, 1, 2))


def input_shape(net: Network) -> tuple[int, ...]:
    if net.values and net.chance(0.5):
        return net.values[0].shape
    match net.rng.randrange(20):
        case 0 | 1 | 2:
            return (net.pick(1, 1, 1, 2, 3, 5), net.channels())
        case 3 | 4 | 5:
            return (1, net.channels(), net.size() + net.pick(0, 0, 9))
        case 6:
            return (1, net.pick(1, 2, 3), net.pick(1, 2, 3, 4), net.pick(1, 2, 3, 5), net.pick(1, 2, 3, 5))
        case _:
            return (net.pick(1, 1, 1, 1, 1, 1, 2, 3), net.channels(), net.size(), net.size())
