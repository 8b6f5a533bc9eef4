"""Many compiled models in one program, run on inputs that reach the ends of every accumulator."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from unittest import mock

import numpy as np
from cases import Case
from tools import require

from qcgen.artifact import Artifact
from qcgen.build import STRICT_FLAGS
from qcgen.compiler import compile_graph
from qcgen.emulate.image import models_header
from qcgen.intervals import weight_differences
from qcgen.ir.plan import Options
from qcgen.ir.program import Conv, Operator, Slice
from qcgen.ir.types import Array, DType, Layout
from qcgen.kernels import KERNELS
from qcgen.reference import evaluate_operator
from qcgen.reference.tolerance import tolerance

STREAMS = Path(__file__).parent / "streams"
DRIVEN = 6  # output channels of each case whose accumulators are driven to both ends


@dataclass(frozen=True)
class Unit:
    """One case compiled with certain options; ``name`` is its prefix in C."""

    name: str
    case: Case
    artifact: Artifact

    @property
    def crops(self) -> list[Operator]:
        """Where SAME_* meets a stride beyond the kernel, onnxruntime crops the image first, and so does the program."""
        return [*self.artifact.program.operators[:-1]]

    @property
    def op(self) -> Operator:
        """The convolution, which is all there is but for crops."""
        assert all(isinstance(crop, Slice) for crop in self.crops)
        return self.artifact.program.operators[-1]


@dataclass(frozen=True)
class Machine:
    """How a program is built and run: ``prefix`` comes before its name, ``order`` is numpy's for its bytes."""

    flags: tuple[str, ...] = ()
    prefix: tuple[str, ...] = ()
    order: str = "="


HOST = Machine()
SANITIZED = ("-O0", "-fsanitize=address,undefined")
"""Not optimized: no access is removed before it is checked, and gcc takes a third of the time of -O1."""

AT_ONCE = 64
"""Units that the compiler gets as one file at most: half the time of files apart, in memory that any machine has."""


@dataclass(frozen=True)
class Image:
    """A program in ``folder``, made of the driver and all units."""

    folder: Path
    units: tuple[Unit, ...]
    machine: Machine = HOST

    def call(self, calls: Iterable[Call], mode: str = "exact", fill: int = 0) -> list[dict[str, Array]]:
        """The outputs by tensor name of each call, as the C functions give them."""
        calls = list(calls)
        if not calls:
            return []
        records = record(self.units, calls, self.machine.order, mode, fill)
        command = [*self.machine.prefix, str(self.folder / "driver")]
        result = subprocess.run(command, input=records, capture_output=True, check=False)
        assert result.returncode == 0, result.stderr.decode(errors="replace")[-3000:]
        return outputs_of(calls, result.stdout, self.machine.order)

    def run(self, mode: str = "exact", fill: int = 0) -> dict[str, Array]:
        """The outputs of each unit for its case's inputs, (count, *shape) in the model's own layout."""
        found = iter(self.call(calls_of(self.units), mode, fill))
        return {unit.name: stacked(unit, [next(found) for _ in inputs(unit.case)]) for unit in self.units}

    def assert_equals_reference(self, mode: str = "exact", fill: int = 0) -> None:
        """Fails with every unit whose outputs are not those of the reference."""
        outputs = self.run(mode, fill)
        wrong = [text for unit in self.units if (text := difference(unit, outputs[unit.name]))]
        assert not wrong, f"{len(wrong)} of {len(self.units)} models are wrong:\n" + "\n".join(wrong)


Call = tuple[Unit, Mapping[str, Array]]
"""A unit, or anything else with a name and an artifact, and its inputs by tensor name as the C function takes them."""


def calls_of(units: Iterable[Unit]) -> list[Call]:
    """Every unit with each of its case's inputs."""
    calls = []
    for unit in units:
        [port] = unit.artifact.plan.inputs
        calls += [(unit, {port.tensor.name: x}) for x in to_boundary(unit, inputs(unit.case))]
    return calls


def stacked(unit: Unit, found: Sequence[Mapping[str, Array]]) -> Array:
    """The outputs of a unit's calls, (count, *shape) in the model's own layout."""
    [port] = unit.artifact.plan.outputs
    return from_boundary(unit, np.stack([arrays[port.tensor.name] for arrays in found]))


def record(units: Sequence[Unit], calls: Iterable[Call], order: str, mode: str, fill: int) -> bytes:
    """The calls as the driver reads them."""
    indices = {unit.name: index for index, unit in enumerate(units)}
    parts = []
    for unit, feeds in calls:
        parts.append(np.array([indices[unit.name], mode == "guarded", fill], f"{order}u4").tobytes())
        for port in unit.artifact.plan.before:
            given = np.asarray(feeds[port.tensor.name])  # a scalar of NumPy's would stay in this machine's order
            parts.append(given.astype(port.tensor.dtype.numpy.newbyteorder(order)).tobytes())
    return b"".join(parts)


def outputs_of(calls: Iterable[Call], data: bytes, order: str) -> list[dict[str, Array]]:
    """What the driver wrote: the outputs by tensor name of each call."""
    found, start = [], 0
    for unit, _ in calls:
        arrays = {}
        for port in unit.artifact.plan.after:
            dtype = port.tensor.dtype.numpy
            end = start + port.tensor.size * dtype.itemsize
            held = np.frombuffer(data[start:end], dtype.newbyteorder(order))
            arrays[port.tensor.name], start = held.astype(dtype).reshape(port.shape), end
        found.append(arrays)
    assert start == len(data), f"{len(data)} bytes of outputs instead of {start}"
    return found


@cache
def unit(case: Case, layout: str, optimize: str, target: str = "portable", arena: int | None = None) -> Unit:
    """The case compiled with these options."""
    name = f"{case.name}_{layout}_{optimize}" + ("" if target == "portable" else f"_{target.replace('-', '_')}")
    name += "" if arena is None else f"_in_{arena}"
    options = Options(target=target, layout=layout, optimize=optimize, numerics=case.numerics, arena=arena)
    return Unit(name, case, compile_graph(case.graph, options, name, f"{case.name}.onnx", case.node))


@cache
def family_unit(case: Case, optimize: str, target: str, family: str) -> Unit:
    """The case channels last, by the first kernel of a family that serves it, or a portable one."""
    kernels = [kernel for kernel in KERNELS if kernel.name.startswith((f"{family}/", "portable/"))]
    with mock.patch("qcgen.plan.KERNELS", kernels):
        return unit.__wrapped__(case, "nhwc", optimize, target)


def build(
    folder: Path,
    units: Iterable[Unit],
    compiler: str,
    flags: Sequence[str],
    machine: Machine = HOST,
    *,
    apart: bool = False,
) -> Image:
    """Compiles units with the strict flags besides ``flags`` and links them, many as one file or each ``apart``."""
    units = tuple(units)
    if not units:
        return Image(folder, units, machine)
    objects = compile_units(folder, units, [compiler, *machine.flags, *flags], apart=apart)
    sources = [*objects, *(str(STREAMS / name) for name in ("driver.c", "stdio.c"))]
    call([compiler, "-std=c99", *machine.flags, *flags, "-I.", "-o", "driver", *sources, "-lm"], folder)
    return Image(folder, units, machine)


def compile_units(folder: Path, units: Sequence[Unit], command: Sequence[str], *, apart: bool = False) -> list[str]:
    """The names of object files in ``folder``, made by as many processes as processors; models.h is for the driver."""
    for each in units:
        each.artifact.write(folder)
    (folder / "models.h").write_text(models_header([each.artifact.plan for each in units]))
    workers = os.cpu_count() or 1
    parts = max(min(2 * workers, -(-len(units) // 8)), -(-len(units) // AT_ONCE))
    # Neighbours in the table of cases differ in cost less than distant ones: deal them out.
    shares = [[f"{each.name}.c" for each in units[start::parts]] for start in range(parts)]
    if not apart:
        for number, share in enumerate(shares):
            (folder / f"units{number}.c").write_text("".join(f'#include "{name}"\n' for name in share))
        shares = [[f"units{number}.c"] for number in range(len(shares))]
    command = [*command, *STRICT_FLAGS, "-c"]
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(lambda share: call([*command, *share], folder), shares))
    return [name.removesuffix("c") + "o" for share in shares for name in share]


def assert_sanitized(folder: Path, units: Iterable[Unit]) -> None:
    """Fails if a unit reads or writes beside its buffers, does what C leaves undefined, or gives wrong outputs."""
    require("gcc")
    build(folder, units, "gcc", SANITIZED).assert_equals_reference()


def assert_right(units: Iterable[Unit], outputs: Mapping[str, Array]) -> None:
    """Fails with every unit whose outputs, by its name, are not those of the reference."""
    wrong = [text for each in units if (text := difference(each, outputs[each.name]))]
    assert not wrong, "\n".join(wrong)


def call(command: Sequence[str], folder: Path) -> None:
    """Runs a command that must succeed and say nothing."""
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
    assert result.returncode == 0, f"{' '.join(command[:20])} failed:\n{result.stderr[:3000]}"
    assert not result.stderr, result.stderr[:3000]


@cache
def inputs(case: Case) -> Array:
    """(count, *shape of x): random, random extremes, constant ones, and those that drive channels to their ends."""
    whole = unit(case, "model", "size")
    op = whole.op
    [x] = whole.artifact.program.inputs
    rng = np.random.default_rng(1)
    shape, dtype = (2, *x.shape), op.x.dtype.numpy
    if op.x.dtype is DType.FLOAT32:
        ends = np.float32([-4, 0, 4])
        random = rng.standard_normal(shape).astype(dtype)
    else:
        ends = np.array([op.x.dtype.low, op.x.zero_point or 0, op.x.dtype.high], dtype)
        random = rng.integers(op.x.dtype.low, op.x.dtype.high + 1, shape).astype(dtype)
    constant = np.stack([np.full(x.shape, end, dtype) for end in ends])
    driving = [] if whole.crops else [driven(op, ends, DRIVEN)]
    return np.concatenate([random, rng.choice(ends, shape), constant, *driving])


def cropped(case: Case, xs: Array) -> Array:
    """What of some inputs (n, *shape) the convolution reads."""
    for crop in unit(case, "model", "size").crops:
        xs = np.stack([evaluate_operator(crop, x) for x in xs])
    return xs


def driven(op: Operator, ends: Array, channels: int) -> Array:
    """Inputs that put the output pixel with the least padding at both ends of some channels' accumulators.

    ``ends`` are the lowest input, the one that contributes nothing, and the highest. The sum of a channel is greatest
    where the input is highest under positive weights and lowest under negative ones.
    """
    g = op.geometry
    weights = weight_differences(op) if isinstance(op, Conv) and op.x.dtype.is_quantized else op.weights
    signs = weights.reshape(g.out_channels, g.group_in, *g.kernel)
    positions = list(product(*(range(o) for o in g.output)))
    middle = max(positions, key=lambda position: len(_window(op, position)))
    images = []
    for m in np.linspace(0, g.out_channels - 1, min(channels, g.out_channels)).astype(int).tolist():
        image = np.full((2, g.batch, g.in_channels, *g.input), ends[1])
        first = m // g.group_out * g.group_in
        for tap, pixel in _window(op, middle):
            positive = signs[(m, slice(None), *tap)] > 0
            image[(0, slice(None), slice(first, first + g.group_in), *pixel)] = np.where(positive, ends[2], ends[0])
            image[(1, slice(None), slice(first, first + g.group_in), *pixel)] = np.where(positive, ends[0], ends[2])
        images.append(image)
    stacked = np.concatenate(images)
    return np.moveaxis(stacked, 2, -1) if op.x.layout is Layout.CHANNELS_LAST else stacked


def _window(op: Operator, position: tuple[int, ...]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The taps of an output pixel that lie on the image, each with the input pixel it reads."""
    g = op.geometry
    found = []
    for tap in product(*(range(k) for k in g.kernel)):
        axes = zip(position, g.strides, g.pads_begin, tap, g.dilations, strict=True)
        pixel = tuple(o * s - p + t * d for o, s, p, t, d in axes)
        if all(0 <= i < size for i, size in zip(pixel, g.input, strict=True)):
            found.append((tap, pixel))
    return found


@cache
def expected(case: Case) -> tuple[Array, Array]:
    """The reference's outputs for the case's inputs, and how far each may be missed."""
    op = unit(case, "model", "size").op
    xs = cropped(case, inputs(case))
    # One batch of all inputs: the images of a batch do not depend on each other.
    g = replace(op.geometry, batch=op.geometry.batch * len(xs))
    whole = replace(op, geometry=g)
    flat = xs.reshape(g.batch, *op.x.shape[1:])
    y = evaluate_operator(whole, flat)
    shape = (len(xs), *op.y.shape)
    return y.reshape(shape), tolerance(whole, flat, y).reshape(shape)


def difference(unit: Unit, outputs: Array) -> str:
    """Where outputs are not what the reference says, "" if nowhere."""
    wanted, allowed = expected(unit.case)
    wrong = ~(np.abs(outputs.astype(np.float64) - wanted.astype(np.float64)) <= allowed)
    if not wrong.any():
        return ""
    index = tuple(int(i) for i in np.argwhere(wrong)[0])
    first = f"at {index} {outputs[index]} instead of {wanted[index]}"
    return f"{unit.name}: {int(wrong.sum())} of {wrong.size} outputs differ, {first}"


def to_boundary(unit: Unit, images: Array) -> Array:
    """(count, *shape of x) as the C function takes them."""
    [port] = unit.artifact.plan.inputs
    return _moved(images, port.tensor.layout, port.layout)


def from_boundary(unit: Unit, images: Array) -> Array:
    """(count, *shape of y) of the C function in the model's own layout."""
    [port] = unit.artifact.plan.outputs
    own = port.tensor.layout is Layout.CHANNELS_LAST
    held = port.layout == "channels last"
    return images if own == held else np.moveaxis(images, 2, -1) if own else np.moveaxis(images, -1, 2)


def _moved(images: Array, own: Layout | None, held: str) -> Array:
    if (own is Layout.CHANNELS_LAST) == (held == "channels last"):
        return images
    moved = np.moveaxis(images, -1, 2) if own is Layout.CHANNELS_LAST else np.moveaxis(images, 2, -1)
    return np.ascontiguousarray(moved)
