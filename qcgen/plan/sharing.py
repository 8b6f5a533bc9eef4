"""Which tensors share memory: views, outputs written over inputs, parts written into the whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from qcgen.ir.plan import Port
from qcgen.ir.program import Concat, Operator, Tensor, inputs_of
from qcgen.kernels import Prepared
from qcgen.plan.arrange import Arranged


@dataclass(frozen=True)
class Home:
    """Where a tensor lives: ``offset`` bytes into the memory of the tensor ``root``."""

    root: str
    offset: int


def bytes_of(tensor: Tensor) -> int:
    """The size of a tensor in memory."""
    return tensor.size * tensor.dtype.bytes


@dataclass(frozen=True)
class Boundary:
    """The inputs and outputs of the network, and whether they lie in the arena or are the caller's memory.

    ``is_pushed``: the only input is there row by row.
    """

    ports: Sequence[Port]
    is_in_arena: bool
    is_pushed: bool = False

    @property
    def of_caller(self) -> Sequence[Port]:
        """Those in memory of the caller's."""
        return [port for port in self.ports if not self._is_in_arena(port)]

    @property
    def inputs_in_arena(self) -> dict[str, Tensor]:
        """Inputs that lie in the arena, by name: they are there before the first step."""
        return {p.tensor.name: p.tensor for p in self.ports if p.direction == "input" and self._is_in_arena(p)}

    def _is_in_arena(self, port: Port) -> bool:
        return self.is_in_arena and not (self.is_pushed and port.direction == "input")


def homes_of(
    steps: Sequence[Arranged], prepared: Sequence[Prepared | None], boundary: Boundary, uses: Mapping[str, int]
) -> dict[str, Home]:
    """The home of every computed tensor, and of inputs in the arena."""
    lent = _lent_to_outputs(steps, boundary.of_caller)
    homes = _parts_of_concats(steps, boundary.ports, lent)
    homes |= {name: Home(name, 0) for name in boundary.inputs_in_arena}
    sizes = {name: bytes_of(x) for name, x in tensors_of(steps, boundary.inputs_in_arena).items()}
    at_boundary = {port.tensor.name for port in boundary.of_caller}
    # The last use of any tensor that lives in a root's memory; the caller's is never ours.
    last = dict.fromkeys(at_boundary, len(steps))
    for name, home in homes.items():
        last[home.root] = max(last.get(home.root, 0), uses[name])
    for index, (step, packed) in enumerate(zip(steps, prepared, strict=True)):
        y = step.op.y
        if y.name in homes:
            continue
        if step.is_view:
            source = inputs_of(step.op)[0].name
            home = homes.get(source, Home(source, 0))
        else:
            over = (
                None if packed is None or y.name in at_boundary else _overwritten(step.op, packed, index, homes, last)
            )
            if over and y.name in lent and sizes[over.root] > bytes_of(y):
                over = None  # the output could not hold the whole of which its memory is a part
            home = over or Home(y.name, 0)
        homes[y.name] = home
        last[home.root] = max(last.get(home.root, 0), uses[y.name])
    return homes


def _overwritten(
    op: Operator, packed: Prepared, index: int, homes: Mapping[str, Home], last: Mapping[str, int]
) -> Home | None:
    """The home of an input that the output may overwrite, because nothing reads that memory afterwards."""
    for number in packed.in_place:
        x = inputs_of(op)[number]
        home = homes.get(x.name)
        if home is None or bytes_of(x) != bytes_of(op.y):
            continue
        if home.offset == 0 and last[home.root] <= index:
            return home
    return None


def _lent_to_outputs(steps: Sequence[Arranged], ports: Sequence[Port]) -> set[str]:
    """The tensors that live in the caller's memory because an output is a view of them."""
    outputs = {port.tensor.name for port in ports if port.direction == "output"}
    lent: set[str] = set()
    for step in reversed(steps):
        if step.is_view and step.op.y.name in outputs | lent:
            lent.add(inputs_of(step.op)[0].name)
    return lent


def _parts_of_concats(steps: Sequence[Arranged], ports: Sequence[Port], lent: set[str]) -> dict[str, Home]:
    """The homes of tensors that are computed right where a Concat wants them, and nowhere else."""
    homes: dict[str, Home] = {}
    elsewhere = {port.tensor.name for port in ports} | lent
    computed = {step.op.y.name for step in steps if not step.is_view} - elsewhere
    for step in steps:
        if not isinstance(step.op, Concat) or not _is_outermost(step.op, step.y):
            continue
        names = [x.name for x in step.op.xs]
        if len(set(names)) < len(names) or not computed.issuperset(names) or any(name in homes for name in names):
            continue
        homes |= _side_by_side(step.op, Home(step.op.y.name, 0))
    # A whole may be a part itself. It comes behind its parts: what it lies in is known first.
    for name in reversed(homes):
        whole = homes.get(homes[name].root)
        if whole is not None:
            homes[name] = Home(whole.root, whole.offset + homes[name].offset)
    return homes


def _side_by_side(op: Concat, whole: Home) -> dict[str, Home]:
    """The homes of the parts, one behind the other in the whole."""
    offsets = accumulate((bytes_of(x) for x in op.xs), initial=whole.offset)
    return {x.name: Home(whole.root, offset) for x, offset in zip(op.xs, offsets, strict=False)}


def is_done(step: Arranged, homes: Mapping[str, Home]) -> bool:
    """Whether all parts of a Concat were computed where it wants them."""
    if not isinstance(step.op, Concat):
        return False
    wanted = _side_by_side(step.op, homes[step.op.y.name])
    return len(wanted) == len(step.op.xs) and all(homes.get(name) == home for name, home in wanted.items())


def _is_outermost(op: Concat, order: tuple[int, ...]) -> bool:
    """Whether the parts lie one behind the other in memory."""
    outer = order[: order.index(op.axis)]
    return all(op.y.shape[axis] == 1 for axis in outer)


def owners_of(homes: Mapping[str, Home], ports: Iterable[Port]) -> dict[str, str]:
    """The parameters that hold a root: inputs and outputs themselves, and what an output is a view of."""
    owners = {port.tensor.name: port.symbol for port in ports}
    for port in ports:
        if port.direction == "output" and port.tensor.name in homes:
            owners[homes[port.tensor.name].root] = port.symbol
    return owners


def tensors_of(steps: Sequence[Arranged], inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What the network computes, and inputs in the arena."""
    return {**inputs, **{step.op.y.name: step.op.y for step in steps}}


def require_inside(steps: Sequence[Arranged], homes: Mapping[str, Home], ports: Sequence[Port]) -> None:
    """Raises AssertionError for a tensor that reaches beyond the memory that it lives in, or a view of another size.

    So it does for memory that lies in other memory itself, and for memory that is larger than the output it belongs to.
    """
    sizes = {tensor.name: bytes_of(tensor) for step in steps for tensor in (*inputs_of(step.op), step.op.y)}
    for step in steps:
        name = step.op.y.name
        home = homes[name]
        if step.is_view and sizes[name] != sizes[inputs_of(step.op)[0].name]:
            raise AssertionError(f"{name!r} is a view of a tensor of another size")
        if not 0 <= home.offset <= sizes[home.root] - sizes[name]:
            raise AssertionError(f"{name!r} does not lie inside {home.root!r}")
        if homes.get(home.root, home).root != home.root:
            raise AssertionError(f"{home.root!r}, in which {name!r} lies, is no memory of its own")
    for port in ports:
        name = port.tensor.name
        if port.direction == "output" and sizes[homes[name].root] > sizes[name]:
            raise AssertionError(f"{homes[name].root!r} does not fit into the output {name!r}")
