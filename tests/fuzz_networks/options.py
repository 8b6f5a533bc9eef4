"""Random options: what a network is compiled with, and how its C is built."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

TARGETS = {
    "portable": 8, "scalar32": 3, "cortex-m0": 4, "cortex-m3": 4, "cortex-m4": 8, "cortex-m33": 1, "cortex-m7": 2,
    "cortex-m55": 6, "rv32imc": 4, "host": 3, "cortex-m23": 1, "cortex-m85": 1,
}  # fmt: skip

SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")
BUILDS: dict[str, tuple[str, ...]] = {
    "gcc -O0 with sanitizers": ("gcc", "-O0", *SANITIZERS),
    "gcc -O1": ("gcc", "-O1"),
    "gcc -O2": ("gcc", "-O2"),
    "gcc -Os": ("gcc", "-Os"),
    "clang -O1": ("clang", "-O1"),
    "clang -O0 with sanitizers": ("clang", "-O0", *SANITIZERS),
    "clang -O2": ("clang", "-O2"),
}
SHARES = (8, 4, 1, 1, 3, 3, 1)
CORES = {"cortex-m0": 0.02, "cortex-m3": 0.02, "cortex-m4": 0.02, "cortex-m55": 0.04, "rv32imc": 0.02}
"""How many of the networks for these targets run on the emulated core."""


@dataclass(frozen=True)
class Options:
    """``compile``: arguments of ``qcgen.compile``; ``arena`` and ``flash`` beyond 1: times the least that fits.

    ``fast``: how much of the arena lies in a fast memory, the rest in a slow one; 0: it lies in one.
    ``build``: one of ``BUILDS``, or the core that the C runs on.
    """

    compile: Mapping[str, Any]
    self_test: bool
    arena: float
    flash: float
    build: str
    fast: float = 0.0


def random_options(rng: random.Random) -> Options:
    """Most options have their default in most networks."""
    [target] = rng.choices(list(TARGETS), list(TARGETS.values()))
    chosen: dict[str, Any] = {"target": target}

    def maybe(probability: float, name: str, *values: Any) -> None:
        if rng.random() < probability:
            chosen[name] = rng.choice(values)

    maybe(0.7, "layout", "nhwc", "nhwc", "nchw")
    maybe(0.3, "io", "quantized")
    maybe(0.4, "optimize", "speed")
    maybe(0.1, "simplify", False)
    maybe(0.35, "arena", "least")
    maybe(0.15, "io_memory", "arena")
    maybe(0.1, "input", "rows")
    arena = flash = 0.0
    if "arena" not in chosen and rng.random() < 0.15:
        arena = rng.choice([1.0, 1.05, 1.2, 1.5])
    if chosen.get("optimize") != "speed" and rng.random() < 0.08:
        flash = rng.choice([1.0, 1.1, 1.4])
    [build] = rng.choices(list(BUILDS), SHARES)
    if rng.random() < CORES.get(target, 0.0):
        build = target
    self_test = chosen.get("input") != "rows" and rng.random() < 0.15
    fast = rng.choice([0.0, 0.3, 0.6, 0.9]) if arena == 0 and not chosen.keys() & {"arena", "io_memory", "input"} else 0
    return Options(chosen, self_test, arena, flash, build, fast if rng.random() < 0.3 else 0.0)


ONNX_ALONE = ("simplify", "layout")
"""Options that mean nothing for .tflite files."""


def of_tflite(options: Options) -> Options:
    """Those that .tflite files have, too."""
    return replace(options, compile={key: value for key, value in options.compile.items() if key not in ONNX_ALONE})
