"""Program to Plan: layouts, kernels, tables, memory and names are decided here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from qcgen.cores import TARGETS, Target
from qcgen.errors import ModelRejected, Problem
from qcgen.ir.plan import (
    Argument,
    Call,
    InArena,
    KeptState,
    Options,
    Overlap,
    Place,
    Plan,
    Port,
    Step,
    Stream,
    Table,
    TensorMove,
    View,
    table_at,
)
from qcgen.ir.program import Operator, Program, Spatial, State, Tensor, inputs_of, require_sizes
from qcgen.ir.types import DType, Layout
from qcgen.kernels import KERNELS, SIZE, SPEED, Form, Prepared, Setting, select
from qcgen.options import spelt, two_memories
from qcgen.plan.arrange import Arranged, boundary_layout, boundary_shape, layout_of, layout_text, steps_of
from qcgen.plan.functions import FreeStep, Work, free, share
from qcgen.plan.memory import WORD, BufferName, CopiedRows, Memories, TurnNumber
from qcgen.plan.names import (
    ACCESSORS,
    KEEPING,
    PUBLIC,
    PUSHING,
    ROWS,
    SLOW,
    STATE,
    STOPPING,
    WEIGHTS,
    node_names,
    parameter_names,
)
from qcgen.plan.sharing import Boundary, bytes_of
from qcgen.plan.storage import Stored, store, with_copies
from qcgen.plan.stream import alone, fit, stream_of
from qcgen.plan.stream.choose import Chain
from qcgen.plan.stream.stages import COPY, Stage, in_rows
from qcgen.progress import report_progress

__all__ = ["Planner", "plan"]


def plan(program: Program, options: Options, prefix: str, model: str, node: str | None = None) -> Plan:
    """What the C will do. ``model`` is the file's name for comments, ``node`` the one that --node chose.

    Each layer has the form that --optimize says; with --flash, ``qcgen.plan.flash`` chooses.
    """
    return Planner(program, options, prefix, model, node).whole()


ArenaLimit = int | Literal["least"] | Memories | None
"""How many bytes the arena may have."""


class Planner:
    """Plans of one program that differ in the forms of its layers; the other parameters are those of ``plan``.

    ``fitting``: how operators are computed, by their names, in code that a block of weights shall fit.
    """

    def __init__(
        self,
        program: Program,
        options: Options,
        prefix: str,
        model: str,
        node: str | None,
        fitting: Mapping[str, FreeStep] | None = None,
    ) -> None:
        require_sizes(program.operators)
        self.options = options
        self._free = None if options.weights is None else (fitting or {})
        self._program, self._prefix, self._model, self._node = program, prefix, model, node
        self._steps = steps = steps_of(program, options.layout)
        if program.states and options.input == "rows":
            raise ModelRejected([_not_pushed()])
        if two_memories(options.arena) is not None and (problem := _not_in_two(options)):
            raise ModelRejected([problem])
        public = (*(ACCESSORS if options.io_memory == "arena" else ()), *(PUSHING if options.input == "rows" else ()))
        public += KEEPING if program.states else ()
        public += WEIGHTS if options.weights is not None else ()
        names = node_names(((step.op.name, step.op.op_type) for step in steps), prefix, public)
        self._symbols = [f"{prefix}_{name}" for name in names]
        functions = [*self._symbols, *(f"{prefix}_{name}" for name in (ROWS, *PUBLIC, *KEEPING))]
        self._ports = _ports(program, options, functions)
        tensors = {tensor.name: tensor for tensor in (*program.inputs, *program.outputs)}
        self._states = [(tensors[state.read], tensors[state.written]) for state in program.states]
        self._state_at: dict[str, int] = {}
        if program.states and options.state == "caller":
            self._state_at, block = _block([read for read, _ in self._states])
            self._ports = (*self._ports, block)
        self._works: dict[tuple[int, Form], Work | None] = {}
        self._rows: dict[tuple[int, int, Form], Work] = {}

    @property
    def limit(self) -> ArenaLimit:
        """What --arena says."""
        arena = self.options.arena
        if (both := two_memories(arena)) is not None:
            return Memories(*both)
        return "least" if arena == "least" else arena if isinstance(arena, int) else None

    def whole(self) -> Plan:
        """The plan in which every operator has the form that the options say."""
        return self.plan({}, SPEED if self.options.optimize == "speed" else SIZE, self.limit)

    def plan(self, forms: Mapping[str, Form], otherwise: Form, arena: ArenaLimit) -> Plan:
        """The plan in which each operator has the form that ``forms`` gives by its name, or ``otherwise``.

        ModelRejected if no choice of rows fits ``arena``.
        """
        options, steps = self.options, self._steps
        chosen = [forms.get(step.op.name, otherwise) for step in steps]
        works = [self._work(index, form) for index, form in enumerate(chosen)]
        prepared = [None if work is None else work.prepared for work in works]
        rows = _RowWorks(self._steps, self._setting_of, chosen, self._rows, self._free)
        chains: tuple[Chain, ...] = ()
        boundary = Boundary(
            self._ports, options.io_memory == "arena", options.input == "rows", self._states, self._state_at
        )
        report_progress("placing tensors in the arena")
        if isinstance(arena, Memories):
            stored = store(steps, prepared, boundary, memories=arena)
        elif arena is None and not boundary.is_pushed:
            stored = store(steps, prepared, boundary)
        else:
            chains, stored = fit(steps, prepared, boundary, arena, rows.prepare, self._program.constants)
        growth = None
        if not chains and not stored.computed and not isinstance(arena, str | Memories):
            copied = with_copies(steps, works, stored, boundary, arena)
            works, stored, growth = list(copied.works), copied.stored, copied.growth
        works, stored = _shared(works, chains, rows, stored, self._prefix)
        return replace(self._planned(works, chains, stored, is_pushed=boundary.is_pushed), growth=growth)

    def _planned(
        self, works: Sequence[Work | None], chains: Sequence[Chain], stored: Stored, *, is_pushed: bool
    ) -> Plan:
        """The plan of works whose memory is placed."""
        steps, symbols, program, prefix = self._steps, self._symbols, self._program, self._prefix
        planned: list[Step] = []
        for index, (step, work) in enumerate(zip(steps, works, strict=True)):
            chain = next((chain for chain in chains if chain.first <= index <= chain.last), None)
            if chain is not None:
                if step.is_view:
                    planned.append(View(step.op))
                if index == chain.last:
                    named = prefix, len(planned), self.options
                    planned.append(_stream(chain, steps, symbols, works, stored, program, *named))
            elif work is None or index in stored.done:
                planned.append(View(step.op))
            else:
                planned.append(_call(step, symbols[index], work, _places(step, index, stored, program)))
                planned += _moved(step.op.y, stored)
        planned += _left(self._states, stored)
        placement, parts = stored.placement, stored.split
        ports = (*self._ports, *(() if parts is None else (_slow(parts.slow.bytes, stored.align),)))
        return Plan(
            prefix,
            self._model,
            program.sha256,
            self._node,
            self.options,
            tuple(_placed(port, stored, chains[0] if is_pushed else None) for port in ports),
            tuple(planned),
            placement.bytes,
            placement.lower_bound,
            stored.align,
            stored.buffers,
            in_float=program.in_float,
            states=tuple(_kept(number, state, program, stored, prefix) for number, state in enumerate(program.states)),
            fast_share=1.0 if parts is None else parts.share,
        )

    def _work(self, index: int, form: Form) -> Work | None:
        """The kernel for a step; None for a view."""
        step = self._steps[index]
        if (index, form) not in self._works:
            setting = self._setting_of(step, form)
            self._works[index, form] = None if step.is_view else _work(step.op, setting, self._free)
        return self._works[index, form]

    def _setting_of(self, step: Arranged, form: Form) -> Setting:
        target = TARGETS[self.options.target]
        own = target.with_constant_time if self.options.constant_time else target
        return _setting(step, self._program, own, form)


def _shared(
    works: Sequence[Work | None], chains: Sequence[Chain], rows: _RowWorks, stored: Stored, prefix: str
) -> tuple[list[Work | None], Stored]:
    """What each step does, whole or row by row, layers that can be through functions that they share; and all places.

    Layers that spend flash on speed keep functions of their own.
    """
    found = [None if index in stored.done else work for index, work in enumerate(works)]
    for chain in chains:
        passes = 1 if chain.first_pass is None else 2
        for stage in (stage for stage in chain.every_stage if stage.index != COPY):
            found[stage.index] = replace(rows.work(stage), calls=passes * stage.calls * stage.images)
    small = {index: work for index, work in enumerate(found) if work is not None and work.setting.optimize == "size"}
    indices = list(small)
    shared = share(list(small.values()), prefix, lambda number: stored.free_bytes(indices[number]))
    placed = stored
    for index, work in zip(indices, shared, strict=True):
        found[index] = work
        if work.setting.free_bytes:
            placed = placed.with_scratch(index, work.prepared.scratch)
    return found, placed


class _RowWorks:
    """The work of stages, each made once: ``works`` are those that were made for other forms, too."""

    def __init__(
        self,
        steps: Sequence[Arranged],
        setting: Callable[[Arranged, Form], Setting],
        forms: Sequence[Form],
        works: dict[tuple[int, int, Form], Work],
        free: Mapping[str, FreeStep] | None,
    ) -> None:
        self._steps, self._setting, self._forms, self._works, self._free = steps, setting, forms, works, free

    def work(self, stage: Stage) -> Work:
        """The kernel of a stage's calls."""
        form = self._forms[stage.index]
        key = stage.index, stage.rows, form
        if key not in self._works:
            assert stage.op is not None, "rows are copied without a kernel"
            step = in_rows(self._steps[stage.index], stage.op)
            setting, read = self._setting(step, form), {window.tensor for window in stage.windows}
            constants = {name: values for name, values in setting.constants.items() if name not in read}
            self._works[key] = _work(stage.op, replace(setting, in_rows=True, constants=constants), self._free)
        return self._works[key]

    def prepare(self, stage: Stage) -> Prepared:
        """The operator of one call, packed."""
        return self.work(stage).prepared


def _work(op: Operator, setting: Setting, steps: Mapping[str, FreeStep] | None) -> Work:
    """The kernel for an operator, and what it packs; ``steps``: its numbers are free, to fit code that is there."""
    if isinstance(op, Spatial):
        op.geometry.check(op.x, op.y)
    report_progress(f"choosing the kernel of {op.name}")
    if steps is not None:
        return free(op, setting, steps.get(op.name))
    selection = select(op, setting, KERNELS)
    return Work(op, setting, selection, selection.kernel.prepare(op, setting))


def _places(step: Arranged, index: int, stored: Stored, program: Program) -> list[Place]:
    inputs = [x.name for x in inputs_of(step.op) if x.name not in program.constants or x.name in stored.places]
    y = stored.computed.get(step.op.y.name, stored.places[step.op.y.name])
    return [*(stored.places[name] for name in inputs), y, *stored.scratch[index]]


def _moved(y: Tensor, stored: Stored) -> list[TensorMove]:
    """The move of a tensor that has been computed, if it lies elsewhere later."""
    place = stored.places[y.name]
    if y.name not in stored.computed:
        return []
    assert isinstance(place, InArena), "what is moved lies in the arena"
    return [TensorMove(y, stored.computed[y.name], place)]


def _left(states: Sequence[tuple[Tensor, Tensor]], stored: Stored) -> list[Step]:
    """The moves of what a call leaves to where the next one finds it, unless it was computed there."""
    moves: list[Step] = []
    for read, written in states:
        source, place = stored.places[written.name], stored.places[read.name]
        if source != place:
            moves.append(TensorMove(written, source, place, is_state=True))
    return moves


def _block(states: Sequence[Tensor]) -> tuple[dict[str, int], Port]:
    """Where states lie in memory of the caller's, one behind the other, and that memory, in words."""
    word = DType.INT64 if any(tensor.dtype.bytes > WORD for tensor in states) else DType.INT32
    offsets, end = {}, 0
    for tensor in states:
        offsets[tensor.name] = end
        end += -(-bytes_of(tensor) // word.bytes) * word.bytes
    block = Tensor("all states", word, (end // word.bytes,))
    return offsets, Port(block, STATE, block.shape, "", "state")


def _slow(size: int, align: int) -> Port:
    """The part of an arena in a slow memory, in words."""
    word = DType.INT64 if align > WORD else DType.INT32
    block = Tensor("the rest of the arena", word, (-(-size // word.bytes),))
    return Port(block, SLOW, block.shape, "", "arena")


def _kept(number: int, state: State, program: Program, stored: Stored, prefix: str) -> KeptState:
    """A state with its place, and what it begins with."""
    place = stored.places[state.read]
    tensors = {tensor.name: tensor for tensor in (*program.inputs, *program.outputs)}
    symbol = f"{KEEPING[0]}_{number}"
    read, written = tensors[state.read], tensors[state.written]
    before = Port(read, symbol, read.shape, "", "input", place.offset)
    after = Port(written, symbol, written.shape, "", "output", place.offset)
    data = state.initial.tobytes()
    if len(set(data)) == 1:
        return KeptState(before, after, data[0])
    meaning = f"what {state.read} is before the first call."
    return KeptState(
        before, after, Table("initial", f"{prefix}_{symbol}", before.tensor.dtype.c, state.initial, meaning)
    )


def _stream(
    chain: Chain,
    steps: Sequence[Arranged],
    symbols: Sequence[str],
    works: Sequence[Work | None],
    stored: Stored,
    program: Program,
    prefix: str,
    number: int,
    options: Options,
) -> Stream:
    tables = {
        (stage.index, str(w.tensor)): _rows_of(str(w.tensor), program, f"{symbols[stage.index]}_rows_{number}")
        for stage in chain.stages
        for number, w in enumerate(stage.windows)
        if w.tensor in program.constants
    }
    places = dict(stored.places)
    places |= {name: Argument(table_at(each.symbol, prefix, options)) for (_, name), each in tables.items()}
    stored = replace(stored, places=places)
    calls = {
        stage.index: _in_stage(
            stage,
            work,
            _call(
                steps[stage.index],
                symbols[stage.index],
                replace(work, prepared=alone(work.prepared)),
                [*_places(steps[stage.index], stage.index, stored, program), *_sums(stage, stored)],
            ),
        )
        for stage in chain.every_stage
        if stage.index != COPY and (work := works[stage.index]) is not None
    }
    if chain.first_pass is not None:
        again = {stage.index for stage in chain.stages[:-1]}
        calls = {index: replace(call, passes=1 + (index in again)) for index, call in calls.items()}
        for index in chain.first_pass.between:
            work = works[index]
            assert work is not None, "a scale and a zero point are computed"
            calls[index] = _call(steps[index], symbols[index], work, _places(steps[index], index, stored, program))
    for (index, _), table in tables.items():
        calls[index] = replace(calls[index], tables=(*calls[index].tables, table))
    turn = stored.places.get(TurnNumber()) if chain.first == 0 else None
    assert turn is None or isinstance(turn, InArena), "it lies in the arena"
    stream = stream_of(chain, f"{prefix}_{ROWS}_{number}", calls, stored.places, turn)
    return replace(stream, overlap=_overlap_of_chain(chain, stored.places))


def _rows_of(name: str, program: Program, symbol: str) -> Table:
    """A constant whose rows a layer reads one after the other."""
    values = program.constants[name]
    c_type = next(x.dtype.c for op in program.operators for x in inputs_of(op) if x.name == name)
    return Table(symbol, symbol, c_type, values.reshape(-1), f"the operand {name}, a constant, in rows.")


def _sums(stage: Stage, stored: Stored) -> list[Place]:
    return [stored.places[stage.sums_name]] if stage.sums else []


def _overlap_of_chain(chain: Chain, places: Mapping[BufferName, Place]) -> Overlap | None:
    """How the output of a chain lies over what it reads, if it does."""
    source, output = chain.images[chain.source], chain.images[chain.stages[-1].y]
    x, y = places[chain.source], places[chain.stages[-1].y]
    if not (isinstance(x, InArena) and isinstance(y, InArena)):
        return None
    distance = x.offset - y.offset
    if distance >= output.bytes or -distance >= source.bytes:
        return None
    if distance < chain.order.distance:
        raise AssertionError(f"rows of {output.name!r} are written over rows of {source.name!r} that are still read")
    return Overlap(source.name, distance, chain.order.distance, chain.order.units)


def _in_stage(stage: Stage, work: Work, call: Call) -> Call:
    """The call of a stage, with the overlap of its rows if its output lies over those of its input."""
    order = work.prepared.access
    if stage.front is None or order is None:
        return call
    x = stage.windows[0].tensor
    overlap = Overlap(x.source if isinstance(x, CopiedRows) else x, stage.front, order.distance, order.units)
    return replace(call, access=order, overlap=overlap)


def _ports(program: Program, options: Options, function_symbols: Collection[str]) -> tuple[Port, ...]:
    inputs, outputs = program.of_caller
    tensors = [*inputs, *outputs]
    chosen = dict(options.rename)
    names = [chosen.get(tensor.name, tensor.name) for tensor in tensors]
    symbols = parameter_names(
        names,
        function_symbols,
        (
            *(STOPPING if options.status else ()),
            *((STATE,) if options.state == "caller" else ()),
            *(() if two_memories(options.arena) is None else (SLOW,)),
        ),
    )
    got = {tensor.name: symbol for tensor, symbol in zip(tensors, symbols, strict=True)}
    if problems := [problem for each in chosen.items() for problem in _rename_problems(*each, got)]:
        raise ModelRejected(problems)
    ports = []
    for index, (tensor, symbol) in enumerate(zip(tensors, symbols, strict=True)):
        layout = boundary_layout(tensor, options.layout)
        shape, text = boundary_shape(tensor, layout), layout_text(layout)
        ports.append(Port(tensor, symbol, shape, text, "input" if index < len(inputs) else "output"))
    return tuple(ports)


def _not_in_two(options: Options) -> Problem | None:
    """Why an arena cannot lie in two memories; None if it can."""
    for name, value in (("input", "rows"), ("io_memory", "arena")):
        if getattr(options, name) == value:
            what = "an arena in two memories holds whole tensors that are not the caller's"
            return Problem(spelt(arena=options.arena), what, f"leave {spelt(**{name: value})} out")
    return None


def _not_pushed() -> Problem:
    what = "the network keeps states from call to call, and these would be one call"
    return Problem(spelt(input="rows"), what, f"leave {spelt(input='rows')} out")


def _rename_problems(name: str, new: str, symbols: Mapping[str, str]) -> Iterator[Problem]:
    """What is wrong with the name in C that was chosen for a tensor; ``symbols`` are what the tensors got."""
    where = spelt(rename={name: new})
    if name not in symbols:
        yield Problem(where, "there is no input or output of this name", f"there are {', '.join(map(repr, symbols))}")
    elif symbols[name] != new:
        what = "C cannot call it so: it is not an identifier, means something in C, or is taken"
        yield Problem(where, what, f"choose another name, such as {symbols[name]}")


def _placed(port: Port, stored: Stored, pushed: Chain | None) -> Port:
    """The port with its place in the arena, if it lies there; an input in rows if a chain takes them."""
    if pushed is not None and port.direction == "input":
        return replace(port, rows=pushed.images[port.tensor.name].rows)
    if port.direction in ("state", "arena"):
        return port
    match stored.places[port.tensor.name]:
        case InArena(offset):
            return replace(port, offset=offset)
        case Argument():
            return port


def _setting(step: Arranged, program: Program, target: Target, form: Form) -> Setting:
    x, y = inputs_of(step.op)[0], step.op.y
    constants = {t.name: program.constants[t.name] for t in inputs_of(step.op) if t.name in program.constants}
    return Setting(
        x_layout=layout_of(x, step.xs[0]) or Layout.CHANNELS_LAST,
        y_layout=layout_of(y, step.y) or Layout.CHANNELS_LAST,
        optimize=form.optimize,
        tile_weights=form.tile_weights,
        tile_scratch=form.tile_scratch,
        target=target,
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
    distance, order = places[0].offset - y_place.offset, prepared.access
    if distance >= bytes_of(y) or -distance >= bytes_of(x):
        return None
    if distance < order.distance or (distance - order.distance) % order.multiple:
        raise AssertionError(f"{y.name!r} lies {distance} bytes before {x.name!r}, and not {order.distance} or more")
    return Overlap(x.name, distance, order.distance, order.units)


def _call(step: Arranged, symbol: str, work: Work, places: Sequence[Place]) -> Call:
    selection, prepared = work.selection, work.prepared
    tables = tuple(
        Table(
            each.role, f"{symbol}_{each.role}", each.c_type, each.values, each.meaning, each.packed_bits, each.is_number
        )
        for each in prepared.constants
    )
    return Call(
        op=step.op,
        symbol=symbol,
        kernel=selection.kernel.name,
        tables=tables,
        context=prepared.context,
        arguments=tuple(places),
        scratch_bytes=sum(buffer.bytes for buffer in prepared.scratch),
        certificate=prepared.certificate,
        rejected=selection.rejected,
        access=prepared.access,
        is_elementwise=bool(prepared.in_place),
        returns_status=prepared.returns_status,
        overlap=_overlap(step.op, prepared, places),
        shared=work.shared,
        numbers=work.numbers,
        optimize=work.setting.optimize,
        cycles=prepared.cycles,
        operations=prepared.operations,
        folded=prepared.folded,
    )
