"""An image run on its emulated machine: inputs in, outputs out, failures explained."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from qcgen.cross import machine_of, run, succeed
from qcgen.emulate.image import ELF, Image
from qcgen.errors import EmulationFailed, naming
from qcgen.ir.plan import Plan
from qcgen.ir.types import Array

PATIENCE = 60.0
"""Seconds that an emulation may take, however little there is to compute."""

SECONDS_PER_MAC = 5e-6
"""Allowed besides, for each multiply-accumulate: twenty times what slow code on a slow machine takes."""

_FAULT = re.compile(r"fault (\d+) at ([0-9a-f]{8})")


@dataclass(frozen=True)
class Trial:
    """One call of the image's model number ``model``: ``feeds`` by tensor name, in the shapes of the C function.

    ``is_shifted``: every buffer is aligned to no more than it must be; ``garbage`` is the byte that the outputs and the
    arena hold before.
    """

    feeds: Mapping[str, Array]
    model: int = 0
    is_shifted: bool = False
    garbage: int = 0xEE


@dataclass(frozen=True)
class EmulatedOutcome:
    """What a call gave: ``outputs`` by tensor name, in the shapes of the C function, and the stack it used.

    ``status`` is what the function returned, 0 if it returns nothing; if it is 1, outputs mean nothing.
    """

    outputs: Mapping[str, Array]
    stack_bytes: int
    status: int = 0


def emulate(
    image: Image, trials: Sequence[Trial], *, plugin: Sequence[str] = (), timeout: float | None = None
) -> list[EmulatedOutcome]:
    """Makes the calls one after the other in one emulation; ``plugin`` are arguments for the emulator.

    Raises EmulationFailed if the code faults, writes beside its buffers, or does not end within ``timeout`` seconds.
    """
    machine = machine_of(image.target)
    with naming(image.folder / "inputs.bin"):
        (image.folder / "inputs.bin").write_bytes(b"".join(_record(image, trial) for trial in trials))
    command = [machine.emulator, *machine.arguments, "-display", "none", "-monitor", "none", "-serial", "none"]
    command += ["-semihosting-config", "enable=on,target=native", *plugin, "-kernel", ELF]
    result = run(command, image.folder, timeout=_patience(image, trials) if timeout is None else timeout)
    if result.returncode:
        raise EmulationFailed(_failure(image, result.returncode, result.stdout + result.stderr))
    return _outcomes(image, trials, (image.folder / "outputs.bin").read_bytes())


def _patience(image: Image, trials: Sequence[Trial]) -> float:
    macs = [artifact.report.macs for artifact in image.artifacts]
    return PATIENCE + SECONDS_PER_MAC * sum(macs[trial.model] for trial in trials)


def _record(image: Image, trial: Trial) -> bytes:
    """A call as the driver reads it."""
    head = np.array([trial.model, trial.is_shifted, trial.garbage], np.dtype("<u4")).tobytes()
    plan = image.artifacts[trial.model].plan
    return head + b"".join(_input(plan, trial, port.tensor.name) for port in plan.before)


def _input(plan: Plan, trial: Trial, name: str) -> bytes:
    [port] = [port for port in plan.before if port.tensor.name == name]
    array = trial.feeds[name]
    dtype = port.tensor.dtype.numpy
    if array.dtype != dtype or array.shape != port.shape:
        raise ValueError(f"input {name} must be {dtype} {list(port.shape)}, not {array.dtype} {list(array.shape)}")
    return array.astype(dtype.newbyteorder("<")).tobytes()


def _outcomes(image: Image, trials: Sequence[Trial], data: bytes) -> list[EmulatedOutcome]:
    outcomes, start = [], 0
    for trial in trials:
        outputs: dict[str, Array] = {}
        for port in image.artifacts[trial.model].plan.after:
            end = start + port.tensor.size * port.tensor.dtype.bytes
            held = np.frombuffer(data[start:end], port.tensor.dtype.numpy.newbyteorder("<"))
            outputs[port.tensor.name] = held.astype(port.tensor.dtype.numpy).reshape(port.shape)
            start = end
        stack, status = (int.from_bytes(data[at : at + 4], "little") for at in (start, start + 4))
        outcomes.append(EmulatedOutcome(outputs, stack, status))
        start += 8
    if start != len(data):
        raise EmulationFailed(f"the emulated core wrote {len(data)} bytes of outputs, not {start}")
    return outcomes


def _failure(image: Image, status: int, text: str) -> str:
    """Why an emulation ended with this exit status, in one line if the driver told."""
    where = f"on the emulated {image.target.name}"
    if fault := _FAULT.search(text):
        function = _function_at(image, int(fault[2], 16))
        return f"the code faulted {where}: exception {int(fault[1])} at 0x{fault[2]}{function}"
    return f"the code failed {where} (exit status {status}):\n{text.strip()[-2000:]}"


def _function_at(image: Image, address: int) -> str:
    """ " in FUNCTION", or nothing if the address is not in the image."""
    command = [f"{image.target.tools}addr2line", "-f", "-e", ELF, f"{address:#x}"]
    name = succeed(command, image.folder).split("\n")[0]
    return "" if name.startswith("?") else f" in {name}"


def random_feeds(plan: Plan, seed: int) -> dict[str, Array]:
    """Random inputs in the shapes of the C function, over the whole range of integers; the same for the same seed."""
    generator = np.random.default_rng(seed)
    feeds: dict[str, Array] = {}
    for port in plan.before:
        dtype = port.tensor.dtype
        if np.issubdtype(dtype.numpy, np.floating):
            feeds[port.tensor.name] = generator.standard_normal(port.shape).astype(dtype.numpy)
        else:
            values = generator.integers(dtype.low, dtype.high + 1, port.shape)
            feeds[port.tensor.name] = values.astype(dtype.numpy)
    return feeds


def end_feeds(plan: Plan, seed: int) -> list[dict[str, Array]]:
    """Four random inputs, then all at the lowest code (-10 of floats), the highest (10), 0, and both by turns."""
    drawn = [random_feeds(plan, seed + i) for i in range(4)]
    made: list[dict[str, Array]] = []
    for kind in ("low", "high", "zero", "turns"):
        feeds: dict[str, Array] = {}
        for port in plan.before:
            dtype = port.tensor.dtype
            low, high = (-10, 10) if np.issubdtype(dtype.numpy, np.floating) else (dtype.low, dtype.high)
            turns = np.where(np.arange(port.tensor.size).reshape(port.shape) % 2, low, high)
            values = {"low": np.array(low), "high": np.array(high), "zero": np.array(0), "turns": turns}[kind]
            feeds[port.tensor.name] = (np.zeros(port.shape) + values).astype(dtype.numpy)
        made.append(feeds)
    return [*drawn, *made]
