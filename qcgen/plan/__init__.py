"""Program to Plan: layouts, kernels, tables, memory and names are decided here."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from qcgen.ir.plan import Argument, Call, InArena, Options, Place, Plan, Port, Table
from qcgen.ir.program import Operator, Program, Tensor
from qcgen.ir.types import Layout
from qcgen.kernels import KERNELS, Prepared, Setting
from qcgen.plan.layout import boundary_layout, boundary_shape, layout_text
from qcgen.plan.memory import stack
from qcgen.plan.names import node_names, parameter_names
from qcgen.plan.select import Selection, select
from qcgen.targets import TARGETS

__all__ = ["plan"]


def plan(program: Program, options: Options, prefix: str, model: str, node: str | None = None) -> Plan:
    """What the C will do. ``model`` is the file's name for comments, ``node`` the one that --node chose."""
    symbols = [f"{prefix}_{name}" for name in node_names((op.name, op.op_type) for op in program.operators)]
    ports = _ports(program, options, symbols)
    places = {port.tensor.name: Argument(port.symbol) for port in ports}
    calls, align = [], 1
    for op, symbol in zip(program.operators, symbols, strict=True):
        setting = _setting(op, options)
        selection = select(op, setting, KERNELS)
        prepared = selection.kernel.prepare(op, setting)
        calls.append(_call(op, symbol, selection, prepared, places))
        align = max([align, *(buffer.align for buffer in prepared.scratch)])
    arena = max((call.scratch_bytes for call in calls), default=0)
    return Plan(prefix, model, program.sha256, node, options, ports, tuple(calls), arena, align)


def _ports(program: Program, options: Options, node_symbols: Collection[str]) -> tuple[Port, ...]:
    tensors = [*program.inputs, *program.outputs]
    symbols = parameter_names((tensor.name for tensor in tensors), node_symbols)
    ports = []
    for index, (tensor, symbol) in enumerate(zip(tensors, symbols, strict=True)):
        layout = boundary_layout(tensor, options.layout)
        shape, text = boundary_shape(tensor, layout), layout_text(layout)
        ports.append(Port(tensor, symbol, shape, text, "input" if index < len(program.inputs) else "output"))
    return tuple(ports)


def _setting(op: Operator, options: Options) -> Setting:
    def layout(tensor: Tensor) -> Layout:
        return boundary_layout(tensor, options.layout) or Layout.CHANNELS_FIRST

    return Setting(layout(op.x), layout(op.y), options.optimize, TARGETS[options.target].features)


def _call(op: Operator, symbol: str, selection: Selection, prepared: Prepared, places: Mapping[str, Place]) -> Call:
    tables = tuple(
        Table(constants.role, f"{symbol}_{constants.role}", constants.c_type, constants.values, constants.meaning)
        for constants in prepared.constants
    )
    offsets, scratch_bytes = stack(prepared.scratch)
    return Call(
        op=op,
        symbol=symbol,
        kernel=selection.kernel.name,
        template=selection.kernel.template,
        tables=tables,
        context=prepared.context,
        support=prepared.support,
        arguments=(places[op.x.name], places[op.y.name], *(InArena(offset) for offset in offsets)),
        scratch_bytes=scratch_bytes,
        certificate=prepared.certificate,
        passed_over=selection.passed_over,
    )
