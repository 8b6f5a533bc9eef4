"""Many compiled models in one program, run on inputs that reach the ends of every accumulator."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from cases import Case

from qcgen.artifact import Artifact
from qcgen.build import STRICT_FLAGS
from qcgen.compiler import compile_graph
from qcgen.intervals import weight_differences
from qcgen.ir.plan import Options
from qcgen.ir.program import Conv, Operator
from qcgen.ir.types import Array, DType, Layout
from qcgen.reference import evaluate_operator
from qcgen.reference.tolerance import tolerance

DRIVER = Path(__file__).parent / "driver.c"
DEBIAN = {"gcc": "gcc", "g++": "g++", "clang": "clang", "clang++": "clang", "nm": "binutils"}
DRIVEN = 6  # output channels of each case whose accumulators are driven to both ends


@dataclass(frozen=True)
class Unit:
    """One case compiled with certain options; ``name`` is its prefix in C."""

    name: str
    case: Case
    artifact: Artifact

    @property
    def op(self) -> Operator:
        [op] = self.artifact.program.operators
        return op


@dataclass(frozen=True)
class Image:
    """A program in ``folder``, made of the driver and the object files of all units."""

    folder: Path
    units: tuple[Unit, ...]

    def object_of(self, unit: Unit) -> Path:
        return self.folder / f"{unit.name}.o"

    def run(self, mode: str = "exact", fill: int = 0) -> dict[str, Array]:
        """The outputs of each unit for its case's inputs, (count, *shape) in the model's own layout."""
        records = []
        for index, unit in enumerate(self.units):
            head = np.uint32(index).tobytes()
            records += [head + x.tobytes() for x in to_boundary(unit, inputs(unit.case))]
        result = subprocess.run(
            [str(self.folder / "driver"), mode, str(fill)], input=b"".join(records), capture_output=True, check=False
        )
        assert result.returncode == 0, result.stderr.decode(errors="replace")[-3000:]
        outputs, start = {}, 0
        for unit in self.units:
            [port], count = unit.artifact.plan.outputs, len(inputs(unit.case))
            end = start + count * port.tensor.size * port.tensor.dtype.bytes
            array = np.frombuffer(result.stdout[start:end], port.tensor.dtype.numpy).reshape(count, *port.shape)
            outputs[unit.name], start = from_boundary(unit, array), end
        assert start == len(result.stdout)
        return outputs

    def assert_equals_reference(self, mode: str = "exact", fill: int = 0) -> None:
        """Fails with every unit whose outputs are not those of the reference."""
        outputs = self.run(mode, fill)
        wrong = [text for unit in self.units if (text := difference(unit, outputs[unit.name]))]
        assert not wrong, f"{len(wrong)} of {len(self.units)} models are wrong:\n" + "\n".join(wrong)


def require(*tools: str) -> None:
    """Skips the test if a tool is missing, saying which package has it."""
    for tool in tools:
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is missing: apt-get install {DEBIAN[tool]}")


@cache
def unit(case: Case, layout: str, optimize: str, target: str = "portable") -> Unit:
    """The case compiled with these options."""
    name = f"{case.name}_{layout}_{optimize}" + ("" if target == "portable" else f"_{target.replace('-', '_')}")
    options = Options(target=target, layout=layout, optimize=optimize, numerics=case.numerics)
    return Unit(name, case, compile_graph(case.graph, options, name, f"{case.name}.onnx", case.node))


def build(folder: Path, units: Iterable[Unit], compiler: str, flags: Sequence[str]) -> Image:
    """Compiles every unit with the strict flags besides ``flags`` and links them, as many processes as processors."""
    units = tuple(units)
    for each in units:
        each.artifact.write(folder)
    (folder / "models.h").write_text(_table(units))
    # Neighbours in the table of cases differ in cost less than distant ones: deal them out.
    workers = os.cpu_count() or 1
    shares = [[each.name for each in units[start :: 2 * workers]] for start in range(2 * workers)]
    command = [compiler, *STRICT_FLAGS, *flags, "-c"]
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(lambda share: _call(folder, [*command, *(f"{name}.c" for name in share)]), filter(None, shares)))
    sources = [*(f"{each.name}.o" for each in units), str(DRIVER)]
    _call(folder, [compiler, "-std=c99", *flags, "-I.", "-o", "driver", *sources, "-lm"])
    return Image(folder, units)


def _call(folder: Path, command: list[str]) -> None:
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
    assert result.returncode == 0, f"{' '.join(command[:20])} failed:\n{result.stderr[:3000]}"
    assert not result.stderr, result.stderr[:3000]


def _table(units: Sequence[Unit]) -> str:
    """The text that the driver includes: a wrapper for each unit and the table of all."""
    lines = [f'#include "{each.name}.h"' for each in units]
    for each in units:
        wrapper = f"static void call_{each.name}(const void *x, void *y, void *arena)"
        lines.append(f"{wrapper} {{ {each.name}_run(x, y, arena); }}")
    lines.append("static const struct model MODELS[] = {")
    for each in units:
        plan, prefix = each.artifact.plan, each.name.upper()
        sizes = []
        for port in plan.ports:
            bytes_ = port.tensor.dtype.bytes
            sizes.append(f"{prefix}_{port.symbol.upper()}_SIZE * {bytes_}, {bytes_}")
        arena = f"{prefix}_ARENA_BYTES, {prefix}_ARENA_ALIGN"
        lines.append(f'    {{ "{each.name}", call_{each.name}, {", ".join(sizes)}, {arena} }},')
    return "\n".join([*lines, "};", ""])


@cache
def inputs(case: Case) -> Array:
    """(count, *shape of x): random, random extremes, constant ones, and those that drive channels to their ends."""
    op = unit(case, "model", "size").op
    rng = np.random.default_rng(1)
    shape, dtype = (2, *op.x.shape), op.x.dtype.numpy
    if op.x.dtype is DType.FLOAT32:
        ends = np.float32([-4, 0, 4])
        random = rng.standard_normal(shape).astype(dtype)
    else:
        ends = np.array([op.x.dtype.low, op.x.zero_point or 0, op.x.dtype.high], dtype)
        random = rng.integers(op.x.dtype.low, op.x.dtype.high + 1, shape).astype(dtype)
    constant = np.stack([np.full(op.x.shape, end, dtype) for end in ends])
    return np.concatenate([random, rng.choice(ends, shape), constant, driven(op, ends, DRIVEN)])


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
    xs = inputs(case)
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
