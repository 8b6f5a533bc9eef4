"""Layers with windows: a node, inputs for it, and what it computes of them by tests/windows.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from onnx import NodeProto, helper
from windows import Axis, attributes, convolved, largest, means, transposed

from qcgen.ir.types import Array

Plane = tuple[Axis, ...]
"""The axes of an image: height and width, or width alone."""


@dataclass(frozen=True)
class Layer:
    """A node of a model: ``operands`` are its constants by role, with None for x, an image of ``x_type`` that is given.

    ``x`` (count, N, C, in...) are inputs, ``y`` (count, N, M, out...) the real numbers that it computes of them; an
    output may be ``slack`` away.
    """

    operator: str
    attributes: Mapping[str, Any]
    operands: Mapping[str, Array | None]
    x: Array
    y: Array
    slack: float = 0.501  # codes are rounded once, in float32

    @property
    def domain(self) -> str:
        return "com.microsoft" if self.operator == "QLinearAveragePool" else ""

    def node(self, number: int) -> NodeProto:
        names = [f"x{number}" if role == "x" else f"{role}{number}" for role in self.operands]
        return helper.make_node(
            self.operator, names, [f"y{number}"], name=f"n{number}", domain=self.domain, **self.attributes
        )


Maker = Callable[[Plane, np.random.Generator], Layer]
COUNT = 2  # inputs of each layer


def images(rng: np.random.Generator, plane: Plane, channels: int, dtype: str, batch: int = 1) -> Array:
    """(COUNT, N, C, in...): random codes, or integers as float32."""
    ends = np.iinfo("int8" if dtype == "float" else dtype)
    shape = (COUNT, batch, channels, *(axis.size for axis in plane))
    codes: Array = rng.integers(ends.min, ends.max + 1, shape)
    return codes.astype("float32" if dtype == "float" else dtype)


def flat(compute: Callable[[Array], Array], x: Array) -> Array:
    """What is computed of inputs (COUNT, N, ...) that are one batch."""
    y = compute(x.reshape(-1, *x.shape[2:]))
    return y.reshape(COUNT, -1, *y.shape[1:])


def conv(
    channels: int,
    outputs: int,
    group: int = 1,
    x_type: str = "uint8",
    w_type: str = "int8",
    batch: int = 1,
    most: int = 127,
    low: int | None = None,
) -> Maker:
    """QLinearConv with scales and biases of its own for each channel."""

    def make(plane: Plane, rng: np.random.Generator) -> Layer:
        x, w, x_zero, w_zero = _operands(rng, plane, channels, outputs, group, x_type, w_type, batch, most, low)
        bias = rng.integers(-9999, 9999, outputs).astype(np.int32)
        sums = _sums(plane, group, x, w, x_zero, w_zero) + _by_channel(bias, plane)
        w_scale = np.float32(rng.uniform(0.5, 1.5, outputs) * 40 / max(sums.std(), 1))
        y_zero = 9 if x_type == "int8" else 120
        ends = np.iinfo(x_type)
        return Layer(
            "QLinearConv",
            {**attributes(plane), "group": group},
            {
                "x": None,
                "x_scale": np.float32(0.5),
                "x_zero_point": x_zero,
                "w": w,
                "w_scale": w_scale,
                "w_zero_point": w_zero,
                "y_scale": np.float32(0.5),
                "y_zero_point": np.array(y_zero, x_type),
                "B": bias,
            },
            x,
            np.clip(sums * _by_channel(w_scale.astype(np.float64), plane) + y_zero, ends.min, ends.max),
        )

    return make


def conv_integer(channels: int, outputs: int, group: int = 1, x_type: str = "uint8", w_type: str = "int8") -> Maker:
    """ConvInteger, whose outputs are the sums themselves."""

    def make(plane: Plane, rng: np.random.Generator) -> Layer:
        x, w, x_zero, w_zero = _operands(rng, plane, channels, outputs, group, x_type, w_type)
        operands = {"x": None, "w": w, "x_zero_point": x_zero, "w_zero_point": w_zero}
        return Layer(
            "ConvInteger",
            {**attributes(plane), "group": group},
            operands,
            x,
            _sums(plane, group, x, w, x_zero, w_zero),
            0,
        )

    return make


def conv_float(channels: int, outputs: int, group: int = 1) -> Maker:
    """Conv of integers in float32, which are exact in any order."""

    def make(plane: Plane, rng: np.random.Generator) -> Layer:
        x, w, *_ = _operands(rng, plane, channels, outputs, group, "int8", "int8")
        zero = np.zeros((), np.int8)
        sums, x, w = _sums(plane, group, x, w, zero, zero), x.astype(np.float32), w.astype(np.float32)
        return Layer("Conv", {**attributes(plane), "group": group}, {"x": None, "w": w}, x, sums, 0)

    return make


def conv_orion(channels: int, outputs: int, group: int = 1) -> Maker:
    """QLinearConv whose numbers are integers in Orion's arithmetic, too; it truncates."""

    def make(plane: Plane, rng: np.random.Generator) -> Layer:
        x, w, x_zero, w_zero = _operands(rng, plane, channels, outputs, group, "int8", "int8", most=3)
        bias = rng.integers(-99, 99, outputs).astype(np.int32)
        sums = _sums(plane, group, x, w, x_zero, w_zero) + _by_channel(bias, plane)
        y_scale = 2.0 ** np.ceil(np.log2(max(sums.std() / 40, 1)))
        operands = {"x": None, "x_scale": np.float32(1), "x_zero_point": x_zero}
        operands |= {"w": w, "w_scale": np.float32(1), "w_zero_point": w_zero}
        operands |= {"y_scale": np.float32(y_scale), "y_zero_point": np.int8(2), "B": bias}
        y = np.trunc(np.clip(sums / y_scale + 2, -128, 127))
        return Layer("QLinearConv", {**attributes(plane), "group": group}, operands, x, y, 0)

    return make


def max_pool(channels: int, dtype: str = "uint8", ceil: bool = False, batch: int = 1) -> Maker:
    """MaxPool."""

    def make(plane: Plane, rng: np.random.Generator) -> Layer:
        plane, x = _ceiling(plane, ceil), images(rng, plane, channels, dtype, batch)
        return Layer("MaxPool", _pooling(plane), {"x": None}, x, flat(lambda x: largest(x, plane), x), 0)

    return make


def average_pool(channels: int, dtype: str = "uint8", ceil: bool = False, counts: bool = False) -> Maker:
    """AveragePool, or QLinearAveragePool, which has no dilations."""

    def make(plane: Plane, rng: np.random.Generator) -> Layer:
        if dtype != "float":
            plane = tuple(replace(axis, dilation=1) for axis in plane)
        plane, x = _ceiling(plane, ceil), images(rng, plane, channels, dtype)
        given = {**_pooling(plane), "count_include_pad": int(counts)}
        if dtype == "float":
            y = flat(lambda x: means(x, plane, counts), x)
            return Layer("AveragePool", given, {"x": None}, x, y, 1e-4)
        x_zero, y_zero, y_scale, ends = np.array(ZERO[dtype], dtype), 11, np.float32(0.7), np.iinfo(dtype)
        real = flat(lambda x: means(x, plane, counts), x.astype(np.int64) - x_zero) / float(y_scale) + y_zero
        operands = {"x": None, "x_scale": np.float32(1), "x_zero_point": x_zero}
        operands |= {"y_scale": y_scale, "y_zero_point": np.array(y_zero, dtype)}
        del given["dilations"]
        return Layer("QLinearAveragePool", given, operands, x, np.clip(real, ends.min, ends.max))

    return make


def conv_transpose(channels: int, outputs: int, group: int = 1) -> Maker:
    """ConvTranspose of integers in float32, with as much output_padding as the stride allows, or less."""

    def make(plane: Plane, rng: np.random.Generator) -> Layer:
        more = [int(rng.integers(axis.stride)) for axis in plane]
        x = images(rng, plane, channels, "float")
        w = rng.integers(-127, 128, (channels, outputs // group, *(axis.kernel for axis in plane))).astype(np.float32)
        y = flat(lambda x: transposed(x.astype(np.int64), w.astype(np.int64), plane, more, group), x)
        given = {**attributes(plane), "group": group, "output_padding": more}
        return Layer("ConvTranspose", given, {"x": None, "w": w}, x, y, 0)

    return make


ZERO = {"int8": -5, "uint8": 121}


def _operands(
    rng: np.random.Generator,
    plane: Plane,
    channels: int,
    outputs: int,
    group: int,
    x_type: str,
    w_type: str,
    batch: int = 1,
    most: int = 127,
    low: int | None = None,
) -> tuple[Array, Array, Array, Array]:
    """x, w, and their zero points, which are not 0 for x and for weights without a sign.

    Weights lie from -``most`` to ``most``; with ``low`` each is that or ``most``.
    """
    w_zero = 0 if w_type == "int8" else 128
    shape = (outputs, channels // group, *(axis.kernel for axis in plane))
    w = (rng.integers(-most, most + 1, shape) if low is None else rng.choice([low, most], shape)) + w_zero
    x = images(rng, plane, channels, x_type, batch)
    return x, w.astype(w_type), np.array(ZERO[x_type], x_type), np.array(w_zero, w_type)


def _sums(plane: Plane, group: int, x: Array, w: Array, x_zero: Array, w_zero: Array) -> Array:
    weights = w.astype(np.int64) - w_zero
    return flat(lambda x: convolved(x, weights, plane, group), x.astype(np.int64) - x_zero)


def _by_channel(values: Array, plane: Plane) -> Array:
    return values.reshape(-1, *[1] * len(plane))


def _ceiling(plane: Plane, ceil: bool) -> Plane:
    return tuple(replace(axis, ceil=ceil) for axis in plane)


def _pooling(plane: Plane) -> dict[str, Any]:
    kernel = [axis.kernel for axis in plane]
    return {**attributes(plane), "kernel_shape": kernel, "ceil_mode": int(plane[0].ceil)}
