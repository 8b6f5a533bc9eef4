"""The instruction set of this processor, as far as onnxruntime's numbers depend on it."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
"""Where Linux lists what a processor can do."""


@dataclass(frozen=True)
class Processor:
    """``machine`` as platform.machine() calls it, ``flags`` as Linux does; no flags where they are unknown."""

    machine: str
    flags: frozenset[str]

    @property
    def is_x86(self) -> bool:
        """Whether this is x86-64, with whose onnxruntime outputs are meant to be equal."""
        return self.machine.lower() in ("x86_64", "amd64")

    @property
    def has_fma(self) -> bool:
        """Whether it multiplies and adds with one rounding."""
        return "fma" in self.flags

    @property
    def has_dot_products(self) -> bool:
        """Whether it adds products of 8-bit numbers to 32 bits: VNNI on x86-64, SDOT on AArch64."""
        return not self.flags.isdisjoint(("avx512_vnni", "avx_vnni", "asimddp"))

    def __str__(self) -> str:
        if not self.flags:
            return f"{self.machine}, instruction set unknown"
        if not self.is_x86:
            return f"{self.machine} {'with' if self.has_dot_products else 'without'} SDOT"
        vector = next((name for flag, name in _VECTORS if flag in self.flags), "no AVX")
        fma = "" if self.has_fma else " without FMA"
        return f"{vector}{fma} {'with' if self.has_dot_products else 'without'} VNNI"


_VECTORS = (("avx512f", "AVX512"), ("avx2", "AVX2"), ("avx", "AVX"))


def this_processor() -> Processor:
    """The processor that this runs on."""
    try:
        text = CPUINFO.read_text("utf-8")
    except OSError:
        return Processor(platform.machine(), frozenset())
    lines = (line.partition(":") for line in text.splitlines())
    words = next((value for key, _, value in lines if key.strip() in ("flags", "Features")), "")
    return Processor(platform.machine(), frozenset(words.split()))
