"""What an operator says of its tensors becomes known wherever they are used: scales, zero points and layouts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from qcgen.ir.graph import fresh
from qcgen.ir.program import (
    AveragePool,
    Conv,
    Dequantize,
    GatherElements,
    GlobalAveragePool,
    InstanceNorm,
    IntegerLstm,
    LayerNorm,
    Lookup,
    MatMul,
    MaxPool,
    Movement,
    Operator,
    QuantizedBinary,
    Recurrent,
    Reduce,
    Reshape,
    Spatial,
    Tensor,
    Transpose,
    inputs_of,
    with_inputs,
)
from qcgen.ir.types import Layout


def propagate(operators: Sequence[Operator], constants: Iterable[str]) -> tuple[Operator, ...]:
    """The operators with every tensor the same wherever it is mentioned.

    The first mention that knows a scale or a layout decides. An operator that reads the codes or the axes of a tensor
    in another way gets a view of its own: a Reshape to the same shape.
    """
    seen = _Facts(operators)
    seen.learn(operators)
    # What is known of a tensor goes on through all that follows in one walk, and back through all that led to it.
    while seen.learn(operators[::-1]) or seen.learn(operators):
        pass
    return tuple(_rewritten(operators, seen, set(constants)))


class _Facts:
    """What is known so far, by the tensors' names."""

    def __init__(self, operators: Sequence[Operator]) -> None:
        self.meaning: dict[str, tuple[float | None, int | None]] = {}
        self.layout: dict[str, Layout] = {}
        self._rows = _rows(operators)

    def learn(self, operators: Sequence[Operator]) -> bool:
        """Goes through all operators once; whether anything was found."""
        before = len(self.meaning), len(self.layout)
        for op in operators:
            for tensor in (op.y, *inputs_of(op)):
                self._note(tensor)
            self._pass_meaning(op)
            self._pass_layout(op)
        return before != (len(self.meaning), len(self.layout))

    def _note(self, tensor: Tensor) -> None:
        if tensor.zero_point is not None:
            self.meaning.setdefault(tensor.name, (tensor.scale, tensor.zero_point))
        if tensor.layout is not None:
            self._note_layout(tensor.name, tensor.layout)

    def _note_layout(self, name: str, layout: Layout) -> None:
        """Rows that a product of matrices writes are not an image, unless their last axis is its channels, too."""
        if name not in self._rows or (self._rows[name] == 3 and layout is Layout.CHANNELS_LAST):
            self.layout.setdefault(name, layout)

    def _pass_meaning(self, op: Operator) -> None:
        """Operators that hand codes on hand on what they mean, in both directions."""
        if not keeps_codes(op):
            return
        names = [op.y.name, *(x.name for x in inputs_of(op))]
        known = [self.meaning[name] for name in names if name in self.meaning]
        for name in names if known else ():
            self.meaning.setdefault(name, known[0])

    def _pass_layout(self, op: Operator) -> None:
        """Operators that keep the axes, or exchange them, hand the layout on, in both directions."""
        for x in inputs_of(op):
            if len(x.shape) != len(op.y.shape) or len(x.shape) < 3:
                continue
            forth = _after(op)
            if forth is None:
                continue
            for one, other, change in ((x.name, op.y.name, forth), (op.y.name, x.name, _inverse(forth))):
                layout = self.layout.get(one)
                if layout is not None and layout in change:
                    self._note_layout(other, change[layout])


def _rows(operators: Iterable[Operator]) -> dict[str, int]:
    """The rank of every tensor that a product of matrices writes, also through a table: clamps become its bounds."""
    found: dict[str, int] = {}
    for op in operators:
        is_product = isinstance(op, Conv) and op.y.layout is None
        if is_product or (isinstance(op, Lookup) and op.x.name in found):
            found[op.y.name] = len(op.y.shape)
    return found


MeaningChange = dict[Layout, Layout]
_KEPT: MeaningChange = {layout: layout for layout in Layout}


def _inverse(change: MeaningChange) -> MeaningChange:
    return {after: before for before, after in change.items()}


def keeps_codes(op: Operator) -> bool:
    """Whether y holds codes of x, so that they mean the same."""
    if isinstance(op, Lookup):  # Relu and Clip of codes; the others say what x and y mean
        return op.x.zero_point is None and op.y.zero_point is None
    return isinstance(op, MaxPool | Movement | GatherElements) or (isinstance(op, Reduce) and op.kind in ("max", "min"))


def _after(op: Operator) -> MeaningChange | None:
    """The layout of y for each layout of an input that has as many axes; None if nothing can be said."""
    if isinstance(op, Transpose):
        rank = len(op.perm)
        if op.perm == (0, *range(2, rank), 1):
            return {Layout.CHANNELS_FIRST: Layout.CHANNELS_LAST}
        to_first = op.perm == (0, rank - 1, *range(1, rank - 1))
        return {Layout.CHANNELS_LAST: Layout.CHANNELS_FIRST} if to_first else None
    if isinstance(op, Spatial | MatMul | GatherElements | Recurrent | IntegerLstm):
        return None
    return None if isinstance(op, Reshape) and op.x.shape != op.y.shape else _KEPT


def _rewritten(operators: Sequence[Operator], seen: _Facts, constants: set[str]) -> Iterable[Operator]:
    names = {tensor.name for op in operators for tensor in (op.y, *inputs_of(op))}
    for op in operators:
        inputs = {x.name: x if x.name in constants else _known(x, seen) for x in inputs_of(op)}
        for x in inputs_of(op):
            known = inputs[x.name]
            if x.name not in constants and known.name == x.name and _reads_otherwise(op, x, known):
                inputs[x.name] = replace(x, name=fresh(f"{x.name} for {op.y.name}", names))
                names.add(inputs[x.name].name)
                yield Reshape(op.name, "Reshape", known, inputs[x.name])
        yield replace(with_inputs(op, partial(_of_name, inputs)), y=_known(op.y, seen))


def _of_name(inputs: Mapping[str, Tensor], x: Tensor) -> Tensor:
    return inputs[x.name]


def _known(tensor: Tensor, seen: _Facts) -> Tensor:
    scale, zero_point = seen.meaning.get(tensor.name, (None, None))
    return replace(tensor, scale=scale, zero_point=zero_point, layout=seen.layout.get(tensor.name))


def _reads_otherwise(op: Operator, x: Tensor, known: Tensor) -> bool:
    """Whether the operator's meaning rests on something that the tensor's maker sees in another way."""
    if isinstance(op, Spatial | GlobalAveragePool | InstanceNorm) and x.layout is not known.layout:
        return True
    by_codes = QuantizedBinary | AveragePool | GlobalAveragePool | Reduce | LayerNorm | InstanceNorm | Dequantize
    is_other = x.zero_point is not None and (x.scale, x.zero_point) != (known.scale, known.zero_point)
    return is_other and isinstance(op, by_codes)
