"""Every small geometry of a window, for each kernel: many layers to a model, and whether the generated C is right.

An axis is an image of 1 to 7 elements, a kernel of 1 to 4 taps, stride 1 to 3, dilation 1 or 2, padding 0 to 2 on each
side: 1293 of them have a window. ``AXES`` are the 1104 of them that differ, as the dilation of a single tap has no
effect. Two such axes make 1.2 million images, too many to compile for each kernel. But kernels treat axes one by one;
what they take of several at once, to choose code or to refuse, are ``facts``: whether some window leaves the image,
whether some lies wholly on it, whether there is one window, one tap, a stride, padding. So ``planes`` has each axis as
height and as width, and each pair of facts; numbers of both axes, such as all windows of an image, which are computed
two, four or eight at a time, come as they do in so many images.

What is right comes from tests/windows.py, which starts from a node's attributes and shares nothing with qcgen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from itertools import islice, product
from math import prod
from pathlib import Path
from unittest import mock
from zlib import crc32

import numpy as np
from batch import SANITIZED, build, require
from models import graph_model
from onnx import ModelProto
from window_layers import COUNT, Layer, Maker, Plane
from windows import Axis

from qcgen.artifact import Artifact
from qcgen.compiler import compile
from qcgen.ir.types import Array
from qcgen.kernels import KERNELS, PORTABLE

AT_ONCE = 24
"""Layers of a model: more take longer each, as the planner orders all."""

SOME = 8
"""Planes of each subject that make test takes: those that show most of what others do not."""

FEWEST = 50
"""Planes that each kernel computes in make test-all at least; most compute more than five hundred."""

MANY = 500
"""Of so many planes make test-all takes every second one; all of them with pytest --all --exhaustive."""

AXES = tuple(
    axis
    for axis in (
        Axis(*numbers) for numbers in product(range(1, 8), range(1, 5), range(1, 4), (1, 2), range(3), range(3))
    )
    if axis.outputs > 0 and (axis.kernel > 1 or axis.dilation == 1)
)


@cache
def facts(axis: Axis) -> tuple[object, ...]:
    """What a kernel can take of both axes at once, or of one to decide about the other."""
    inside = ((axis.places >= 0) & (axis.places < axis.size)).all(axis=0)
    return (
        bool(inside[0]),
        bool(inside.any()),
        bool(inside[-1]),
        axis.outputs == 1,
        axis.kernel == 1,
        axis.stride == 1,
        axis.begin + axis.end > 0,
    )


@cache
def seen(axis: Axis) -> frozenset[tuple[int, object]]:
    """What a plane shows of an axis: the facts, its numbers, and where windows lie that meet nothing of the image."""
    last, behind = axis.places.max(axis=0), axis.places.min(axis=0) - axis.size
    outside = (bool((last < 0).any()), bool((behind == 0).any()), bool((behind > 0).any()))
    return frozenset(enumerate((*facts(axis), *outside, axis.kernel, axis.stride, axis.dilation, axis.outputs % 4)))


def some(found: Sequence[Plane]) -> list[Plane]:
    """SOME planes, each the one that shows most of what those before it do not, else the largest; one with one axis."""
    left, chosen, shown = list(found), list[Plane](), set[tuple[int, int, object]]()
    while left and len(chosen) < SOME:
        lines = [plane for plane in left if len(plane) == 1] if len(chosen) == SOME - 1 else []
        shows = {
            plane: {(side, *fact) for side, axis in enumerate(plane) for fact in seen(axis)} for plane in lines or left
        }
        best = max(shows, key=lambda plane: (len(shows[plane] - shown), prod(axis.size for axis in plane)))
        shown |= shows[best]
        chosen.append(best)
        left.remove(best)
    return chosen


@cache
def planes(axes: tuple[Axis, ...], serves: Callable[[Plane], bool], seed: int = 0) -> list[Plane]:
    """Pairs in which each axis comes as height and as width, and each pair of facts, where a kernel ``serves`` any.

    All pairs that it serves if they are few; other pairs for each ``seed``.
    """
    if len(axes) <= 30:
        return [plane for plane in product(axes, repeat=2) if serves(plane)]
    rng = np.random.default_rng(seed)
    heights, widths = (_turns(axes, rng) for _ in range(2))
    found = [(next(heights[height]), next(widths[width])) for height, width in product(heights, widths)]
    found = [plane for plane in found if serves(plane)]
    for side in range(2):
        for axis in _left(axes, found, side):
            others = (*_left(axes, found, 1 - side), *(axes[i] for i in rng.permutation(len(axes))))
            pairs = ((other, axis) if side else (axis, other) for other in others)
            found += islice(filter(serves, pairs), 1)
    return [found[i] for i in rng.permutation(len(found))]


def _left(axes: Iterable[Axis], found: Iterable[Plane], side: int) -> list[Axis]:
    """The axes that no plane has on this side."""
    met = {plane[side] for plane in found}
    return [axis for axis in axes if axis not in met]


def _turns(axes: Iterable[Axis], rng: np.random.Generator) -> dict[tuple[object, ...], Iterator[Axis]]:
    """Those of the same facts by turns, in any order."""
    groups: dict[tuple[object, ...], list[Axis]] = {}
    for axis in axes:
        groups.setdefault(facts(axis), []).append(axis)
    return {key: _again_and_again([group[i] for i in rng.permutation(len(group))]) for key, group in groups.items()}


def _again_and_again(group: Sequence[Axis]) -> Iterator[Axis]:
    while True:
        yield from group


@dataclass(frozen=True)
class Way:
    """A way to compile a kind of layer."""

    make: Maker
    target: str = "portable"
    optimize: str = "speed"
    layout: str = "nhwc"
    numerics: str = "onnxruntime"


def always(_: object) -> bool:
    """What a subject takes that takes all."""
    return True


@dataclass(frozen=True)
class Subject:
    """A kernel and the ways in which layers get to it, by turns.

    It serves planes of axes that it ``takes`` if it ``serves`` them, but for a few, which are not known before they are
    compiled: at ``least`` so large a share. ``patches`` make it serve what other kernels compute faster. Each axis
    comes ``rounds`` times.
    """

    kernel: str
    ways: tuple[Way, ...]
    takes: Callable[[Axis], bool] = always
    serves: Callable[[Plane], bool] = always
    least: float = 1
    patches: Mapping[str, object] = field(default_factory=dict)
    has_lines: bool = True
    rounds: int = 1

    @property
    def planes(self) -> list[Plane]:
        """Images of two axes, and every eighth axis as an image of one."""
        axes = tuple(axis for axis in AXES if self.takes(axis))
        lines = [(axis,) for axis in axes[:: 8 if len(axes) > 100 else 1]] if self.has_lines else []
        images = [plane for seed in range(self.rounds) for plane in planes(axes, self.serves, seed)]
        return [*dict.fromkeys(images), *filter(self.serves, lines)]

    def models(self, chosen: Sequence[Plane]) -> list[Model]:
        """The planes, each in one of the ways by turns, AT_ONCE to a model."""
        found = []
        with ExitStack() as stack:
            for name, value in self.patches.items():
                stack.enter_context(mock.patch(name, value))
            for number, way in enumerate(self.ways):
                own = chosen[number :: len(self.ways)]
                for start in range(0, len(own), AT_ONCE):
                    name = f"{self.kernel.replace('/', '_')}_{number}_{start}"
                    found.append(compiled(name, way, own[start : start + AT_ONCE], self.kernel))
        return found


@dataclass(frozen=True)
class Model:
    """Layers side by side in one model; ``name`` is its prefix in C."""

    name: str
    planes: tuple[Plane, ...]
    layers: tuple[Layer, ...]
    artifact: Artifact

    def calls(self) -> list[tuple[Model, dict[str, Array]]]:
        """The inputs of each of COUNT calls, by tensor name, as the C function takes them."""
        last = {port.tensor.name: port.layout == "channels last" for port in self.artifact.plan.inputs}
        return [
            (self, {f"x{i}": _stored(layer.x[call], last[f"x{i}"]) for i, layer in enumerate(self.layers)})
            for call in range(COUNT)
        ]

    def wrong(self, found: Sequence[Mapping[str, Array]]) -> list[str]:
        """The layers whose outputs, those of all calls, are wrong."""
        last = {port.tensor.name: port.layout == "channels last" for port in self.artifact.plan.outputs}
        kernels = {call.op.name: call.kernel for call in self.artifact.plan.calls}
        texts = []
        for i, (plane, layer) in enumerate(zip(self.planes, self.layers, strict=True)):
            y = np.stack([_from_stored(outputs[f"y{i}"], last[f"y{i}"]) for outputs in found])
            if y.shape != layer.y.shape or not (abs(y.astype(np.float64) - layer.y) <= layer.slack).all():
                texts.append(f"{self.name}: {kernels.get(f'n{i}')}, {layer.operator}, {plane}")
        return texts


def _stored(x: Array, is_last: bool) -> Array:
    return np.ascontiguousarray(np.moveaxis(x, 1, -1)) if is_last else x


def _from_stored(y: Array, is_last: bool) -> Array:
    return np.moveaxis(y, -1, 1) if is_last else y


def model_of(layers: Iterable[Layer]) -> ModelProto:
    """A model of these layers."""
    nodes, inputs, outputs, constants = [], {}, {}, {}
    for number, layer in enumerate(layers):
        nodes.append(layer.node(number))
        inputs[f"x{number}"] = ({"float32": "float"}.get(layer.x.dtype.name, layer.x.dtype.name), layer.x.shape[1:])
        outputs[f"y{number}"] = None
        constants |= {f"{role}{number}": np.asarray(value) for role, value in layer.operands.items() if role != "x"}
    return graph_model(nodes, inputs, outputs, constants, opset=19, opsets={"com.microsoft": 1})


def compiled(name: str, way: Way, planes: Iterable[Plane], kernel: str) -> Model:
    """Layers of these planes, by this kernel where it serves, else by portable ones."""
    planes = tuple(planes)
    rng = np.random.default_rng(crc32(name.encode()))
    layers = tuple(way.make(plane, rng) for plane in planes)
    only = [each for each in KERNELS if each.name == kernel]
    options = {"target": way.target, "optimize": way.optimize, "layout": way.layout, "numerics": way.numerics}
    with mock.patch("qcgen.plan.KERNELS", (*only, *PORTABLE)):
        return Model(name, planes, layers, compile(model_of(layers), name=name, **options))


def assert_right(subject: Subject, folder: Path, *, everything: bool, exhaustive: bool) -> None:
    """Fails if the C of a plane is wrong, or if the kernel serves too few.

    It takes every second plane if there are many and it is not ``exhaustive``, some if it is not ``everything`` either.
    """
    require("gcc")
    planes = subject.planes
    chosen = planes[:: 1 if exhaustive or len(planes) < MANY else 2] if everything else some(planes)
    models = subject.models(chosen)
    calls = [call for model in models for call in model.artifact.plan.calls]
    served = sum(call.kernel == subject.kernel for call in calls)
    assert served >= max(subject.least * len(chosen), FEWEST if everything else 1), (
        f"{subject.kernel}: {served} of {len(chosen)}"
    )
    found = wrong(folder, models, ("-O0",) if everything else SANITIZED)
    assert not found, f"{len(found)} of {len(chosen)} layers are wrong:\n" + "\n".join(found[:20])


def wrong(folder: Path, models: Sequence[Model], flags: Sequence[str] = ("-O0",)) -> list[str]:
    """What is wrong with the C of the models, built and run on this machine.

    Buffers are aligned to no more than they must be, between guard zones; then, for sanitizers, they are heap blocks of
    their exact sizes, beside which nothing may be read either.
    """
    image = build(folder, models, "gcc", flags)
    calls = [call for model in models for call in model.calls()]
    found = image.call(calls, "guarded", 255)
    if flags == SANITIZED:
        image.call(calls, "exact", 255)
    return [text for i, model in enumerate(models) for text in model.wrong(found[COUNT * i : COUNT * (i + 1)])]
