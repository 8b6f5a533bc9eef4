"""Which layers run through the same C function: those of a kernel whose texts differ in tables and numbers alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache
from itertools import combinations
from typing import Any, TypeVar

import numpy as np

from qcgen.ir.context import Context, own
from qcgen.ir.plan import C_BYTES, Certificate, Field, SharedFunction
from qcgen.ir.program import Conv, ConvGeometry, Operator, macs_of
from qcgen.kernels import KERNELS, Prepared, Selection, Setting, select
from qcgen.kernels.arm_dsp.output import KeptOutput
from qcgen.kernels.arm_mve.output import MveOutput
from qcgen.kernels.epilogue import LINE_PARAMETERS, Y_ZERO_POINT, Output
from qcgen.kernels.fast_output import FastOutput
from qcgen.kernels.kernel import CommonOutput, SizesPrice
from qcgen.kernels.text import Described
from qcgen.plan.names import SHARED
from qcgen.requantize.lines import MAX_SHIFT

_Part = TypeVar("_Part")

NUMBERS = (*LINE_PARAMETERS, "zero_point")
"""The numbers of an output step that a layer may have for itself."""


PRICE = 1100
"""Bytes that sharing across sizes must save for as many instructions as are a hundredth of the multiply-adds."""

LAYER_BYTES = 600
"""What a layer's own functions take at least, -O2 on a Cortex-M: tables may grow by as much where they are shared."""

MOST_GUARDED = 8
"""A shift in common may cost a guard band for one in so many channels of a layer."""


@dataclass(frozen=True)
class Work:
    """An operator, or some rows of one: its kernel, and what that has packed; ``shared`` and ``numbers`` as in Call.

    ``calls``: how often an inference calls it, once for each of its rows.
    """

    op: Operator
    setting: Setting
    selection: Selection
    prepared: Prepared
    shared: SharedFunction | None = None
    numbers: Mapping[str, int] = field(default_factory=dict)
    calls: int = 1


WORD_BITS = 32  # of the product that *multiply-high* drops
ROOM = 1
"""By how many bits multipliers of a layer may grow whose numbers are free: its scale may double."""


@dataclass(frozen=True)
class FreeStep:
    """What of an operator's code follows from the model's numbers, if these may become others.

    Its ``kernel``; the ``form`` of its arithmetic, the shifts and the guard bands that it tests for.
    """

    kernel: str
    form: str = ""
    shift: int = 0
    prescale: int = 0
    guard: int = 0


def free_step(kernel: str, context: Context, certificate: Certificate) -> FreeStep:
    """That of an operator."""
    guard = _tested(context)
    for output in _parts(context, Output):
        return FreeStep(kernel, output.kind, output.shift, output.prescale, guard)
    match certificate.numbers:
        case {"kind": "pairs", "form": str(form), "shift": int(shift)}:
            return FreeStep(kernel, form, shift)
    return FreeStep(kernel)


def free(op: Operator, setting: Setting, wanted: FreeStep | None) -> Work:
    """An operator packed so that its numbers may become others: a table for each, guard bands for all channels.

    ``wanted``: what it must be to fit code that is there.
    """
    setting = replace(setting, common=_free(wanted or FreeStep("", shift=MAX_SHIFT)))
    selection = select(op, setting, KERNELS, wanted.kernel if wanted else "")
    work = Work(op, setting, selection, selection.kernel.prepare(op, setting))
    own = free_step(selection.kernel.name, work.prepared.context, work.prepared.certificate)
    if wanted is not None or not own.form:
        return work
    setting = replace(setting, common=_free(_with_room(own)))
    return replace(work, setting=setting, prepared=selection.kernel.prepare(op, setting))


def _with_room(step: FreeStep) -> FreeStep:
    """The same for scales that are larger by ROOM bits; where *multiply-high* has no bits to spare, *wide* has."""
    if step.form == "wide":
        return replace(step, prescale=step.prescale - ROOM)
    if step.form == "multiply-high" and step.shift <= ROOM:
        return replace(step, form="wide", shift=0, prescale=step.shift + WORD_BITS - ROOM)
    return replace(step, shift=max(0, step.shift - ROOM))


def _free(step: FreeStep) -> CommonOutput:
    tables = frozenset(LINE_PARAMETERS)
    free = CommonOutput(step.shift, tables, True, True, step.guard, subtracts=True, is_free=True)
    return replace(free, form=step.form, prescale=step.prescale)


def share(works: Sequence[Work], prefix: str, free_bytes: Callable[[int], int]) -> list[Work]:
    """The works, packed so that as many of them as can be run through the same functions.

    The layers of a group get the least of their shifts, for which multipliers and offsets are searched anew; what the
    output step of one needs that of all has. Then those whose texts are equal share a function. ``free_bytes``:
    those of the arena that are free side by side while the work of a number runs.
    """
    found = dict(enumerate(works))
    numbers: Counter[str] = Counter()
    for members in _members(works, _Packer()):
        kind = members[0][1].selection.kernel.name.split("/")[-1]
        numbers[kind] += 1
        symbol = f"{prefix}_{SHARED}_{kind}{f'_{numbers[kind]}' if numbers[kind] > 1 else ''}"
        shared = _sharing(_sparing_stack(members, free_bytes), symbol)
        found |= zip((index for index, _ in members), shared, strict=True)
    return list(found.values())


def _sparing_stack(members: Sequence[tuple[int, Work]], free_bytes: Callable[[int], int]) -> list[Work]:
    """The layers of a function, whose arrays lie in the arena, not on the stack, if it has room in each of them."""
    works = [work for _, work in members]
    if not all(work.prepared.stack_bytes for work in works):
        return works
    settings = [replace(work.setting, free_bytes=min(free_bytes(index) for index, _ in members)) for work in works]
    return [
        replace(work, setting=setting, prepared=work.selection.kernel.prepare(work.op, setting))
        for work, setting in zip(works, settings, strict=True)
    ]


class _Packer:
    """Packs layers with what their output steps have in common, each but once for the same."""

    def __init__(self) -> None:
        self._packed: dict[tuple[int, tuple[ConvGeometry, ...], CommonOutput], Prepared] = {}

    def __call__(self, work: Work, common: CommonOutput) -> Work:
        """The layer packed so; its operator must live as long as this."""
        setting, key = replace(work.setting, common=common), (id(work.op), work.setting.sizes, common)
        if key not in self._packed:
            self._packed[key] = work.selection.kernel.prepare(work.op, setting)
        return replace(work, setting=setting, prepared=self._packed[key])


def _members(works: Sequence[Work], pack: _Packer) -> Iterator[list[tuple[int, Work]]]:
    """The layers of each function, packed for it: first of layers that may read their sizes, then of those of one."""
    left = dict(enumerate(works))
    for is_sized in (True, False):
        keys = {index: _alike(work, is_sized=False) for index, work in left.items()}
        for group in list(_of_several_sizes(left) if is_sized else _grouped(keys)):
            for packed in _equal(group, left, pack, is_sized=is_sized):
                if all(_keeps_order(work, works[index]) for index, work in packed.items()):
                    yield list(packed.items())
                    left = {index: work for index, work in left.items() if index not in packed}


def _equal(
    group: Sequence[int], works: Mapping[int, Work], pack: _Packer, *, is_sized: bool
) -> Iterator[dict[int, Work]]:
    """The parts of a group whose texts are equal, each packed with what its own layers have in common."""
    sizes = tuple(dict.fromkeys(geometry_of(works[index]) for index in group)) if is_sized else ()
    if len(sizes) == 1:
        return
    tried = {index: replace(works[index], setting=replace(works[index].setting, sizes=sizes)) for index in group}
    for packed in _affordable(group, tried, pack):
        for part in _grouped({index: _text(work) for index, work in packed.items()}):
            if len(part) == len(packed):
                yield packed
            else:
                yield from _equal(part, works, pack, is_sized=is_sized)


def _of_several_sizes(works: Mapping[int, Work]) -> Iterator[list[int]]:
    """The layers of functions that read sizes: as many as save enough bytes for the instructions that it takes."""
    able = {index: work for index, work in works.items() if work.selection.kernel.sizes is not None}
    total = sum(work.calls * macs_of(work.op) for work in works.values())
    for group in _grouped({index: _alike(work, is_sized=True) for index, work in able.items()}):
        price = works[group[0]].selection.kernel.sizes
        assert price is not None
        by_geometry: dict[ConvGeometry, list[int]] = {}
        for index in group:
            by_geometry.setdefault(geometry_of(works[index]), []).append(index)
        calls = {g: sum(works[index].calls for index in indices) for g, indices in by_geometry.items()}
        for merged in _merged(calls, price, total):
            yield sorted(index for geometry in merged for index in by_geometry[geometry])


def _merged(calls: Mapping[ConvGeometry, int], price: SizesPrice, total: int) -> list[tuple[ConvGeometry, ...]]:
    """Geometries whose layers share a function: always those two parts that gain most become one.

    ``calls``: how many an inference makes of each, ``total``: the multiply-adds of the network.
    """

    @cache
    def cost(part: tuple[ConvGeometry, ...]) -> float:
        return sum(calls[g] * price.instructions(g, part) for g in part) if len(part) > 1 else 0.0

    @cache
    def gain(one: tuple[ConvGeometry, ...], other: tuple[ConvGeometry, ...]) -> float:
        more = cost(one + other) - cost(one) - cost(other)
        saved = price.bytes(one) + price.bytes(other) - price.bytes(one + other)
        return saved - PRICE * 100 * more / total

    parts: list[tuple[ConvGeometry, ...]] = [(geometry,) for geometry in calls]
    while len(parts) > 1:
        best = max(combinations(parts, 2), key=lambda pair: gain(*pair))
        if gain(*best) <= 0:
            break
        parts = [part for part in parts if part not in best] + [best[0] + best[1]]
    return [part for part in parts if len(part) > 1]


def geometry_of(work: Work) -> ConvGeometry:
    """The geometry of a convolution."""
    assert isinstance(work.op, Conv)
    return work.op.geometry


def _keeps_order(packed: Work, before: Work) -> bool:
    """Whether the output may still lie over the input as it was placed."""
    was, now = before.prepared.access, packed.prepared.access
    return was is None or (now is not None and now.distance <= was.distance)


def _grouped(keys: Mapping[int, Hashable | None]) -> Iterator[list[int]]:
    """The indices of equal keys, two or more of them; those without a key are left out."""
    groups: dict[Hashable, list[int]] = {}
    for index, key in keys.items():
        if key is not None:
            groups.setdefault(key, []).append(index)
    yield from (group for group in groups.values() if len(group) > 1)


def _affordable(group: Sequence[int], works: Mapping[int, Work], pack: _Packer) -> Iterator[dict[int, Work]]:
    """The group packed alike, in parts of two or more where all together would cost too much."""
    if len(group) < 2:
        return
    packed = dict(zip(group, _with_common_output([works[index] for index in group], pack), strict=True))
    if not _costs_too_much([works[index] for index in group], list(packed.values())):
        yield packed
        return
    outputs = {index: output for index in group if (output := output_of(works[index].prepared.context)) is not None}
    tables = {
        index: tuple(getattr(output, role) is None for role in LINE_PARAMETERS) for index, output in outputs.items()
    }
    parts = {key: [index for index in group if tables[index] == key] for key in tables.values()}
    if len(parts) == 1:
        shifts = sorted({output.shift for output in outputs.values()})
        middle = shifts[len(shifts) // 2]
        parts = {(key,): [i for i in group if (outputs[i].shift < middle) == key] for key in (False, True)}
    for part in parts.values() if all(len(part) < len(group) for part in parts.values()) else ():
        yield from _affordable(part, works, pack)


def _costs_too_much(own_works: Sequence[Work], packed: Sequence[Work]) -> bool:
    """Whether tables grow by more than functions take that are saved, or sums come near a tie too often."""
    if any(map(_is_free, packed)):
        return False  # other weights must not end in other functions
    growth = sum(map(_table_bytes, packed)) - sum(map(_table_bytes, own_works))
    more = [(_guarded(after) - _guarded(before)) for before, after in zip(own_works, packed, strict=True)]
    channels = [work.op.geometry.out_channels for work in packed if isinstance(work.op, Conv)]
    too_near = any(count * MOST_GUARDED > of for count, of in zip(more, channels, strict=True))
    return too_near or growth > LAYER_BYTES * (len(packed) - 1)


def _table_bytes(work: Work) -> int:
    return sum(int(table.values.size) * C_BYTES[table.c_type] for table in work.prepared.constants)


def _guarded(work: Work) -> int:
    """How many channels have a guard band."""
    forms = work.prepared.certificate.requantize or {}
    return forms.get("guard band", 0) + forms.get("soft-float", 0)


def _alike(work: Work, *, is_sized: bool) -> Hashable | None:
    """Equal for convolutions that may share a function; None for operators that do not."""
    op, output, setting = work.op, output_of(work.prepared.context), work.setting
    if not isinstance(op, Conv) or output is None or output.kind == "raw":
        return None
    types = (op.x.dtype, op.y.dtype, op.weights.dtype)
    step = (output.kind, output.word, output.low, output.high, _is_fast(work) or output.is_guarded)
    numbers = tuple(output.numbers.items()) if output.kind == "round-once" else ()  # which the function has itself
    if is_sized:
        return (work.selection.kernel.prepare, setting.in_rows, types, step, numbers)
    where = (setting.xs, setting.y, setting.in_rows)
    return (work.selection.kernel.name, op.op_type, op.geometry, op.x_zero_point, types, step, numbers, where)


def _with_common_output(works: Sequence[Work], pack: _Packer) -> list[Work]:
    """The works with the least of their shifts, and with whatever of the output step one of them needs."""
    outputs = [output for work in works if (output := output_of(work.prepared.context)) is not None]
    shift = min(output.shift for output in outputs)
    pairs = zip(works, outputs, strict=True)
    alike = [work if output.shift == shift else pack(work, _at_shift(work, shift)) for work, output in pairs]
    return [pack(work, _common(alike, shift)) for work in alike]


def _tested(context: Context) -> int:
    """The widest guard band that the output step tests for."""
    guards = [part.guard for part in _parts(context, FastOutput)]
    return max((*guards, *(part.guard for part in _parts(context, MveOutput))), default=0)


def _is_free(work: Work) -> bool:
    return work.setting.common is not None and work.setting.common.is_free


def _at_shift(work: Work, shift: int) -> CommonOutput:
    return CommonOutput(shift) if work.setting.common is None else replace(work.setting.common, shift=shift)


def _common(works: Sequence[Work], shift: int) -> CommonOutput:
    outputs = [output for work in works if (output := output_of(work.prepared.context)) is not None]
    tables = {role for role in LINE_PARAMETERS for output in outputs if getattr(output, role) is None}
    is_fast, is_free = all(map(_is_fast, works)), any(map(_is_free, works))
    return CommonOutput(
        shift,
        tables=frozenset(tables),
        has_offset=is_free or any(output.offset != 0 for output in outputs),
        is_guarded=is_free or (is_fast and any(output.is_guarded for output in outputs)),
        guard=max(_tested(work.prepared.context) for work in works),
        subtracts=is_free or (is_fast and any(output.subtracts for output in outputs)),
        is_free=is_free,
        form=next((each.form for work in works if (each := work.setting.common) is not None and is_free), ""),
        prescale=max((each.prescale for work in works if (each := work.setting.common) is not None), default=0),
    )


def output_of(context: Context) -> Output | None:
    """The output step that a template shows."""
    return next(_parts(context, Output), None)


def _is_fast(work: Work) -> bool:
    """Whether a channel with a guard band is told by a flag: tables of the exact output step may be left out then."""
    return any(part.is_fast for part in _parts(work.prepared.context, FastOutput))


def _parts(context: Context, kind: type[_Part]) -> Iterator[_Part]:
    for each in fields(context):
        value = getattr(context, each.name)
        if isinstance(value, kind):
            yield value
        elif isinstance(value, Context):
            yield from _parts(value, kind)


def _text(work: Work) -> Hashable:
    """Equal for works whose templates show the same, but for tables and numbers."""
    prepared = work.prepared
    tables = tuple((table.role, table.c_type) for table in prepared.constants if table.role not in _EXACT)
    if prepared.sizes:  # some of what the function calls only layers of some sizes need
        scratch = tuple(each.align for each in prepared.scratch)
        return (_form(prepared.context), tuple(prepared.sizes), tables, scratch)
    return (_form(prepared.context), geometry_of(work), tables, prepared.scratch)


_EXACT = ("guard_band", "scale_mantissa", "scale_exponent", "addend", Y_ZERO_POINT, *LINE_PARAMETERS)
"""The tables that a layer without guard bands does not have."""


def _form(value: object) -> Hashable:
    """What a template's text depends on, so that it can be compared."""
    match value:
        case Described():
            return value.x_type
        case KeptOutput():
            kept = (value.keeps_own, value.keeps_offset, value.shared_offset is None)
            return (_form(value.output), _form(value.dsp), kept)
        case np.ndarray():
            return (value.shape, value.tobytes())
        case list() | tuple():
            return tuple(map(_form, value))
        case Mapping():
            return tuple((key, _form(each)) for key, each in value.items())
    if hasattr(value, "form") and not isinstance(value.form, str):
        return (type(value).__name__, value.form)
    if is_dataclass(value):
        return (type(value).__name__, *(_form(getattr(value, each.name)) for each in fields(value)))
    assert isinstance(value, Hashable), "what templates show are numbers, text, arrays and dataclasses of these"
    return value


def _sharing(works: Sequence[Work], symbol: str) -> list[Work]:
    """The works with the function that they share; numbers that are the same in all of them stay in its text.

    But structs of the library are a layer's own, with all of their fields.
    """
    numbers = [_numbers(work) for work in works]
    own_numbers = {
        name: c_type for name, (c_type, _) in numbers[0].items() if "." in name or len({n[name] for n in numbers}) > 1
    }
    literals = tuple((name, value) for name, value in works[0].prepared.sizes.items() if name not in own_numbers)
    tables = {table.role: Field(table.role, table.c_type, True) for work in works for table in work.prepared.constants}
    parts = (*tables.values(), *(Field(name, c_type, False) for name, c_type in own_numbers.items()))
    shared = SharedFunction(symbol, tuple(work.op.name for work in works), parts, literals)
    description = _description(works)
    return [
        replace(
            work,
            prepared=replace(work.prepared, context=_shown(work.prepared.context, frozenset(own_numbers), description)),
            shared=shared,
            numbers={name: values[name][1] for name in own_numbers},
        )
        for work, values in zip(works, numbers, strict=True)
    ]


def _numbers(work: Work) -> dict[str, tuple[str, int]]:
    """C type and value of the numbers that a layer may have for itself."""
    output = output_of(work.prepared.context)
    assert output is not None, "operators without an output step do not share"
    free = {"zero_point"} if _is_free(work) else set()
    values = {name: getattr(output, name) for name in NUMBERS if name not in free}
    shared_offset = next((part.shared_offset for part in _parts(work.prepared.context, KeptOutput)), None)
    values |= {"offset": shared_offset} if shared_offset is not None else {}
    values |= work.prepared.sizes
    types = {"offset": "int64_t" if output.kind == "wide" else "int32_t"}
    return {name: (types.get(name, "int32_t"), value) for name, value in values.items() if value is not None}


def _description(works: Sequence[Work]) -> str:
    """What stands above the function: what that of each layer says, with the names of all of them."""
    described = next(_parts(works[0].prepared.context, Described))
    names = ", ".join(work.op.name for work in works)
    if works[0].prepared.sizes:
        return f"{names}: {' and '.join(dict.fromkeys(work.op.op_type for work in works))} of several sizes."
    return f"{names}: {described.description.removeprefix(f'{works[0].op.name}: ')}"


def _shown(context: Context, own_numbers: frozenset[str], description: str) -> Context:
    """The context with the layer's own numbers read from its struct, and the description of all layers."""
    changes: dict[str, object] = {}
    for each in fields(context):
        value = getattr(context, each.name)
        if isinstance(value, Output):
            changes[each.name] = _owned(value, own_numbers)
        elif isinstance(value, Context):
            changes[each.name] = _shown(value, own_numbers, description)
    if isinstance(context, Described):
        changes["description"] = description
    if isinstance(context, KeptOutput) and context.shared_offset is not None and "offset" in own_numbers:
        changes["shared_offset"] = own("offset")
    return replace(context, **changes)


def _owned(output: Output, own_numbers: frozenset[str]) -> Output:
    given: dict[str, Any] = {name: own(name) for name in own_numbers if getattr(output, name, None) is not None}
    numbers = {name: own(name) if name in own_numbers else value for name, value in output.numbers.items()}
    return replace(output, numbers=numbers, **given)
