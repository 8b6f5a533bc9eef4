"""The fewest and the most instructions that a call can take, whatever its input, from the linked code.

Branches that cannot depend on the input run equally often in every call, so one counted call gives their numbers. For
each of the others both ways are taken to be possible each time: the shorter in the least, the longer in the most.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from qcgen.artifact import Artifact
from qcgen.cores import TARGETS
from qcgen.cross import NoBound, machine_of, require_tools, succeed, temporary_folder
from qcgen.emulate.counts import COUNTED_FLAGS, CYCLES, counting, read_blocks, run_of
from qcgen.emulate.flow import EXIT, LinkedCode, LinkedFunction
from qcgen.emulate.image import ELF, Image, Trial, cross_build, emulate
from qcgen.emulate.listing import OUTSIDE, SHARED, Listing, listing
from qcgen.errors import EmulationFailed
from qcgen.ir.types import Array
from qcgen.progress import report_progress

ROUNDS = {"soft_float_code": 5, "soft_float_add": 27}
"""By the end of a function's name how often any instruction of its loops runs at most, from its C.

soft_float_code halves its steps from 16 to 1. soft_float_add moves up a difference of at least 1 until it has 27 bits,
and the test runs once more.
"""

_EXACT = re.compile(r"_exact(\d+)$")
"""A function of so many channels or fewer, which it takes one by one."""

BOUNDED = tuple(
    name
    for name, target in TARGETS.items()
    if target.machine and name.startswith("cortex-m") and "mve" not in target.features
)
"""The targets whose code can be bounded: those of Thumb without Helium, whose loops count by themselves."""

_CLONE = re.compile(r"\.(constprop|isra|part|cold)\b.*")
_RELOCATIONS = re.compile(r"^Relocation section '\.rel(\.\S+)' .*\n((?:.+\n)*)", re.MULTILINE)
_DUMPED = re.compile(r"^ ([0-9a-f]+) ((?:[0-9a-f]+ ){1,4})", re.MULTILINE)
_RELOCATION = re.compile(r"^([0-9a-f]+) +[0-9a-f]+ R_ARM_ABS32 ", re.MULTILINE)

Extent = tuple[int, int]
"""The fewest and the most instructions of something."""


@dataclass(frozen=True)
class NodeBound:
    """A node by ``name``: ``least`` and ``most`` instructions; where there is no bound, ``obstacle`` says why."""

    name: str
    op: str
    kernel: str
    least: int
    most: int | None
    obstacle: str = ""


@dataclass(frozen=True)
class Bound:
    """A call's ``least`` and ``most`` instructions for every input; ``most`` is None where a node has no bound.

    ``outside``: of what belongs to no node. ``counted``: of calls with the inputs that were tried.
    """

    target: str
    command: tuple[str, ...]
    nodes: tuple[NodeBound, ...]
    outside: Extent
    counted: tuple[int, ...]

    @property
    def least(self) -> int:
        """Nodes without a bound count with 0."""
        return self.outside[0] + sum(node.least for node in self.nodes)

    @property
    def most(self) -> int | None:
        """None where a node has no bound."""
        if any(node.most is None for node in self.nodes):
            return None
        return self.outside[1] + sum(node.most or 0 for node in self.nodes)


def bound(
    artifact: Artifact, inputs: Sequence[Mapping[str, Array]], *, flags: Sequence[str], compiler: str = "gcc"
) -> Bound:
    """Bounds a call of a model built for its target, and counts calls with ``inputs``, of which there is at least one.

    Raises ToolMissing, and EmulationFailed where a count contradicts the bound: a fault of this analysis.
    """
    name = artifact.plan.options.target
    require_tools(TARGETS[name], compiler, counting=True)
    with temporary_folder() as folder:
        report_progress(f"building for {name}")
        image = cross_build(
            name, [artifact], (*flags, *COUNTED_FLAGS[compiler]), Path(folder), compiler, keeps_relocations=True
        )
        listed = listing(image, artifact.plan)
        report_progress("following what depends on the input")
        rom = machine_of(image.target).rom
        entry = listed.symbols[f"{artifact.plan.prefix}_run"].address & ~1
        flash = range(rom.begin, rom.begin + rom.bytes)
        try:
            code = LinkedCode(listed.instructions, _addresses(image), flash, entry)
        except NoBound as problem:
            raise EmulationFailed(f"there is no bound: {problem}") from None
        calls = []
        for index, feeds in enumerate(inputs):
            report_progress(f"counting call {index + 1} of {len(inputs)}")
            calls.append(_count(image, listed, feeds))
    return _bound(artifact, image, listed, code, calls)


def _addresses(image: Image) -> dict[int, int]:
    """The words of code and constants into which the linker wrote addresses, by their own address."""
    text = succeed([f"{image.target.tools}readelf", "-W", "-r", ELF], image.folder)
    found: dict[int, int] = {}
    for section in _RELOCATIONS.finditer(text):
        if not section[1].startswith(".debug"):
            dump = succeed([f"{image.target.tools}objdump", "-s", "-j", section[1], ELF], image.folder)
            lines = [(int(each[1], 16), bytes.fromhex(each[2])) for each in _DUMPED.finditer(dump)]
            content, begin = b"".join(part for _, part in lines), lines[0][0]
            for place in _RELOCATION.finditer(section[2]):
                at = int(place[1], 16)
                found[at] = int.from_bytes(content[at - begin : at - begin + 4], "little")
    return found


Counts = dict[tuple[int, int], int]
"""How often an instruction ran, by its address and by the owner that is charged for it."""


def _count(image: Image, listed: Listing, feeds: Mapping[str, Array]) -> Counts:
    [outcome] = emulate(image, [Trial(feeds)], plugin=counting(image, listed, CYCLES[image.target.name], ()))
    if outcome.status:
        raise EmulationFailed("the function returns 1, as Orion panics on these inputs")
    counts: Counts = {}
    for block in read_blocks((image.folder / "counts.txt").read_text(encoding="utf-8")):
        for each in run_of(listed, block):
            owner = listed.owners[each.address]
            key = each.address, block.owner if owner == SHARED else owner
            counts[key] = counts.get(key, 0) + block.runs
    return counts


def _bound(artifact: Artifact, image: Image, listed: Listing, code: LinkedCode, calls: Sequence[Counts]) -> Bound:
    extents = _Extents(code, listed)
    owners = range(len(artifact.plan.calls) + 1)
    found = [_owned(code, extents, listed, calls[0], owner) for owner in owners]
    if isinstance(found[OUTSIDE], str):
        raise EmulationFailed(f"what runs between the nodes has no bound: {found[OUTSIDE]}")
    for other in calls[1:]:
        _hold_fixed(code, extents, calls[0], other)
    nodes = []
    for index, call in enumerate(artifact.plan.calls, start=1):
        each = found[index]
        least, most, obstacle = (0, None, each) if isinstance(each, str) else (*each, "")
        nodes.append(NodeBound(call.op.name, call.op.op_type, call.kernel, least, most, obstacle))
    outside = found[OUTSIDE]
    assert not isinstance(outside, str)
    counted = tuple(sum(each.values()) for each in calls)
    bounded = Bound(image.target.name, image.command, tuple(nodes), outside, counted)
    for total in counted:
        if total < bounded.least or (bounded.most is not None and total > bounded.most):
            what = f"{total} instructions were counted, outside {bounded.least} to {bounded.most}"
            raise EmulationFailed(f"{what}: the bound is wrong; please report this")
    return bounded


def _varying(code: LinkedCode, extents: _Extents) -> set[int]:
    """The addresses whose runs are not the same in every call."""
    found: set[int] = set()
    for function in code.functions.values():
        found |= set(function.steps) if function.entry in extents.apart else function.between
    return found


def _hold_fixed(code: LinkedCode, extents: _Extents, one: Counts, other: Counts) -> None:
    """What cannot depend on the input must have run equally often in two calls."""
    varying = _varying(code, extents)
    followed = {address for function in code.functions.values() for address in function.steps}
    for key in one.keys() | other.keys():
        if key[0] in followed and key[0] not in varying and one.get(key, 0) != other.get(key, 0):
            counted = f"{one.get(key, 0)} and {other.get(key, 0)} times"
            raise EmulationFailed(
                f"the instruction at {key[0]:#x} ran {counted}: the bound is wrong; please report this"
            )


def _owned(code: LinkedCode, extents: _Extents, listed: Listing, counts: Counts, owner: int) -> Extent | str:
    """The extent of what one owner runs; why there is none."""
    varying = _varying(code, extents)
    fixed = sum(runs for (address, charged), runs in counts.items() if charged == owner and address not in varying)
    least = most = fixed
    followed = {address for function in code.functions.values() for address in function.steps}
    try:
        for address, charged in counts:
            each = listed.instructions[address]
            if charged == owner and address not in followed and each.section != ".harness":
                reasons = {function.name: function.obstacle for function in code.functions.values()}
                raise NoBound(reasons.get(each.function) or f"{each.function} was not followed")
        for function in code.functions.values():
            if function.entry in extents.apart:
                continue
            between = function.between
            for branch in sorted(function.opened):
                runs = counts.get((branch, owner), 0)
                if not runs:
                    continue
                if branch in function.inside[branch]:
                    raise NoBound(f"{function.name} has a loop whose length may depend on the input")
                if branch in between:
                    continue  # part of what another one decides
                low, high = extents.between(function, branch)
                least, most = least + runs * low, most + runs * high
            for address, callee in function.calls.items():
                if address not in between and callee in extents.apart and (runs := counts.get((address, owner), 0)):
                    low, high = extents.of(callee)
                    least, most = least + runs * low, most + runs * high
    except NoBound as problem:
        return str(problem)
    return least, most


class _Extents:
    """Instructions of functions and of ways behind open branches; ``apart``: functions that such ways call, and those
    whose names bound loops that data may end.
    """

    def __init__(self, code: LinkedCode, listed: Listing) -> None:
        self._code = code
        self._listed = listed
        self._known: dict[int, Extent] = {}
        self.apart: set[int] = set()
        waiting = [
            callee
            for function in code.functions.values()
            for address, callee in function.calls.items()
            if address in function.between
        ] + [function.entry for function in code.functions.values() if function.obstacle or self._says_rounds(function)]
        while waiting:
            each = waiting.pop()
            if each not in self.apart:
                self.apart.add(each)
                waiting += code.functions[each].calls.values()

    @staticmethod
    def _says_rounds(function: LinkedFunction) -> bool:
        """Whether data may decide how often a loop of its runs, and its name says how often it does at most."""
        is_open = any(branch in function.inside[branch] for branch in function.opened)
        return is_open and _rounds_of(_CLONE.sub("", function.name)) is not None

    def of(self, entry: int) -> Extent:
        """A call of a function, the calling instruction left out; NoBound where it has none."""
        if entry not in self._known:
            function = self._code.functions[entry]
            if function.obstacle:
                raise NoBound(function.obstacle)
            self._known[entry] = self._extent(function, [entry], EXIT)
        return self._known[entry]

    def between(self, function: LinkedFunction, branch: int) -> Extent:
        """From behind an open branch to where its ways meet."""
        return self._extent(function, function.ways[branch], function.meets[branch])

    def _extent(self, function: LinkedFunction, starts: Iterable[int], stop: int) -> Extent:
        least = most = None
        for start in set(starts):
            low, high = self._path(function, start, stop)
            least = low if least is None else min(least, low)
            most = high if most is None else max(most, high)
        assert least is not None
        assert most is not None
        return least, most

    def _cost(self, function: LinkedFunction, address: int) -> Extent:
        low, high = self.of(function.calls[address]) if address in function.calls else (0, 0)
        return low + 1, high + 1

    def _path(self, function: LinkedFunction, start: int, stop: int) -> Extent:
        if start == stop:
            return 0, 0
        reached = _reached(function, start, stop)
        costs = {address: self._cost(function, address) for address in reached}
        return _shortest(function, costs, start, stop), self._longest(function, costs, start, stop)

    def _longest(self, function: LinkedFunction, costs: Mapping[int, Extent], start: int, stop: int) -> int:
        """Along the ways; each group of instructions that a loop holds together counts for all its rounds."""
        groups = _groups(function.ways, costs, start, stop)  # each behind those that it leads to
        group_of = {address: index for index, group in enumerate(groups) for address in group}
        most: list[int] = []
        for index, group in enumerate(groups):
            spent = self._spent(function, costs, group)
            ways = {way for address in group for way in function.ways[address] if way in group_of}
            most.append(spent + max((most[group_of[way]] for way in ways if group_of[way] != index), default=0))
        return most[group_of[start]]

    def _spent(
        self, function: LinkedFunction, costs: Mapping[int, Extent], group: Sequence[int], outer: int = 0
    ) -> int:
        """What instructions that a loop holds together take at most, loops within it for each of its rounds.

        ``outer``: how many functions that say so hold the loop around it, which is not theirs to speak of.
        """
        if len(group) == 1 and group[0] not in function.ways[group[0]]:
            return costs[group[0]][1]
        inside = set(group)
        entered = {way for a, ways in function.ways.items() if a not in inside for way in ways if way in inside}
        rest = inside - entered
        ways = {address: [way for way in function.ways[address] if way in rest] for address in rest}
        parts: list[list[int]] = []
        left = set(rest)
        while left:
            found = _groups(ways, rest, min(left), EXIT)
            parts += [part for part in found if part[0] in left]
            left -= {address for part in found for address in part}
        own = [address for part in parts if len(part) == 1 for address in part] + sorted(entered)
        names = self._speaking(function, own)
        rounds = _rounds_of(names[-1]) if len(names) > outer else None
        if rounds is None:
            raise NoBound(f"{function.name} has a loop behind a branch that depends on the input")
        once = sum(costs[address][1] for address in entered)
        once += sum(self._spent(function, costs, part, len(names)) for part in parts)
        return once * rounds

    def _speaking(self, function: LinkedFunction, own: Sequence[int]) -> list[str]:
        """The functions in which all branches of a loop are that say how often their loops run, the innermost last."""
        branches = [address for address in own if function.steps[address].goes == "branch"]
        chains = [(function.name, *self._listed.chains.get(address, ())) for address in branches]
        known = [[name for each in chain if _rounds_of(name := _CLONE.sub("", each)) is not None] for chain in chains]
        return [names[0] for names in takewhile(lambda each: len(set(each)) == 1, zip(*known, strict=False))]


def _rounds_of(name: str) -> int | None:
    """How often instructions of a function's loops run at most; None if it does not say."""
    if found := _EXACT.search(name):
        return int(found[1]) + 1
    return next((rounds for end, rounds in ROUNDS.items() if name.endswith(f"_{end}")), None)


def _reached(function: LinkedFunction, start: int, stop: int) -> set[int]:
    found: set[int] = set()
    waiting = [start]
    while waiting:
        address = waiting.pop()
        if address not in found and address not in (stop, EXIT):
            found.add(address)
            waiting += function.ways[address]
    return found


def _shortest(function: LinkedFunction, costs: Mapping[int, Extent], start: int, stop: int) -> int:
    queue, done = [(0, start)], set[int]()
    while queue:
        spent, address = heapq.heappop(queue)
        if address in (stop, EXIT):
            return spent
        if address not in done:
            done.add(address)
            for way in function.ways[address]:
                heapq.heappush(queue, (spent + costs[address][0], way))
    raise NoBound(f"{function.name} does not return")


def _groups(all_ways: Mapping[int, Sequence[int]], within: Collection[int], start: int, stop: int) -> list[list[int]]:
    """Strongly connected instructions (Tarjan), each group behind those that it leads to."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    held: list[int] = []
    is_held: set[int] = set()
    groups: list[list[int]] = []
    work = [(start, iter(all_ways[start]))]
    index[start] = low[start] = 0
    held.append(start)
    is_held.add(start)
    while work:
        address, rest = work[-1]
        for way in rest:
            if way in (stop, EXIT) or way not in within:
                continue
            if way not in index:
                index[way] = low[way] = len(index)
                held.append(way)
                is_held.add(way)
                work.append((way, iter(all_ways[way])))
                break
            if way in is_held:
                low[address] = min(low[address], index[way])
        else:
            work.pop()
            if work:
                low[work[-1][0]] = min(low[work[-1][0]], low[address])
            if low[address] == index[address]:
                group: list[int] = []
                while not group or group[-1] != address:
                    group.append(held.pop())
                    is_held.discard(group[-1])
                groups.append(group)
    return groups
