"""Which tensors share memory: views, outputs written over inputs, parts written into the whole."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from qcgen.ir.plan import Port
from qcgen.ir.program import Concat, Operator, Tensor, inputs_of
from qcgen.ir.types import DType
from qcgen.kernels import Prepared
from qcgen.plan.arrange import Arranged


@dataclass(frozen=True)
class Storage:
    """Where a tensor lives: ``offset`` bytes into the memory of the tensor ``root``."""

    root: str
    offset: int


def bytes_of(tensor: Tensor) -> int:
    """The size of a tensor in memory."""
    return tensor.size * tensor.dtype.bytes


@dataclass(frozen=True)
class Boundary:
    """The inputs and outputs of the network, and whether they lie in the arena or are the caller's memory.

    ``is_pushed``: the only input is there row by row. ``states``: the tensors that a call finds in the arena, and those
    that it leaves where these were; ``state_at``: where these lie in memory of the caller's, if they do, in bytes.
    """

    ports: Sequence[Port]
    is_in_arena: bool
    is_pushed: bool = False
    states: Sequence[tuple[Tensor, Tensor]] = ()
    state_at: Mapping[str, int] = field(default_factory=dict)

    @property
    def of_caller(self) -> Sequence[Port]:
        """Those in memory of the caller's."""
        return [port for port in self.ports if not self._is_in_arena(port)]

    @property
    def inputs_in_arena(self) -> dict[str, Tensor]:
        """Inputs that lie in the arena, and states, by name: they are there before the first step."""
        inputs = {p.tensor.name: p.tensor for p in self.ports if p.direction == "input" and self._is_in_arena(p)}
        return inputs | {read.name: read for read, _ in self.states}

    @property
    def kept(self) -> frozenset[str]:
        """The tensors whose memory nothing else may use, before the first step and behind the last."""
        return frozenset(read.name for read, _ in self.states)

    @property
    def left(self) -> dict[str, str]:
        """The tensors that a call leaves, and those whose memory they get."""
        return {written.name: read.name for read, written in self.states}

    @property
    def wanted(self) -> frozenset[str]:
        """The tensors that must be there as a whole behind the last step."""
        return frozenset(port.tensor.name for port in self.ports if port.direction == "output") | self.left.keys()

    def _is_in_arena(self, port: Port) -> bool:
        return self.is_in_arena and not (self.is_pushed and port.direction == "input")


def storages_of(
    steps: Sequence[Arranged], prepared: Sequence[Prepared | None], boundary: Boundary, uses: Mapping[str, int]
) -> dict[str, Storage]:
    """The storage of every computed tensor, and of inputs in the arena."""
    lent = _lent_to_outputs(steps, boundary.of_caller)
    storages = _parts_of_concats(steps, {port.tensor.name for port in boundary.ports} | boundary.left.keys() | lent)
    wholes = {storage.root for storage in storages.values()}
    storages |= {name: Storage(name, 0) for name in boundary.inputs_in_arena}
    tensors = tensors_of(steps, boundary.inputs_in_arena)
    types: dict[str, set[DType]] = defaultdict(set)  # of all tensors that live in a root's memory
    at_boundary = {port.tensor.name for port in boundary.of_caller}
    # The last use of any tensor that lives in a root's memory; the caller's is never ours.
    last = dict.fromkeys(at_boundary | boundary.kept, len(steps))
    read = {name: uses[name] for name in boundary.kept}  # the last step that reads a state
    for name, storage in storages.items():
        last[storage.root] = max(last.get(storage.root, 0), uses[name])
        types[storage.root].add(tensors[name].dtype)
    for index, (step, packed) in enumerate(zip(steps, prepared, strict=True)):
        y = step.op.y
        if y.name in storages:
            continue
        state = boundary.left.get(y.name)
        if step.is_view:
            source = inputs_of(step.op)[0].name
            storage = storages.get(source, Storage(source, 0))
            if storage.root in read:
                read[storage.root] = max(read[storage.root], uses[y.name])
        elif state is not None and read[state] < index and y.name not in wholes:
            storage = Storage(state, 0)
        else:
            over = (
                None
                if packed is None or y.name in at_boundary
                else _overwritten(step.op, packed, index, storages, last)
            )
            if (
                over
                and y.name in lent
                and (bytes_of(tensors[over.root]) > bytes_of(y) or types[over.root] != {y.dtype})
            ):
                over = None  # the output could not hold the whole of which its memory is a part, or numbers of its type
            storage = over or Storage(y.name, 0)
        storages[y.name] = storage
        types[storage.root].add(y.dtype)
        last[storage.root] = max(last.get(storage.root, 0), uses[y.name])
    return storages


def _overwritten(
    op: Operator, packed: Prepared, index: int, storages: Mapping[str, Storage], last: Mapping[str, int]
) -> Storage | None:
    """The storage of an input that the output may overwrite, because nothing reads that memory afterwards."""
    for number in packed.in_place:
        x = inputs_of(op)[number]
        storage = storages.get(x.name)
        if storage is None or bytes_of(x) != bytes_of(op.y):
            continue
        if storage.offset == 0 and last[storage.root] <= index:
            return storage
    return None


def _lent_to_outputs(steps: Sequence[Arranged], ports: Sequence[Port]) -> set[str]:
    """The tensors that live in the caller's memory because an output is a view of them."""
    outputs = {port.tensor.name for port in ports if port.direction == "output"}
    lent: set[str] = set()
    for step in reversed(steps):
        if step.is_view and step.op.y.name in outputs | lent:
            lent.add(inputs_of(step.op)[0].name)
    return lent


def _parts_of_concats(steps: Sequence[Arranged], elsewhere: Collection[str]) -> dict[str, Storage]:
    """The storages of tensors that are computed right where a Concat wants them, and nowhere else."""
    storages: dict[str, Storage] = {}
    computed = {step.op.y.name for step in steps if not step.is_view}.difference(elsewhere)
    for step in steps:
        if not isinstance(step.op, Concat) or not _is_outermost(step.op, step.y):
            continue
        names = [x.name for x in step.op.xs]
        if len(set(names)) < len(names) or not computed.issuperset(names) or any(name in storages for name in names):
            continue
        storages |= _side_by_side(step.op, Storage(step.op.y.name, 0))
    # A whole may be a part itself. It comes behind its parts: what it lies in is known first.
    for name in reversed(storages):
        whole = storages.get(storages[name].root)
        if whole is not None:
            storages[name] = Storage(whole.root, whole.offset + storages[name].offset)
    return storages


def _side_by_side(op: Concat, whole: Storage) -> dict[str, Storage]:
    """The storages of the parts, one behind the other in the whole."""
    offsets = accumulate((bytes_of(x) for x in op.xs), initial=whole.offset)
    return {x.name: Storage(whole.root, offset) for x, offset in zip(op.xs, offsets, strict=False)}


def is_done(step: Arranged, storages: Mapping[str, Storage]) -> bool:
    """Whether all parts of a Concat were computed where it wants them."""
    if not isinstance(step.op, Concat):
        return False
    wanted = _side_by_side(step.op, storages[step.op.y.name])
    return len(wanted) == len(step.op.xs) and all(storages.get(name) == storage for name, storage in wanted.items())


def _is_outermost(op: Concat, order: tuple[int, ...]) -> bool:
    """Whether the parts lie one behind the other in memory."""
    outer = order[: order.index(op.axis)]
    return all(op.y.shape[axis] == 1 for axis in outer)


def owners_of(storages: Mapping[str, Storage], ports: Iterable[Port]) -> dict[str, str]:
    """The parameters that hold a root: inputs and outputs themselves, and what an output is a view of."""
    owners = {port.tensor.name: port.symbol for port in ports}
    for port in ports:
        if port.direction == "output" and port.tensor.name in storages:
            owners[storages[port.tensor.name].root] = port.symbol
    return owners


def tensors_of(steps: Sequence[Arranged], inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What the network computes, and inputs in the arena."""
    return {**inputs, **{step.op.y.name: step.op.y for step in steps}}


def require_inside(steps: Sequence[Arranged], storages: Mapping[str, Storage], boundary: Boundary) -> None:
    """Raises AssertionError for a tensor that reaches beyond the memory that it lives in, or a view of another size.

    So it does for memory that lies in other memory itself, and for memory that is larger than the output it belongs to.
    """
    sizes = {tensor.name: bytes_of(tensor) for step in steps for tensor in (*inputs_of(step.op), step.op.y)}
    sizes |= {read.name: bytes_of(read) for read, _ in boundary.states}
    for step in steps:
        name = step.op.y.name
        storage = storages[name]
        if step.is_view and sizes[name] != sizes[inputs_of(step.op)[0].name]:
            raise AssertionError(f"{name!r} is a view of a tensor of another size")
        if not 0 <= storage.offset <= sizes[storage.root] - sizes[name]:
            raise AssertionError(f"{name!r} does not lie inside {storage.root!r}")
        if storages.get(storage.root, storage).root != storage.root:
            raise AssertionError(f"{storage.root!r}, in which {name!r} lies, is no memory of its own")
    for port in boundary.of_caller:
        name = port.tensor.name
        if port.direction == "output" and sizes[storages[name].root] > sizes[name]:
            raise AssertionError(f"{storages[name].root!r} does not fit into the output {name!r}")
