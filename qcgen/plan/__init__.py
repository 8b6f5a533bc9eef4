"""Program to Plan: layouts, kernels, tables, memory and names are decided here."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from qcgen.ir.plan import Call, InArena, Options, Overlap, Place, Plan, Port, Step, Table, View
from qcgen.ir.program import Operator, Program, inputs_of
from qcgen.ir.types import Layout
from qcgen.kernels import KERNELS, Prepared, Setting
from qcgen.plan.arrange import Arranged, arrange
from qcgen.plan.layout import boundary_layout, boundary_shape, layout_text
from qcgen.plan.names import node_names, parameter_names
from qcgen.plan.orders import layout_of
from qcgen.plan.select import Selection, select
from qcgen.plan.sizes import require_sizes
from qcgen.plan.storage import bytes_of, store
from qcgen.targets import TARGETS

__all__ = ["plan"]


def plan(program: Program, options: Options, prefix: str, model: str, node: str | None = None) -> Plan:
    """What the C will do. ``model`` is the file's name for comments, ``node`` the one that --node chose."""
    require_sizes(program.operators)
    steps = arrange(program, options.layout)
    symbols = [f"{prefix}_{name}" for name in node_names(((step.op.name, step.op.op_type) for step in steps), prefix)]
    ports = _ports(program, options, symbols)
    chosen = [None if step.is_view else _chosen(step, _setting(step, program, options)) for step in steps]
    stored = store(steps, [None if choice is None else choice[1] for choice in chosen], ports)
    planned: list[Step] = []
    for index, (step, choice) in enumerate(zip(steps, chosen, strict=True)):
        if choice is None or index in stored.done:
            planned.append(View(step.op))
            continue
        selection, packed = choice
        inputs = [x.name for x in inputs_of(step.op) if x.name not in program.constants]
        places = [*(stored.places[name] for name in (*inputs, step.op.y.name)), *stored.scratch[index]]
        planned.append(_call(step, symbols[index], selection, packed, places))
    placement = stored.placement
    return Plan(
        prefix,
        model,
        program.sha256,
        node,
        options,
        ports,
        tuple(planned),
        placement.bytes,
        placement.lower_bound,
        stored.align,
    )


def _chosen(step: Arranged, setting: Setting) -> tuple[Selection, Prepared]:
    """The kernel and what it packs, at once: what was proved of the operator to choose is still at hand."""
    selection = select(step.op, setting, KERNELS)
    return selection, selection.kernel.prepare(step.op, setting)


def _ports(program: Program, options: Options, node_symbols: Collection[str]) -> tuple[Port, ...]:
    tensors = [*program.inputs, *program.outputs]
    symbols = parameter_names((tensor.name for tensor in tensors), node_symbols)
    ports = []
    for index, (tensor, symbol) in enumerate(zip(tensors, symbols, strict=True)):
        layout = boundary_layout(tensor, options.layout)
        shape, text = boundary_shape(tensor, layout), layout_text(layout)
        ports.append(Port(tensor, symbol, shape, text, "input" if index < len(program.inputs) else "output"))
    return tuple(ports)


def _setting(step: Arranged, program: Program, options: Options) -> Setting:
    x, y = inputs_of(step.op)[0], step.op.y
    constants = {t.name: program.constants[t.name] for t in inputs_of(step.op) if t.name in program.constants}
    return Setting(
        x_layout=layout_of(x, step.xs[0]) or Layout.CHANNELS_LAST,
        y_layout=layout_of(y, step.y) or Layout.CHANNELS_LAST,
        optimize=options.optimize,
        target=TARGETS[options.target],
        xs=step.xs,
        y=step.y,
        constants=constants,
    )


def _overlap(op: Operator, prepared: Prepared, places: Sequence[Place]) -> Overlap | None:
    """How the output lies over the first input, if it does."""
    x, y = inputs_of(op)[0], op.y
    if prepared.access is None or not isinstance(places[0], InArena):
        return None
    y_place = places[len(places) - len(prepared.scratch) - 1]
    if not isinstance(y_place, InArena):
        return None
    distance = places[0].offset - y_place.offset
    if distance >= bytes_of(y) or -distance >= bytes_of(x):
        return None
    return Overlap(x.name, distance, prepared.access.distance, prepared.access.units)


def _call(step: Arranged, symbol: str, selection: Selection, prepared: Prepared, places: Sequence[Place]) -> Call:
    tables = tuple(
        Table(constants.role, f"{symbol}_{constants.role}", constants.c_type, constants.values, constants.meaning)
        for constants in prepared.constants
    )
    return Call(
        op=step.op,
        symbol=symbol,
        kernel=selection.kernel.name,
        template=selection.kernel.template,
        tables=tables,
        context=prepared.context,
        support=prepared.support,
        arguments=tuple(places),
        scratch_bytes=sum(buffer.bytes for buffer in prepared.scratch),
        certificate=prepared.certificate,
        passed_over=selection.passed_over,
        access=prepared.access,
        is_elementwise=bool(prepared.in_place),
        overlap=_overlap(step.op, prepared, places),
    )
