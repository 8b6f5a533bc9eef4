"""Generated code on an emulated ATmega2560, where an int has 16 bits: many small images, as constants take its RAM."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from batch import STREAMS, call, compile_units, outputs_of, record
from subjects import Arrays, Subject

from qcgen.emulate.image import models_header

RAM = 8192
DRIVER_BYTES = 768
"""Of the RAM: the driver's texts and the stack."""

MODEL_BYTES, PORT_BYTES, GUARDS = 80, 12, 76
"""Of the RAM: a model's row in the driver's table, each of its ports', and what surrounds a guarded buffer."""

POOL_BYTES = 520
"""Of the RAM: the structs of a pool, of which this compiler folds less than newer ones."""
WINDOWS_BYTES = 4 * 33
"""The struct of what copies windows."""

INPUT_BYTES, MODELS = 64 * 1024, 24
"""Of all models in one image, so that they fit its 256 KiB of flash; a model alone may have more inputs."""

# avr-libc has no rintf, but a function that rounds in the same way.
COMPILER = ("avr-gcc", "-mmcu=atmega2560", "-Os", "-Drintf=lrintf")
EMULATOR = ("simavr", "-m", "atmega2560", "-f", "16000000")
LINE = re.compile(r"\x1b\[32m(.*?)\.?\n")
TIMEOUT = 300


@dataclass
class Image:
    """Subjects that fit into one image."""

    subjects: list[Subject] = field(default_factory=list)
    constants: int = 0
    buffers: int = 0
    inputs: int = 0

    def takes(self, each: Subject) -> bool:
        """Adds a subject if there is room for it."""
        constants = self.constants + constant_bytes(each)
        buffers = max(self.buffers, buffer_bytes(each))
        inputs = self.inputs + input_bytes(each)
        if constants + buffers > RAM - DRIVER_BYTES:
            return False
        if self.subjects and (inputs > INPUT_BYTES or len(self.subjects) == MODELS):
            return False
        self.subjects.append(each)
        self.constants, self.buffers, self.inputs = constants, buffers, inputs
        return True


def constant_bytes(each: Subject) -> int:
    """RAM that a model takes for good: avr-gcc copies constants there."""
    plan = each.artifact.plan
    pools = sum(call.kernel.endswith(("max_pool", "portable/average_pool")) for call in plan.calls)
    windows = sum(call.kernel in ("portable/conv", "portable/conv_float") for call in plan.calls)
    constants = sum(call.constant_bytes for call in plan.calls) + POOL_BYTES * pools + WINDOWS_BYTES * windows
    return constants + MODEL_BYTES + PORT_BYTES * len(plan.ports)


def buffer_bytes(each: Subject) -> int:
    """RAM that a model takes during a call."""
    plan = each.artifact.plan
    sizes = [port.tensor.size * port.tensor.dtype.bytes for port in plan.ports] + [plan.arena_bytes]
    return sum(sizes) + GUARDS * len(sizes)


def input_bytes(each: Subject) -> int:
    """Flash for a model's inputs."""
    return sum(12 + sum(array.nbytes for array in feeds.values()) for feeds in each.feeds)


def fits(each: Subject) -> bool:
    """Whether the RAM has room for a model alone."""
    return Image().takes(each)


def images(subjects: Sequence[Subject]) -> list[Image]:
    """All subjects, each of which fits, in few images."""
    found: list[Image] = []
    for each in sorted(subjects, key=lambda each: -constant_bytes(each)):
        if not any(image.takes(each) for image in found):
            found.append(Image())
            assert found[-1].takes(each)
    return found


def run(subjects: Sequence[Subject], folder: Path) -> list[Arrays]:
    """The outputs of all calls of all subjects, each of which fits; buffers are guarded."""
    compile_units(folder, subjects, COMPILER, apart=True)
    found: dict[str, list[Arrays]] = {}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for image, outputs in pool.map(lambda item: _run(item[1], folder / str(item[0])), enumerate(images(subjects))):
            rest = iter(outputs)
            found |= {each.name: [next(rest) for _ in each.feeds] for each in image.subjects}
    return [arrays for each in subjects for arrays in found[each.name]]


def _run(image: Image, folder: Path) -> tuple[Image, list[Arrays]]:
    """The outputs of all calls of an image, whose object files lie in the folder above ``folder``."""
    folder.mkdir()
    calls = [call for each in image.subjects for call in each.calls]
    (folder / "models.h").write_text(models_header([each.artifact.plan for each in image.subjects]))
    (folder / "inputs.bin").write_bytes(record(image.subjects, calls, "<", "guarded", 0xEE))
    objects = [f"../{each.name}.o" for each in image.subjects]
    sources = [str(STREAMS / name) for name in ("driver.c", "avr.c")]
    call([*COMPILER, "-std=c99", "-I.", "-I..", *sources, *objects, "-lm", "-o", "image.elf"], folder)
    result = subprocess.run(
        [*EMULATOR, "image.elf"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
        timeout=TIMEOUT,
    )
    *lines, last = LINE.findall(result.stdout) or [""]
    assert last == "end", last or result.stdout[-1000:]
    return image, outputs_of(calls, bytes.fromhex("".join(lines)), "<")
