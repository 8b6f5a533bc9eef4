"""Operators of whole networks, each with inputs and orders in memory, and many of their kernels in one library."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from cffi import FFI

from qcgen.artifact import Artifact
from qcgen.build import STRICT_FLAGS
from qcgen.cores import TARGETS
from qcgen.ir.context import names_of
from qcgen.ir.plan import Argument, Call, InArena, Options, Plan, Port, Table
from qcgen.ir.program import Convert, Operator, Program, Quantize, QuantizedBinary, Softmax, Tensor, inputs_of
from qcgen.ir.types import Array, DType, Layout
from qcgen.kernels import KERNELS, Kernel, Prepared, Setting, select
from qcgen.kernels.kernel import Order
from qcgen.library import standard_headers
from qcgen.plan.arrange import layout_of
from qcgen.plan.memory import Buffer, place
from qcgen.plan.names import parameter_names
from qcgen.reference import evaluate_operator
from qcgen.render import environment, library
from qcgen.render import render as render_files

PREFIX = "net"
FLOAT_TOLERANCE = 1e-6  # relative; float operators are allowed 1e-5
EXACT_IN_FLOAT = (
    "max",
    "dequantize",
    "transpose",
    "pad",
    "convert",
    "float_output_bounded",
)  # how the names of their units start
GUARD = 64  # bytes around every buffer that no kernel may touch


@dataclass(frozen=True)
class Unit:
    """One operator on given inputs; ``xs`` and ``y`` are orders in memory, row-major if empty."""

    name: str
    op: Operator
    feeds: tuple[Array, ...]
    xs: tuple[Order, ...] = ()
    y: Order = ()
    constants: Mapping[str, Array] = field(default_factory=dict)
    optimize: str = "size"
    target: str = "portable"

    @property
    def setting(self) -> Setting:
        inputs = inputs_of(self.op)
        xs = self.xs or tuple(tuple(range(len(x.shape))) for x in inputs)
        y = self.y or tuple(range(len(self.op.y.shape)))
        layouts = (layout_of(inputs[0], xs[0]), layout_of(self.op.y, y))
        x_layout, y_layout = (layout or Layout.CHANNELS_LAST for layout in layouts)
        return Setting(x_layout, y_layout, self.optimize, TARGETS[self.target], xs, y, self.constants)

    @property
    def kernel(self) -> Kernel:
        return select(self.op, self.setting, KERNELS).kernel

    @property
    def held(self) -> dict[str, Array]:
        """The inputs that are not constants, as they lie in memory."""
        given = zip(inputs_of(self.op), self.feeds, self.setting.xs, strict=True)
        return {x.name: values.transpose(order) for x, values, order in given if x.name not in self.constants}

    @property
    def expected(self) -> Array:
        """The reference's output in the model's order."""
        return np.asarray(evaluate_operator(self.op, *self.feeds))


@dataclass(frozen=True)
class Built:
    """A unit's packed operator, and its text in C."""

    unit: Unit
    prepared: Prepared
    symbol: str
    text: str
    wrapper: str


def render(unit: Unit) -> Built:
    """The unit's tables and functions, and a function with a uniform signature that calls it."""
    kernel, setting = unit.kernel, unit.setting
    prepared = kernel.prepare(unit.op, setting)
    symbol = f"{PREFIX}_{unit.name}"
    tables = [Table(c.role, f"{symbol}_{c.role}", c.c_type, c.values, c.meaning) for c in prepared.constants]
    declare = environment().from_string(
        "static const {{ t.c_type }} {{ t.symbol }}[{{ t | extent }}] = {\n{{ t | rows }}\n};\n"
    )
    roles = {table.role: table.symbol for table in tables}
    body = environment().get_template(kernel.template)
    text = "".join(declare.render(t=table) for table in tables)
    common = {"prefix": PREFIX, "symbol": symbol, "tables": roles, "op": unit.op}
    text += body.render(names_of(prepared.context) | common | {"kept": "static const", "layer_type": ""})
    given = [x for x in inputs_of(unit.op) if x.name not in unit.constants]
    arguments = [f"inputs[{i}]" for i in range(len(given))] + ["y"]
    arguments += [f"scratch[{i}]" for i in range(len(prepared.scratch))]
    unused = "(void)inputs; (void)scratch;"
    head = f"void run_{unit.name}(const void *const *inputs, void *y, void *const *scratch)"
    wrapper = f"{head};\n{head}\n{{\n    {unused}\n    {symbol}({', '.join(arguments)});\n}}\n"
    return Built(unit, prepared, symbol, text, wrapper)


def source(built: Sequence[Built]) -> str:
    """One C file of all units."""
    parts = [f"#include <stdint.h>\n#define {PREFIX.upper()}_CONST_ATTR\n"]
    texts = [b.text for b in built]
    shared = library("").needed(texts, PREFIX)
    parts += [f"#include <{name}>\n" for name in standard_headers([*texts, *shared])]
    return "".join([*parts, *shared]) + "\n".join(b.text + b.wrapper for b in built)


def difference(unit: Unit, found: Array) -> str:
    """How an output in the model's order differs from the reference's, "" if it does not."""
    wanted = unit.expected
    if (found.shape, found.dtype) != (wanted.shape, wanted.dtype):
        return f"{unit.name}: {found.dtype} {found.shape} instead of {wanted.dtype} {wanted.shape}"
    if wanted.dtype != np.float32 or unit.name.startswith(EXACT_IN_FLOAT):
        right = found == wanted
    else:
        right = np.isclose(found, wanted, rtol=FLOAT_TOLERANCE, atol=FLOAT_TOLERANCE)
    if right.all():
        return ""
    first = tuple(int(i) for i in np.argwhere(~right)[0])
    return f"{unit.name}: {int((~right).sum())} outputs differ, at {first} {found[first]} instead of {wanted[first]}"


def thinned(unit: Unit) -> Unit:
    """The unit on evenly spread elements of its tensors, or on fewer rows of a softmax; other units as they are."""
    match unit.op:
        case QuantizedBinary(is_wide=True):
            most, axes = 16, len(unit.op.y.shape)
        case QuantizedBinary() | Quantize():
            most, axes = 32, len(unit.op.y.shape)
        case Convert() if DType.FLOAT64 not in (unit.op.x.dtype, unit.op.y.dtype):
            most, axes = 500, 1
        case Softmax():
            most, axes = 6, len(unit.op.y.shape) - 1
        case _:
            return unit
    chosen = [np.unique(np.linspace(0, size - 1, min(size, most)).astype(int)) for size in unit.op.y.shape[:axes]]
    chosen += [np.arange(size) for size in unit.op.y.shape[axes:]]
    shape = tuple(len(indices) for indices in chosen)
    tensors = {key: value for key, value in vars(unit.op).items() if isinstance(value, Tensor)}
    op = replace(unit.op, **{key: replace(tensor, shape=shape) for key, tensor in tensors.items()})
    return replace(unit, op=op, feeds=tuple(values[np.ix_(*chosen)] for values in unit.feeds))


def artifact(unit: Unit) -> Artifact:
    """The unit as a generated function of its own, for suites that run whole models."""
    kernel, setting, op = unit.kernel, unit.setting, unit.op
    prepared = kernel.prepare(op, setting)
    names = list(unit.held)
    tensors = {tensor.name: tensor for tensor in (*inputs_of(op), op.y)}
    orders = dict(zip((x.name for x in inputs_of(op)), setting.xs, strict=True)) | {op.y.name: setting.y}
    symbol = f"{unit.name}_node"
    symbols = parameter_names([*names, op.y.name], [symbol])
    ports = tuple(
        Port(tensors[name], parameter, tuple(tensors[name].shape[axis] for axis in orders[name]), "", direction)
        for name, parameter, direction in zip(
            [*names, op.y.name], symbols, ["input"] * len(names) + ["output"], strict=True
        )
    )
    arguments = {port.tensor.name: Argument(port.symbol) for port in ports}
    buffers = [Buffer(str(i), scratch.bytes, scratch.align, 0, 0) for i, scratch in enumerate(prepared.scratch)]
    placement = place(buffers)
    places = [arguments[x.name] for x in inputs_of(op) if x.name not in unit.constants] + [arguments[op.y.name]]
    call = Call(
        op,
        symbol,
        kernel.name,
        tuple(Table(c.role, f"{symbol}_{c.role}", c.c_type, c.values, c.meaning) for c in prepared.constants),
        prepared.context,
        (*places, *(InArena(placement.offsets[buffer.name]) for buffer in buffers)),
        sum(buffer.bytes for buffer in buffers),
        prepared.certificate,
        (),
    )
    align = max((buffer.align for buffer in buffers), default=1)
    options = Options(unit.target, optimize=unit.optimize, simplify=False)
    sizes = placement.bytes, placement.lower_bound, align
    plan = Plan(unit.name, f"{unit.name}.onnx", "", None, options, ports, (call,), *sizes, buffers=())
    inputs = tuple(port.tensor for port in plan.inputs)
    program = Program(unit.name, inputs, (op.y,), (op,), "", unit.constants)
    return Artifact(program, program, plan, render_files(plan))


class Library:
    """The kernels of many units, built with the strict flags and loaded."""

    def __init__(self, folder: Path, units: Iterable[Unit], compiler: str, flags: Sequence[str]) -> None:
        self.built = {unit.name: render(unit) for unit in units}
        (folder / "units.c").write_text(source(list(self.built.values())))
        command = [compiler, *STRICT_FLAGS, *flags, "-shared", "-fPIC", "units.c", "-lm", "-o", "units.so"]
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr[:3000]
        self._ffi = FFI()
        for name in self.built:
            self._ffi.cdef(f"void run_{name}(const void *const *inputs, void *y, void *const *scratch);")
        self._library = self._ffi.dlopen(str(folder / "units.so"))

    def run(self, name: str, over: int | None = None) -> Array:
        """The unit's output in the model's order; computed over the input number ``over`` if that is asked for."""
        built = self.built[name]
        unit, setting = built.unit, built.unit.setting
        inputs = inputs_of(unit.op)
        held: dict[str, Array] = {}
        pointers = []
        for x, values, order in zip(inputs, unit.feeds, setting.xs, strict=True):
            if x.name not in unit.constants:
                held.setdefault(x.name, _guarded(values.transpose(order)))
                pointers.append(self._address(held[x.name]))
        y = unit.op.y
        memory = _guarded(np.full([y.shape[axis] for axis in setting.y], 77).astype(y.dtype.numpy))
        out = memory if over is None else held[inputs[over].name]
        scratch = [_guarded(np.full(s.bytes, 0xA5, np.uint8)) for s in built.prepared.scratch]
        before = {key: array.copy() for key, array in held.items()}
        ffi = self._ffi
        call = getattr(self._library, f"run_{name}")
        call(
            ffi.new("const void *[]", [*pointers, ffi.NULL]),
            self._address(out),
            ffi.new("void *[]", [*map(self._address, scratch), ffi.NULL]),
        )
        for array in (*held.values(), out, *scratch):
            edges = np.concatenate([array[:GUARD], array[-GUARD:]])
            assert (edges == 0x5A).all(), f"{name} writes beyond a buffer"
        for key, array in held.items():
            assert array is out or np.array_equal(array, before[key]), f"{name} changes its input {key}"
        shape = [y.shape[axis] for axis in setting.y]
        values = out[GUARD:-GUARD].copy().view(y.dtype.numpy).reshape(shape)
        return values.transpose(np.argsort(setting.y)) if shape else values

    def _address(self, array: Array) -> object:
        return self._ffi.cast("void *", array.ctypes.data + GUARD)


def _guarded(values: Array) -> Array:
    """The bytes of an array with a guard on either side."""
    guard = np.full(GUARD, 0x5A, np.uint8)
    return np.concatenate([guard, np.ascontiguousarray(values).reshape(-1).view(np.uint8), guard])
