"""Which branches of linked code can depend on what it computes with: an interpretation that knows no data.

Each register and each word of a function's frame has a value: a number, an address in the frame, one of a few addresses
of constants in flash (InFlash) or any of them (CONSTANTS), something made of constants alone (FIXED), something that is
the same in every call (CLEAN), or something that may depend on the input (DATA). What is loaded from memory is DATA,
but for the function's own frame, and for constants in flash at an index that is the same in every call. An address made
of constants alone is one of flash: nothing constant names memory that changes. A branch on DATA is open: either way may
be taken. What is written between such a branch and the place where its ways meet is DATA from there on, but for a
register that is saved in the frame there and restored (Saved), as around a call.

It is taken for granted that code writes no memory but the object a pointer points into, that functions keep the
registers that the procedure call standard says they keep, and that objects lie at the same addresses in every call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from qcgen.cross import NoBound
from qcgen.emulate.listing import FLAGS, Access, Instruction, NotUnderstood, ThumbStep, steps

CLEAN, DATA, CONSTANTS, FIXED = "clean", "data", "constants", "fixed"
EXIT = -1
"""The address behind a function's return."""

_ARGUMENTS = ("r0", "r1", "r2", "r3")
_LOST = (*_ARGUMENTS, "ip", "lr", FLAGS)


@dataclass(frozen=True)
class Frame:
    """An address in the frame, ``at`` bytes above the stack pointer at the function's entry."""

    at: int


@dataclass(frozen=True)
class InFlash:
    """An address of constants in flash, one of ``at``."""

    at: frozenset[int]

    def moved(self, by: int) -> InFlash:
        """So many bytes further."""
        return InFlash(frozenset((each + by) & 0xFFFFFFFF for each in self.at))


@dataclass(frozen=True)
class Saved:
    """A word of the frame: what a register held before all of these open branches, between whose ways it was saved."""

    register: str
    value: Known
    branches: frozenset[int]


MOST_TABLES = 32
"""Of how many tables a pointer may be that of; of more, it is known to point to constants only."""

Known = str | int | Frame | InFlash | Saved
Registers = dict[str | int, Known]
"""By the name of a register, or by the offset of a word in the frame; what is missing is DATA."""


@dataclass
class LinkedFunction:
    """A function's steps by address; ``ways``: where each goes on; ``calls``: which function each call leads to.

    ``meets``: where the ways from a step meet again; ``opened``: branches on DATA; ``inside``: what lies between such
    a branch and there. ``live``: arguments' registers that may be read at a step or behind it. ``given``: what its
    callers pass; ``escaped``: offsets of the frame whose address went away; ``overwritten``: arguments on its callers'
    stack that it writes; ``result``: what it returns in r0, None if not yet known. ``obstacle``: why nothing is known
    of it; "" if it was followed.
    """

    entry: int
    name: str
    steps: dict[int, ThumbStep] = field(default_factory=dict)
    ways: dict[int, tuple[int, ...]] = field(default_factory=dict)
    calls: dict[int, int] = field(default_factory=dict)
    meets: dict[int, int] = field(default_factory=dict)
    opened: set[int] = field(default_factory=set)
    inside: dict[int, frozenset[int]] = field(default_factory=dict)
    live: dict[int, frozenset[str]] = field(default_factory=dict)
    given: Registers = field(default_factory=dict)
    escaped: set[int] = field(default_factory=set)
    overwritten: set[int] = field(default_factory=set)
    obstacle: str = ""
    result: Known | None = None

    @property
    def between(self) -> set[int]:
        """All addresses that may run or not, by what an open branch decides."""
        return {address for opened in self.opened for address in self.inside[opened]}


class LinkedCode:
    """The functions that ``entry`` reaches, with their open branches.

    ``addresses``: of words into which the linker wrote addresses, by what it wrote; ``flash``: where constants are.
    Raises NoBound where code is reached whose effect is not known.
    """

    def __init__(
        self, instructions: Mapping[int, Instruction], addresses: Mapping[int, int], flash: range, entry: int
    ) -> None:
        self._instructions = instructions
        self._steps = steps(instructions.values())
        self._addresses = addresses
        self._tables = {at: word for at, word in addresses.items() if word in flash}
        self.functions: dict[int, LinkedFunction] = {}
        self._reach(entry)
        self._find_live()
        if self.functions[entry].obstacle:
            raise NoBound(self.functions[entry].obstacle)
        self._interpret(entry)

    # --- the graph

    def _reach(self, entry: int) -> None:
        waiting = [entry]
        while waiting:
            each = waiting.pop()
            if each not in self.functions:
                self.functions[each] = self._function(each)
                waiting += self.functions[each].calls.values()

    def _function(self, entry: int) -> LinkedFunction:
        if entry not in self._instructions:
            raise NoBound(f"there is no code at {entry:#x}")
        function = LinkedFunction(entry, self._instructions[entry].function)
        try:
            self._follow(function)
        except NoBound as problem:
            return LinkedFunction(entry, function.name, obstacle=str(problem))
        function.meets = _meets(function)
        return function

    def _follow(self, function: LinkedFunction) -> None:
        """Finds the function's steps."""
        entry = function.entry
        waiting = [entry]
        while waiting:
            address = waiting.pop()
            if address in function.steps or address == EXIT:
                continue
            step = self._steps.get(address)
            if step is None:
                raise NoBound(f"{function.name} runs into data")
            if isinstance(step, NotUnderstood):
                raise NoBound(f"{function.name} has {step}")
            if step.goes == "computed":
                raise NoBound(f"{function.name} jumps to a computed address")
            if step.goes == "call" and step.target != entry and self._is_within(function, step.target):
                step = replace(step, goes="jump", writes=("lr",))  # gcc's jump too far for b on Cortex-M0
            function.steps[address] = step
            function.ways[address] = self._ways(function, step)
            waiting += function.ways[address]

    def _find_live(self) -> None:
        changed = True
        while changed:
            changed = False
            for function in self.functions.values():
                for address in _reversed_order(function)[1:]:
                    step = function.steps[address]
                    live = self._behind(function, address)
                    live = live if step.may or step.goes == "call" else live.difference(step.writes)
                    if address in function.calls:
                        live |= self._taken(function.calls[address])
                    live = frozenset(_ARGUMENTS) if step.has_float else live | step.uses.intersection(_ARGUMENTS)
                    changed = changed or live != function.live.get(address)
                    function.live[address] = live

    def _behind(self, function: LinkedFunction, address: int) -> frozenset[str]:
        """The registers of arguments that may be read behind a step; a caller reads two."""
        ways = function.ways[address]
        read = [_ARGUMENTS[:2] if way == EXIT else function.live.get(way, frozenset()) for way in ways]
        return frozenset[str]().union(*read)

    def _taken(self, entry: int) -> frozenset[str]:
        """The registers of arguments that a function may read, or return as they are."""
        function = self.functions[entry]
        return frozenset(_ARGUMENTS) if function.obstacle else function.live.get(entry, frozenset())

    def _is_within(self, function: LinkedFunction, target: int | None) -> bool:
        there = None if target is None else self._instructions.get(target)
        return there is not None and there.function == function.name

    def _ways(self, function: LinkedFunction, step: ThumbStep) -> tuple[int, ...]:
        if step.goes == "call":
            assert step.target is not None
            function.calls[step.address] = step.target
            if step.may:
                raise NoBound(f"{function.name} calls under a condition")
            return (step.next,)
        if step.goes == "return":
            return (EXIT, step.next) if step.may else (EXIT,)
        if step.goes in ("branch", "jump"):
            assert step.target is not None
            target = step.target
            if not self._is_within(function, target):
                # Another function in the place of this one's end: a call, then the return.
                function.calls[step.address] = target
                if step.goes == "branch":
                    raise NoBound(f"{function.name} goes into another function under a condition")
                target = EXIT
            return (target,) if step.goes == "jump" else (target, step.next)
        return (step.next,)

    # --- values

    def _interpret(self, entry: int) -> None:
        root = self.functions[entry]
        root.given = {**dict.fromkeys(_ARGUMENTS, CLEAN), **{4 * i: CLEAN for i in range(64)}}
        changed = {entry}
        waiting = [entry]
        while waiting:
            function = self.functions[waiting.pop()]
            changed.discard(function.entry)
            if function.obstacle:
                continue
            before = len(function.overwritten), function.result
            for callee in self._walk(function):
                if callee not in changed:
                    changed.add(callee)
                    waiting.append(callee)
            if (len(function.overwritten), function.result) != before:  # its callers' frames change
                for each in self.functions.values():
                    if function.entry in each.calls.values() and each.entry not in changed and each.given:
                        changed.add(each.entry)
                        waiting.append(each.entry)

    def _walk(self, function: LinkedFunction) -> set[int]:
        """Interprets a function until nothing changes; the functions whose arguments changed by it."""
        touched: set[int] = set()
        while True:
            size = len(function.opened), len(function.escaped)
            between = function.between
            behind = {each: frozenset(b for b in function.opened if each in function.inside[b]) for each in between}
            states: dict[int, Registers] = {function.entry: self._entry(function)}
            waiting = [function.entry]
            while waiting:
                address = waiting.pop()
                step = function.steps[address]
                state = _in_reach(states[address], behind.get(address, frozenset()))
                is_branch = step.goes == "branch" or (step.goes == "return" and step.may)
                if is_branch and any(_is_data(state.get(each, DATA)) for each in step.reads):
                    self._open(function, address)
                self._do(function, step, state, behind.get(address, frozenset()))
                if address in function.calls:
                    touched |= self._call(function, step, state)
                    callee = self.functions[function.calls[address]]
                    if callee.result is None and not callee.obstacle and step.goes == "call":
                        continue  # again, when it is known what comes back
                for way in function.ways[address]:
                    if way == EXIT:
                        returned = DATA if step.goes == "jump" else state.get("r0", DATA)
                        returned = CLEAN if isinstance(returned, Frame) else returned
                        result = returned if function.result is None else _merged(function.result, returned)
                        function.result = result
                        continue
                    joined = _join(function, states.get(way), state)
                    if joined is not None:
                        states[way] = joined
                        waiting.append(way)
            if (len(function.opened), len(function.escaped)) == size:
                return touched

    def _entry(self, function: LinkedFunction) -> Registers:
        kept: Registers = dict.fromkeys((*(f"r{i}" for i in range(4, 10)), "sb", "sl", "fp", "lr"), CLEAN)
        return {**function.given, **kept, "sp": Frame(0)}

    def _open(self, function: LinkedFunction, address: int) -> None:
        if address not in function.opened:
            function.inside[address] = _inside(function, address)
            function.opened.add(address)

    def _call(self, function: LinkedFunction, step: ThumbStep, state: Registers) -> set[int]:
        callee = self.functions[function.calls[step.address]]
        sp = state["sp"]
        assert isinstance(sp, Frame)
        given: Registers = {}
        # Other registers hold what was left there; the caller may read them behind a call that does not change them.
        used = self._taken(callee.entry) | self._behind(function, step.address)
        for name in _ARGUMENTS:
            value = state.get(name, DATA)
            if isinstance(value, Frame):
                function.escaped |= {value.at} if name in used else set()
                value = CLEAN
            given[name] = value
        for key, value in state.items():
            if isinstance(key, int) and key >= sp.at:
                if isinstance(value, Frame):
                    function.escaped.add(value.at)
                    value = CLEAN
                given[key - sp.at] = self._read(function, state, key) if value != CLEAN else value
        for name in _LOST:
            state.pop(name, None)
        if callee.result is not None and not callee.obstacle:
            state["r0"] = callee.result
        for offset in callee.overwritten:
            state.pop(sp.at + offset, None)
        if not callee.given:
            callee.given = given
            return {callee.entry}
        joined = {k: _merged(v, given[k]) for k, v in callee.given.items() if k in given}
        joined = {k: v for k, v in joined.items() if v != DATA}
        if joined == {k: v for k, v in callee.given.items() if v != DATA}:
            return set()
        callee.given = joined or {"r0": DATA}
        return {callee.entry}

    def _do(self, function: LinkedFunction, step: ThumbStep, state: Registers, behind: frozenset[int]) -> None:
        """Changes the state as the instruction does, which lies between the ways of the branches ``behind``."""
        old = dict(state) if step.may else {}
        restored: Registers = {}
        if step.moved and step.moves_first:
            _move(function, step, state)
        if step.store:
            self._store(function, step, state, behind)
        if step.load:
            results = self._load(function, step, step.load, state)
            if not step.may:
                pairs = zip(step.writes, results, strict=False)
                restored = {n: v.value for n, v in pairs if isinstance(v, Saved) and v.register == n}
            after = None if step.moves_first else step.moved
            for name, value in zip(step.writes, results, strict=False):
                state[name] = value
            if after and after[0] not in step.writes:
                _move(function, step, state)
        elif step.writes:
            self._compute(function, step, state)
            if step.moved and not step.moves_first:
                _move(function, step, state)
        elif step.moved and not step.moves_first:
            _move(function, step, state)
        written = [*step.writes, *([step.moved[0]] if step.moved else [])]
        for name in written:
            if name == "sp":
                if not isinstance(state.get("sp"), Frame):
                    raise NoBound(f"{function.name} moves the stack pointer by an unknown number")
                continue
            if step.may:
                condition = state if FLAGS not in step.writes else old
                value = _merged(old.get(name, DATA), state.get(name, DATA))
                state[name] = DATA if _is_data(condition.get(FLAGS, DATA)) else value
            if behind:
                state[name] = restored.get(name, DATA)

    def _compute(self, function: LinkedFunction, step: ThumbStep, state: Registers) -> None:
        values = [state.get(each, DATA) for each in step.reads]
        if step.has_float:
            result: Known = DATA
        elif any(_is_data(each) for each in values):
            result = DATA
        else:
            result = _result(step, values)
            if result in (CLEAN, FIXED) or step.writes[:1] == (FLAGS,):
                _escape(function, values, is_compare=step.writes[:1] == (FLAGS,))
        for name in step.writes:
            state[name] = result if name != FLAGS else DATA if result == DATA else CLEAN
        if result == DATA:
            _escape(function, values)

    def _place(self, function: LinkedFunction, access: Access, state: Registers) -> Known:
        """Where memory is accessed: a place in the frame, one of an InFlash, FIXED, CLEAN or DATA."""
        base = CLEAN if access.base == "pc" else state.get(access.base, DATA)
        index = [state.get(each, DATA) for each in access.index]
        if _is_data(base) or any(_is_data(each) for each in index):
            _escape(function, [base, *index])
            return DATA
        if isinstance(base, Frame) and access.offset is not None and all(isinstance(each, int) for each in index):
            return Frame(base.at + access.offset + sum(each for each in index if isinstance(each, int)))
        if isinstance(base, InFlash) and not access.index and access.offset is not None:
            return base.moved(access.offset)
        if any(_is_constant(each) for each in (base, *index)) or all(_is_fixed(each) for each in (base, *index)):
            return FIXED
        _escape(function, [base, *index])
        return CLEAN

    def _load(self, function: LinkedFunction, step: ThumbStep, access: Access, state: Registers) -> list[Known]:
        count = len(step.writes)
        if access.base == "pc":
            return self._literal(step, access)
        place = self._place(function, access, state)
        if isinstance(place, Frame) and access.words:
            return [self._read(function, state, place.at + 4 * i) for i in range(count)]
        if isinstance(place, InFlash) and access.words:
            return [self._word(place.moved(4 * i)) for i in range(count)]
        return [FIXED if place == FIXED or isinstance(place, InFlash) else DATA] * count

    def _word(self, place: InFlash) -> Known:
        """What lies among the constants: an address of others, or something made of constants."""
        if place.at <= self._tables.keys():
            return InFlash(frozenset(self._tables[each] for each in place.at))
        return FIXED

    def _literal(self, step: ThumbStep, access: Access) -> list[Known]:
        if access.index or access.offset is None or len(step.writes) > 1:
            return [CLEAN] * len(step.writes)
        at = ((step.address + 4) & ~3) + access.offset
        if at in self._addresses:
            return [InFlash(frozenset({self._tables[at]})) if at in self._tables else CLEAN]
        word = self._instructions.get(at)
        is_number = word is not None and word.mnemonic == ".word"
        return [int(word.operands, 16) if word and is_number else CLEAN]

    def _read(self, function: LinkedFunction, state: Registers, at: int) -> Known:
        if any(each <= at and (each < 0) == (at < 0) for each in function.escaped):
            return DATA  # of an object as long as may be, of the function's own or of what its caller gave
        return state.get(at, DATA)

    def _store(self, function: LinkedFunction, step: ThumbStep, state: Registers, behind: frozenset[int]) -> None:
        assert step.store is not None
        values = [state.get(each, DATA) for each in step.sources]
        place = self._place(function, step.store, state)
        if not isinstance(place, Frame):
            _escape(function, values)
            return
        count = max(1, step.store.words)
        for i in range(count):
            at = (place.at & ~3) + 4 * i
            value = values[i] if i < len(values) and step.store.words else DATA
            if step.may or behind:
                _escape(function, [value])
                is_lost = step.may or value == DATA or isinstance(value, Saved)
                # A register that is not DATA was not written since the branches.
                value = DATA if is_lost else Saved(step.sources[i], value, behind)
            state[at] = value
            if at >= 0:
                function.overwritten.add(at)


def _is_data(value: Known) -> bool:
    return value == DATA or isinstance(value, Saved)


def _in_reach(state: Registers, behind: frozenset[int]) -> Registers:
    """The state without what was saved behind branches whose ways have met."""
    return {k: v for k, v in state.items() if not (isinstance(v, Saved) and not v.branches <= behind)}


def _merged(one: Known, other: Known) -> Known:
    if one == other:
        return one
    if _is_data(one) or _is_data(other):
        return DATA
    if isinstance(one, InFlash) and isinstance(other, InFlash) and len(one.at | other.at) <= MOST_TABLES:
        return InFlash(one.at | other.at)
    if _is_constant(one) and _is_constant(other):
        return CONSTANTS
    return FIXED if _is_fixed(one) and _is_fixed(other) else CLEAN


def _is_constant(value: Known) -> bool:
    """Whether it is an address of constants."""
    return value == CONSTANTS or isinstance(value, InFlash)


def _is_fixed(value: Known) -> bool:
    """Whether it is made of constants alone."""
    return isinstance(value, int | InFlash) or value in (CONSTANTS, FIXED)


def _join(function: LinkedFunction, old: Registers | None, new: Registers) -> Registers | None:
    """What holds where two ways meet; None if that is what held before."""
    if old is None:
        return dict(new)
    if old["sp"] != new["sp"]:
        raise NoBound(f"{function.name} has two depths of stack at one place")
    joined: Registers = {}
    for key, value in old.items():
        merged = _merged(value, new.get(key, DATA))
        if merged != value:
            _escape(function, [value, new.get(key, DATA)])
        if merged != DATA:
            joined[key] = merged
    return joined if joined != {k: v for k, v in old.items() if v != DATA} else None


def _escape(function: LinkedFunction, values: Iterable[Known], *, is_compare: bool = False) -> None:
    """Addresses of the frame that are no longer followed: what lies there may be written through them."""
    if not is_compare:
        function.escaped |= {value.at for value in values if isinstance(value, Frame)}


def _move(function: LinkedFunction, step: ThumbStep, state: Registers) -> None:
    assert step.moved is not None
    name, by = step.moved
    value = state.get(name, DATA)
    if isinstance(value, Frame):
        if by is None:
            _escape(function, [value])
        state[name] = Frame(value.at + by) if by is not None else CLEAN
    elif isinstance(value, InFlash):
        state[name] = CONSTANTS if by is None else value.moved(by)
    elif isinstance(value, int):
        state[name] = CLEAN
    # Constants stay constants, what is the same in every call stays so, data stay data.


def _result(step: ThumbStep, values: list[Known]) -> Known:
    """What an instruction computes of values that do not depend on data."""
    name = step.name.removesuffix("s").removesuffix("w")
    constant = step.constant
    operands = [*values, *([constant] if constant is not None else [])]
    if name == "adr":
        return CONSTANTS
    if name == "mov":
        return operands[-1] if operands else CLEAN
    if name in ("add", "sub") and len(operands) == 2:
        one, other = operands
        if isinstance(one, InFlash) and isinstance(other, int):
            return one.moved(other if name == "add" else -other)
        if isinstance(other, InFlash) and isinstance(one, int) and name == "add":
            return other.moved(one)
    operands = [CONSTANTS if isinstance(each, InFlash) else each for each in operands]
    if name in ("add", "sub") and len(operands) == 2:
        one, other = operands
        if isinstance(one, Frame) and isinstance(other, int):
            signed = other - (1 << 32) if other >= 1 << 31 else other
            return Frame(one.at + (signed if name == "add" else -signed))
        if isinstance(other, Frame) and isinstance(one, int) and name == "add":
            return Frame(other.at + (one - (1 << 32) if one >= 1 << 31 else one))
        if isinstance(one, int) and isinstance(other, int):
            return (one + other if name == "add" else one - other) & 0xFFFFFFFF
        if (
            CONSTANTS in operands
            and not all(each == CONSTANTS for each in operands)
            and (name == "add" or one == CONSTANTS)
        ):
            return CONSTANTS if not any(isinstance(each, Frame) for each in operands) else CLEAN
    if name in ("add", "sub") and len(operands) == 3 and operands[0] == CONSTANTS:
        return CONSTANTS  # a constant shift of the second operand
    if name in ("lsl", "neg", "rsb", "mvn") and all(isinstance(each, int) for each in operands):
        if name == "lsl" and len(operands) == 2:
            return (int(operands[0]) << int(operands[1])) & 0xFFFFFFFF  # type: ignore[arg-type]
        if name in ("neg", "mvn") and len(operands) == 1:
            return (-int(operands[0]) - (name == "mvn")) & 0xFFFFFFFF  # type: ignore[arg-type]
        if name == "rsb" and len(operands) == 2:
            return (int(operands[1]) - int(operands[0])) & 0xFFFFFFFF  # type: ignore[arg-type]
    # The halves of an address may be anything.
    return FIXED if all(_is_fixed(each) for each in operands) and not name.startswith("mov") else CLEAN


# --- where ways meet


def _meets(function: LinkedFunction) -> dict[int, int]:
    """For each branch the first place that all ways from it lead to: its immediate postdominator."""
    order = _reversed_order(function)
    number = {address: index for index, address in enumerate(order)}
    found: dict[int, int] = {EXIT: EXIT}
    changed = True
    while changed:
        changed = False
        for address in order[1:]:
            ways = [way for way in function.ways[address] if way in found]
            if not ways:
                continue
            meet = ways[0]
            for other in ways[1:]:
                one = meet
                while one != other:
                    while number[one] > number[other]:
                        one = found[one]
                    while number[other] > number[one]:
                        other = found[other]
                meet = one
            if found.get(address) != meet:
                found[address] = meet
                changed = True
    return found


def _reversed_order(function: LinkedFunction) -> list[int]:
    """The exit, then all addresses from which it is reached, each behind one of those it goes on to."""
    before: dict[int, list[int]] = {}
    for address, ways in function.ways.items():
        for way in ways:
            before.setdefault(way, []).append(address)
    seen, post = {EXIT}, []
    stack = [(EXIT, iter(before.get(EXIT, ())))]
    while stack:
        address, rest = stack[-1]
        for each in rest:
            if each not in seen:
                seen.add(each)
                stack.append((each, iter(before.get(each, ()))))
                break
        else:
            post.append(address)
            stack.pop()
    return post[::-1]


def _inside(function: LinkedFunction, branch: int) -> frozenset[int]:
    """What lies between a branch and the place where its ways meet."""
    meet = function.meets.get(branch)
    if meet is None:
        raise NoBound(f"{function.name} does not return")
    found: set[int] = set()
    waiting = list(function.ways[branch])
    while waiting:
        address = waiting.pop()
        if address not in found and address not in (meet, EXIT):
            found.add(address)
            waiting += function.ways[address]
    return frozenset(found)
