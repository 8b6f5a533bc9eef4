"""Random .tflite networks of several operators, written with the schema alone."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np
from tflite_models import Field, Step, Told, written

Meaning = tuple[float, int]
"""A scale and a zero point."""

LARGEST = 600
"""Elements of a tensor that operators still read."""

FULL = 45
"""Codes in one standard deviation of the numbers, where a scale fits them well."""

NONE, RELU, RELU6 = 0, 1, 3
"""Activations."""

SAME, VALID = 0, 1


@dataclass
class Growing:
    """A network that grows operator by operator; ``open`` are the computed tensors that others may read.

    ``spread`` is about the standard deviation of a tensor's numbers.
    """

    rng: random.Random
    tensors: list[Told] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    open: list[int] = field(default_factory=list)
    spread: dict[int, float] = field(default_factory=dict)
    is_wide: bool = False  # codes have 16 bits, weights 8

    @property
    def dtype(self) -> str:
        return "int16" if self.is_wide else "int8"

    def pick(self, *values):
        return self.rng.choice(values)

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def tensor(self, told: Told) -> int:
        self.tensors.append(replace(told, name=f"t{len(self.tensors)}"))
        return len(self.tensors) - 1

    def input(self, told: Told, spread: float = 1.0) -> int:
        """Named after its number: the judge knows inputs by their order alone."""
        place = self.tensor(told)
        self.tensors[place] = replace(self.tensors[place], name=f"input{len(self.inputs)}")
        self.inputs.append(place)
        self.spread[place] = spread
        return place

    def numbers(self, *values: int) -> int:
        return self.tensor(Told("", (len(values),), None, 0, np.array(values), "int32"))

    def codes(self, *shape: int) -> np.ndarray:
        """Random ones, sometimes all alike or at the ends."""
        size = prod(shape)
        kind = self.rng.randrange(12)
        low = self.pick(-128, -127) if kind == 0 else -127
        if kind == 1:
            drawn = [self.pick(-127, 127) for _ in range(size)]
        elif kind == 2:
            drawn = [self.rng.randint(-3, 3) for _ in range(size)]
        else:
            drawn = [self.rng.randint(low, 127) for _ in range(size)]
        return np.array(drawn).reshape(shape)

    def meaning(self, spread: float) -> Meaning:
        """One that fits numbers of this spread: mostly well, sometimes badly."""
        stretch = self.rng.uniform(-0.7, 1.2) if self.chance(0.85) else self.rng.uniform(-3, 5)
        if self.is_wide:
            return float(np.float32(spread / FULL / 256 * 2.0**stretch)), 0
        zero_point = self.pick(0, -128, 127, *(self.rng.randint(-128, 127) for _ in range(5)))
        return float(np.float32(spread / FULL * 2.0**stretch)), zero_point

    def meaning_of(self, x: int) -> Meaning:
        return self.tensors[x].scale, self.tensors[x].zero_point

    def shape(self, x: int) -> tuple[int, ...]:
        return tuple(self.tensors[x].shape)

    def node(
        self,
        kind: str,
        inputs: Sequence[int],
        shape: Sequence[int],
        meaning: Meaning,
        spread: float,
        options: dict[int, Field] | None = None,
        dtype: str = "",
    ) -> int:
        """Adds an operator with one output."""
        y = self.tensor(Told("", tuple(shape), *meaning, dtype=dtype or self.dtype))
        self.steps.append(Step(kind, tuple(inputs), (y,), options))
        self.open.append(y)
        self.spread[y] = spread
        return y

    def moved(
        self, kind: str, x: int, inputs: Sequence[int], shape: Sequence[int], options: dict[int, Field] | None = None
    ) -> int:
        """An operator whose output has the meaning of its input."""
        return self.node(kind, inputs, shape, self.meaning_of(x), self.spread[x], options)

    def finish(self) -> bytes:
        """Whatever is not read is an output, and some of what is; now and then as floats or in uint8."""
        read = {x for step in self.steps for x in step.inputs}
        ends = [y for y in self.open if y not in self.inputs and (y not in read or self.chance(0.05))]
        for y in ends:
            told = self.tensors[y]
            if told.dtype == "int8" and self.chance(0.15):
                y = self.node("DEQUANTIZE", (y,), told.shape, (None, 0), 1.0, dtype="float32")
            elif told.dtype == "int8" and self.chance(0.1):
                y = self.node("QUANTIZE", (y,), told.shape, (told.scale, told.zero_point + 128), 1.0, dtype="uint8")
            elif told.dtype == "int16" and self.chance(0.2):
                y = self.node("QUANTIZE", (y,), told.shape, (told.scale * 250, 3), 1.0, dtype="int8")
            self.tensors[y] = replace(self.tensors[y], name=f"output{len(self.outputs)}")
            self.outputs.append(y)
        return written(self.tensors, self.steps, self.inputs, self.outputs)


Grow = Callable[[Growing, int], int | None]
"""Lets an operator read a tensor; None where it does not fit."""


def windows(net: Growing, sizes: Sequence[int], kernel: Sequence[int], dilation: int = 1, most: int = 3):
    """Strides, padding, and how many windows there are; None if they do not fit."""
    strides = [net.pick(1, 1, 2, most) for _ in sizes]
    padding = net.pick(SAME, VALID)
    reach = [(size - 1) * dilation + 1 for size in kernel]
    if padding == VALID and any(r > size for r, size in zip(reach, sizes, strict=True)):
        return None
    pairs = list(zip(sizes, reach, strides, strict=True))
    counts = [-(-size // s) if padding == SAME else (size - r) // s + 1 for size, r, s in pairs]
    return strides, padding, counts


def filters(net: Growing, x: int, shape: Sequence[int], axis: int, terms: int) -> tuple[list[int], float]:
    """Weights, a bias or none, and the spread of the sums."""
    count = shape[axis]
    scales = [float(np.float32(10 ** net.rng.uniform(-2.8, -1.5))) for _ in range(count)]
    if net.chance(0.3):
        scales = scales[:1]
    found = [net.tensor(Told("", shape, scales, 0, net.codes(*shape), axis=axis))]
    if net.is_wide:
        dtype = "int32" if axis == 0 and len(shape) == 4 and net.chance(0.3) else "int64"
        drawn = np.array([net.rng.randint(-2_000_000, 2_000_000) for _ in range(count)])
        if axis or net.chance(0.8):  # the judge cannot do without of DEPTHWISE_CONV_2D
            found.append(net.tensor(Told("", (count,), 1e-6, 0, drawn, dtype)))
    elif net.chance(0.8):
        sums = [float(np.float32(np.float32(net.tensors[x].scale) * np.float32(scale))) for scale in scales]
        drawn = np.array([net.rng.randint(-5000, 5000) for _ in range(count)])
        found.append(net.tensor(Told("", (count,), sums, 0, drawn, "int32")))
    return found, net.spread[x] * float(np.mean(scales)) * 74 * terms**0.5


def convolution(net: Growing, x: int) -> int | None:
    shape = net.shape(x)
    if len(shape) != 4:
        return None
    kernel, dilation = [net.pick(1, 1, 2, 3, 3, 4) for _ in range(2)], net.pick(1, 1, 1, 1, 2)
    found = windows(net, shape[1:3], kernel, dilation)
    if found is None:
        return None
    (down, across), padding, counts = found
    options = {0: Field("b", padding), 1: Field("i", across), 2: Field("i", down)}
    dilations = Field("i", dilation)
    if net.chance(0.4):
        multiplier = net.pick(1, 1, 1, 2, 3)
        count = shape[3] * multiplier
        own, spread = filters(net, x, (1, *kernel, count), 3, prod(kernel))
        options |= {3: Field("i", multiplier), 4: activation(net), 5: dilations, 6: dilations}
        kind = "DEPTHWISE_CONV_2D"
    else:
        count = net.pick(1, 2, 3, 4, 5, 8, 9, 16)
        own, spread = filters(net, x, (count, *kernel, shape[3]), 0, prod(kernel) * shape[3])
        options |= {3: activation(net), 4: dilations, 5: dilations}
        kind = "CONV_2D"
    return net.node(kind, (x, *own), (shape[0], *counts, count), net.meaning(spread), spread, options)


def activation(net: Growing) -> Field:
    return Field("b", net.pick(NONE, NONE, RELU, RELU6))


def transposed_convolution(net: Growing, x: int) -> int | None:
    shape = net.shape(x)
    if len(shape) != 4 or prod(shape) > 200:
        return None
    kernel, strides = [net.pick(1, 2, 3) for _ in range(2)], [net.pick(1, 2, 3) for _ in range(2)]
    padding, count = net.pick(SAME, VALID), net.pick(1, 2, 3, 5)
    sizes = [
        size * stride if padding == SAME else (size - 1) * stride + window
        for size, stride, window in zip(shape[1:3], strides, kernel, strict=True)
    ]
    own, spread = filters(net, x, (count, *kernel, shape[3]), 0, prod(kernel) * shape[3])
    y_shape = (shape[0], *sizes, count)
    given = (net.numbers(*y_shape), own[0], x, *own[1:])
    options = {0: Field("b", padding), 1: Field("i", strides[1]), 2: Field("i", strides[0])}
    return net.node("TRANSPOSE_CONV", given, y_shape, net.meaning(spread), spread, options)


def dense(net: Growing, x: int) -> int | None:
    shape = net.shape(x)
    terms = net.pick(shape[-1], prod(shape[1:]))
    if terms == 0 or prod(shape) % terms:
        return None
    count = net.pick(1, 2, 3, 4, 5, 8, 10)
    own, spread = filters(net, x, (count, terms), 0, terms)
    options = {0: activation(net)}
    return net.node("FULLY_CONNECTED", (x, *own), (prod(shape) // terms, count), net.meaning(spread), spread, options)


def memory(net: Growing, x: int) -> int | None:
    """SVDF, of one call: the judge begins anew for each case."""
    shape = net.shape(x)
    if len(shape) != 2:
        return None
    rank, units, calls = net.pick(1, 1, 2, 3), net.pick(1, 2, 4, 5), net.pick(2, 3, 4)
    count = rank * units
    w_scale, time_scale = (float(np.float32(10 ** net.rng.uniform(-2.8, -1.5))) for _ in range(2))
    found = net.spread[x] * w_scale * 74 * shape[1] ** 0.5
    state = net.meaning(found)
    spread = found * time_scale * 74 * rank**0.5
    own = [
        net.tensor(Told("", (count, shape[1]), w_scale, 0, net.codes(count, shape[1]))),
        net.tensor(Told("", (count, calls), time_scale, 0, net.codes(count, calls))),
        net.tensor(Told("", (units,), float(np.float32(state[0] * time_scale)), 0, net.codes(units) * 20, "int32")),
        net.tensor(Told("", (shape[0], count * calls), *state, is_variable=True)),
    ]
    options = {0: Field("i", rank), 1: Field("b", NONE)}
    return net.node("SVDF", (x, *own), (shape[0], units), net.meaning(spread), spread, options)


def sequence(net: Growing, x: int) -> int | None:
    """An LSTM over the rows of a tensor of two axes or the columns of an image."""
    shape = net.shape(x)
    if len(shape) == 2:
        x = net.moved("RESHAPE", x, (x, net.numbers(1, *shape)), (1, *shape), {})
    elif len(shape) == 4:
        x = net.moved("RESHAPE", x, (x, net.numbers(shape[1], shape[2], shape[3])), shape[1:], {})
    else:
        return None
    batch, steps, terms = net.shape(x)
    units = net.pick(1, 2, 3, 5, 8)
    scales = [float(np.float32(10 ** net.rng.uniform(-2.8, -1.5))) for _ in range(8)]
    meaning = (net.pick(1 / 128, 0.0078, 0.01, 0.004), net.rng.randint(-30, 30))
    own = [
        net.tensor(Told("", (units, n), scale, 0, net.codes(units, n)))
        for n, each in ((terms, scales[:4]), (units, scales[4:]))
        for scale in each
    ]
    x_scale = net.meaning_of(x)[0]
    biases = [
        net.tensor(Told("", (units,), x_scale * scale, 0, net.codes(units) * 30, "int32")) for scale in scales[:4]
    ]
    state = net.tensor(Told("", (batch, units), *meaning, is_variable=True))
    cell = net.tensor(Told("", (batch, units), 2.0 ** -net.pick(9, 11, 12, 15), 0, dtype="int16", is_variable=True))
    given = (x, *own, -1, -1, -1, *biases, -1, -1, state, cell, -1, -1, -1, -1)
    options = {0: Field("b", 4), 1: Field("f", net.pick(0.0, 10.0, 0.4)), 3: Field("b", 0)}
    return net.node("UNIDIRECTIONAL_SEQUENCE_LSTM", given, (batch, steps, units), meaning, 0.3, options)


def matrices(net: Growing, x: int) -> int | None:
    shape = net.shape(x)
    if len(shape) < 2:
        return None
    columns = net.pick(1, 2, 3, 5)
    turned = net.chance(0.4)
    other = (columns, shape[-1]) if turned else (shape[-1], columns)
    other = (*[1] * (len(shape) - 2), *other) if net.chance(0.5) else other
    scale = 10 ** net.rng.uniform(-2.8, -1.5)
    c = net.tensor(Told("", other, scale, net.rng.randint(-20, 20), net.codes(*other)))
    spread = net.spread[x] * scale * 74 * shape[-1] ** 0.5
    options = {0: Field("b", 0), 1: Field("b", int(turned))}
    return net.node("BATCH_MATMUL", (x, c), (*shape[:-1], columns), net.meaning(spread), spread, options)


def pooling(net: Growing, x: int) -> int | None:
    shape = net.shape(x)
    if len(shape) != 4:
        return None
    kernel = [net.pick(1, 2, 2, 3, shape[1]), net.pick(1, 2, 2, 3, shape[2])]
    found = windows(net, shape[1:3], kernel)
    if found is None:
        return None
    (down, across), padding, counts = found
    options = {0: Field("b", padding), 1: Field("i", across), 2: Field("i", down)}
    options |= {3: Field("i", kernel[1]), 4: Field("i", kernel[0]), 5: activation(net)}
    kind = net.pick("AVERAGE_POOL_2D", "MAX_POOL_2D")
    return net.moved(kind, x, (x,), (shape[0], *counts, shape[3]), options)


def arithmetic(net: Growing, x: int) -> int | None:
    """A sum, difference or product with another tensor, a constant, or itself."""
    shape = net.shape(x)
    alike = [each for each in net.open if net.shape(each) == shape and net.tensors[each].dtype == net.dtype]
    if net.chance(0.6):
        other = net.pick(*alike)
    else:
        broadcast = net.pick(shape, (*[1] * (len(shape) - 1), shape[-1]), (shape[-1],), (1,))
        scale = net.meaning(net.spread[x] * 2 ** net.rng.uniform(-2, 2))
        unit = 256 if net.is_wide else 1
        other = net.tensor(Told("", broadcast, *scale, net.codes(*broadcast) * unit, net.dtype))
        net.spread[other] = scale[0] * 74 * unit
    kind = net.pick("ADD", "ADD", "SUB", "MUL", "MUL" if net.is_wide else "SQUARED_DIFFERENCE")
    spreads = net.spread[x], net.spread[other]
    spread = prod(spreads) if kind == "MUL" else sum(each**2 for each in spreads) ** 0.5
    given = (x, other) if net.chance(0.7) else (other, x)
    if kind == "SQUARED_DIFFERENCE":
        return net.node(kind, given, shape, net.meaning(spread**2), spread**2, {})
    return net.node(kind, given, shape, net.meaning(spread), spread, {0: activation(net)})


def extreme(net: Growing, x: int) -> int | None:
    shape = net.shape(x)
    broadcast = net.pick(shape, (*[1] * (len(shape) - 1), shape[-1]), (1,))
    c = net.tensor(Told("", broadcast, *net.meaning_of(x), net.codes(*broadcast)))
    return net.moved(net.pick("MAXIMUM", "MINIMUM"), x, (x, c), shape, {})


FUNCTIONS = """
RELU RELU6 LOGISTIC TANH LEAKY_RELU HARD_SWISH ELU ABS QUANTIZE SOFTMAX LOG_SOFTMAX RSQRT
""".split()


def function(net: Growing, x: int) -> int | None:
    spread = net.spread[x]
    kind = net.pick(
        "RELU", "RELU6", "LOGISTIC", "TANH", "LEAKY_RELU", "HARD_SWISH", "ELU", "ABS", "QUANTIZE", "SOFTMAX"
    )
    options: dict[int, Field] | None = None
    meaning = net.meaning(spread)
    match kind:
        case "LOGISTIC" | "SOFTMAX":
            meaning, spread = (1 / 256, -128), 0.3
        case "TANH":
            meaning, spread = (1 / 128, 0), 0.5
        case "LOG_SOFTMAX":
            meaning, spread = (16 / 256, 127), 4.0
        case "RSQRT":
            x, spread = net.moved("RELU", x, (x,), net.shape(x)), 1.0
            net.tensors[x] = replace(net.tensors[x], zero_point=-128)
            meaning = (net.rng.uniform(0.005, 0.5), -128)
    match kind:
        case "LEAKY_RELU":
            options = {0: Field("f", net.rng.uniform(-0.3, 1.2))}
        case "SOFTMAX":
            options = {0: Field("f", net.pick(1.0, 1.0, 0.7))}
        case "ABS" | "LOG_SOFTMAX":
            options = {}
    return net.node(kind, (x,), net.shape(x), meaning, spread, options)


def wide_function(net: Growing, x: int) -> int | None:
    kind = net.pick("RELU", "RELU6", "LEAKY_RELU", "LOGISTIC", "TANH", "SOFTMAX", "QUANTIZE", "ABS")
    options = {"LEAKY_RELU": {0: Field("f", net.rng.uniform(-0.3, 1.2))}, "SOFTMAX": {0: Field("f", 1.0)}, "ABS": {}}
    meaning, spread = net.meaning(net.spread[x]), net.spread[x]
    if kind in ("LOGISTIC", "TANH", "SOFTMAX"):
        meaning, spread = (2.0**-15, 0), 0.3
    return net.node(kind, (x,), net.shape(x), meaning, spread, options.get(kind))


def slopes(net: Growing, x: int) -> int | None:
    shape = net.shape(x)
    if len(shape) != 4:
        return None
    own = (1, 1, shape[3])
    c = net.tensor(Told("", own, 10 ** net.rng.uniform(-3, -2), net.rng.randint(-20, 20), net.codes(*own)))
    return net.node("PRELU", (x, c), shape, net.meaning(net.spread[x]), net.spread[x])


def reduction(net: Growing, x: int) -> int | None:
    shape = net.shape(x)
    axes = sorted(net.rng.sample(range(len(shape)), net.rng.randint(1, len(shape))))
    if len(shape) == 4 and net.chance(0.5):
        axes = [1, 2]
    keeps = net.chance(0.4)
    y_shape = [1 if axis in axes else size for axis, size in enumerate(shape) if keeps or axis not in axes]
    written_axes = net.numbers(*(axis - len(shape) if net.chance(0.3) else axis for axis in axes))
    kind, count = net.pick("MEAN", "MEAN", "SUM", "REDUCE_MAX"), prod(shape[axis] for axis in axes)
    kind = net.pick("MEAN", "SUM") if net.is_wide else kind
    options = {0: Field("b", int(keeps))}
    if kind == "REDUCE_MAX":
        return net.moved(kind, x, (x, written_axes), y_shape, options)
    spread = net.spread[x] * (count**0.5 if kind == "SUM" else count**-0.5)
    return net.node(kind, (x, written_axes), y_shape, net.meaning(spread), spread, options)


def place(net: Growing, x: int) -> int | None:
    shape, kind = net.shape(x), net.pick("ARG_MAX", "ARG_MIN")
    axis = net.rng.randrange(len(shape))
    y_shape = (*shape[:axis], *shape[axis + 1 :])
    given = (x, net.tensor(Told("", (), None, 0, np.array(axis), "int32")))
    return net.node(kind, given, y_shape, (None, 0), 1.0, {}, "int32") if y_shape else None


def movement(net: Growing, x: int) -> int | None:
    """An operator that only moves elements."""
    return net.pick(joined, padded, turned, cut, split, blocks, gathered, repeated, resized, flattened, packed)(net, x)


def wide_movement(net: Growing, x: int) -> int | None:
    """The same of int16 codes."""
    return net.pick(joined, padded, turned, cut, split, repeated, flattened, packed)(net, x)


def joined(net: Growing, x: int) -> int | None:
    shape, axis = net.shape(x), net.rng.randrange(len(net.shape(x)))
    own = (*shape[:axis], net.pick(1, 2, 3), *shape[axis + 1 :])
    other = x if net.chance(0.3) else net.tensor(Told("", own, *net.meaning_of(x), net.codes(*own), net.dtype))
    given = (x, other) if net.chance(0.5) else (other, x, x)
    y_shape = [*shape[:axis], sum(net.shape(each)[axis] for each in given), *shape[axis + 1 :]]
    return net.moved("CONCATENATION", x, given, y_shape, {0: Field("i", axis - net.pick(0, len(shape)))})


def padded(net: Growing, x: int) -> int | None:
    shape = net.shape(x)
    is_mirror = net.chance(0.3) and not net.is_wide
    counts = [(net.pick(0, 0, 1, 2), net.pick(0, 0, 1)) for _ in shape]
    if is_mirror:
        counts = [(min(a, size - 1), min(b, size - 1)) for (a, b), size in zip(counts, shape, strict=True)]
    pads = net.tensor(Told("", (len(shape), 2), None, 0, np.array(counts), "int32"))
    y_shape = [size + sum(each) for size, each in zip(shape, counts, strict=True)]
    if is_mirror:
        return net.moved("MIRROR_PAD", x, (x, pads), y_shape, {0: Field("b", net.pick(0, 1))})
    if net.chance(0.3):
        value = net.tensor(Told("", (), *net.meaning_of(x), net.codes(1).reshape(()), net.dtype))
        return net.moved("PADV2", x, (x, pads, value), y_shape, {})
    return net.moved("PAD", x, (x, pads), y_shape, {})


def turned(net: Growing, x: int) -> int | None:
    shape = net.shape(x)
    order = net.rng.sample(range(len(shape)), len(shape))
    return net.moved("TRANSPOSE", x, (x, net.numbers(*order)), [shape[axis] for axis in order], {})


def cut(net: Growing, x: int) -> int | None:
    shape = net.shape(x)
    parts = []
    for size in shape:
        begin = net.rng.randrange(size)
        parts.append((begin, net.rng.randint(begin + 1, size), net.pick(1, 1, 2)))
    y_shape = [-(-(end - begin) // step) for begin, end, step in parts]
    given = (x, *(net.numbers(*each) for each in zip(*parts, strict=True)))
    return net.moved("STRIDED_SLICE", x, given, y_shape, {at: Field("i", 0) for at in range(5)})


def split(net: Growing, x: int) -> int | None:
    """In two or three parts, the last of which goes on."""
    shape, axis = net.shape(x), net.rng.randrange(len(net.shape(x)))
    fitting = [n for n in (2, 3) if shape[axis] % n == 0]
    if not fitting:
        return None
    count = net.pick(*fitting)
    y_shape = (*shape[:axis], shape[axis] // count, *shape[axis + 1 :])
    parts = [net.tensor(Told("", y_shape, *net.meaning_of(x), dtype=net.dtype)) for _ in range(count)]
    given = (net.tensor(Told("", (), None, 0, np.array(axis), "int32")), x)
    net.steps.append(Step("SPLIT", given, tuple(parts), {0: Field("i", count)}))
    net.open += parts
    net.spread.update(dict.fromkeys(parts, net.spread[x]))
    return parts[-1]


def blocks(net: Growing, x: int) -> int | None:
    shape = net.shape(x)
    if len(shape) != 4:
        return None
    block = {0: Field("i", 2)}
    if shape[3] % 4 == 0:
        return net.moved("DEPTH_TO_SPACE", x, (x,), (shape[0], 2 * shape[1], 2 * shape[2], shape[3] // 4), block)
    if shape[1] % 2 == 0 and shape[2] % 2 == 0:
        return net.moved("SPACE_TO_DEPTH", x, (x,), (shape[0], shape[1] // 2, shape[2] // 2, 4 * shape[3]), block)
    return None


def gathered(net: Growing, x: int) -> int | None:
    shape, axis = net.shape(x), net.rng.randrange(len(net.shape(x)))
    places = [net.rng.randrange(shape[axis]) for _ in range(net.pick(1, 2, 3))]
    y_shape = (*shape[:axis], len(places), *shape[axis + 1 :])
    return net.moved("GATHER", x, (x, net.numbers(*places)), y_shape, {0: Field("i", axis)})


def repeated(net: Growing, x: int) -> int | None:
    shape = net.shape(x)
    y_shape = [net.pick(1, 2, 3) if size == 1 else size for size in shape]
    return net.moved("BROADCAST_TO", x, (x, net.numbers(*y_shape)), y_shape, {})


def resized(net: Growing, x: int) -> int | None:
    shape = net.shape(x)
    if len(shape) != 4:
        return None
    sizes = (net.rng.randint(1, 9), net.rng.randint(1, 9))
    flags = net.pick((0, 0), (1, 0), (0, 1))
    kind, first = net.pick(("RESIZE_NEAREST_NEIGHBOR", 0), ("RESIZE_BILINEAR", 2))
    options = {first + at: Field("b", flag) for at, flag in enumerate(flags)}
    return net.moved(kind, x, (x, net.numbers(*sizes)), (shape[0], *sizes, shape[3]), options)


def flattened(net: Growing, x: int) -> int | None:
    shape = net.shape(x)
    y_shape = net.pick((1, prod(shape)), (*shape[:-2], prod(shape[-2:])), (shape[0], prod(shape[1:])))
    return net.moved("RESHAPE", x, (x, net.numbers(*y_shape)), y_shape, {})


def packed(net: Growing, x: int) -> int | None:
    shape = net.shape(x)
    if len(shape) > 3:
        return None
    axis = net.rng.randint(0, len(shape))
    own = net.tensor(Told("", shape, *net.meaning_of(x), net.codes(*shape), net.dtype))
    given = (x, own) if net.chance(0.7) else (own, x, x)
    options = {0: Field("i", len(given)), 1: Field("i", axis)}
    return net.moved("PACK", x, given, (*shape[:axis], len(given), *shape[axis:]), options)


OPERATORS: dict[Grow, int] = {
    convolution: 10, transposed_convolution: 1, dense: 3, memory: 2, sequence: 1, matrices: 1, pooling: 3,
    arithmetic: 5, extreme: 1, function: 5, slopes: 1, reduction: 2, place: 1, movement: 6,
}  # fmt: skip
"""By how often they are tried."""

WIDE_OPERATORS: dict[Grow, int] = {
    convolution: 10, dense: 3, pooling: 3, arithmetic: 5, wide_function: 5, reduction: 1, wide_movement: 6,
}  # fmt: skip
"""The same where codes have 16 bits."""


def random_tflite(rng: random.Random) -> bytes:
    """The bytes of a file."""
    net = Growing(rng, is_wide=rng.random() < 0.2)
    operators = WIDE_OPERATORS if net.is_wide else OPERATORS
    for _ in range(net.pick(1, 1, 1, 2)):
        _given(net)
    steps = net.pick(1, 2, 3, 4, 5, 6, 8)
    for _ in range(40):
        fitting = [
            x for x in net.open if net.tensors[x].dtype == net.dtype and net.shape(x) and prod(net.shape(x)) <= LARGEST
        ]
        if steps == 0 or not fitting:
            break
        x = fitting[-1] if net.chance(0.65) else net.pick(*fitting)
        [operator] = rng.choices(list(operators), list(operators.values()))
        steps -= operator(net, x) is not None
    if not net.steps:
        net.moved("RELU", x := net.open[0], (x,), net.shape(x))
    return net.finish()


def _given(net: Growing) -> None:
    """An input in int8, or one in floats or uint8 with its QUANTIZE."""
    size = net.rng.randint
    shape = net.pick(
        (1, size(1, 9), size(1, 9), size(1, 5)), (1, size(1, 9), size(1, 9), net.pick(8, 16)), (1, size(1, 40))
    )
    if net.inputs and net.chance(0.5):
        shape = net.shape(net.inputs[0])
    meaning = net.meaning(1.0)
    if net.is_wide:
        net.open.append(net.input(Told("", shape, *meaning, dtype="int16")))
        return
    match net.rng.randrange(8):
        case 0:
            x = net.input(Told("", shape, dtype="float32"))
        case 1:
            x = net.input(Told("", shape, meaning[0], meaning[1] + 128, dtype="uint8"))
        case _:
            net.open.append(net.input(Told("", shape, *meaning)))
            return
    net.node("QUANTIZE", (x,), shape, meaning, 1.0)
