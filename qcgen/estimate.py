"""How much code the functions of a plan become, without a compiler: operations in their text, and bytes for each.

The text is expanded as gcc does with -O2: what is inlined counts where it is called, functions that are alike once. The
bytes of an operation are a number for each kernel and core, measured by ``python -m tests.bench.prices``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

from qcgen.ir.plan import Call, Plan
from qcgen.library import without_comments
from qcgen.plan.prices import ANY_KERNEL, price
from qcgen.render import bodies, needed
from qcgen.render.c_functions import CFunction, functions

CALL_BYTES = 10
"""A call in NAME_run, with its arguments."""

OPERATOR = 0.3
"""What an operator in C counts beside a statement: many are part of an address or of another instruction."""

SMALL = 20
"""Operations of a function that gcc inlines wherever it is called, though nothing asks for it."""

OUTPUT_STEP = {"multiply_high_add": 4.0, "within_guard": 5.0}
"""What calls of functions of the library count wherever they are: compilers fold their numbers, or load them."""

_REGISTER = re.compile(r"register [^;]*;")
_ASSEMBLY = re.compile(r"__asm__\s*(?:volatile)?\s*\((.*?)\);", re.DOTALL)
_INSTRUCTION = re.compile(
    r'\.irp \w+,(?P<values>[^"\\]*)|\.rept (?P<times>\d+)|(?P<end>\.endr)|\b(?P<macro>[A-Z][A-Z0-9_]+)\b'
    r'|(?:"(?!memory"|cc"|lr"|r\d+")|\\n)(?:\s|\\t)*[a-z]{2,}\b'
)
_MACRO = re.compile(r"^#define (\w+)(?:\([^)]*\))?((?:.*\\\n)*.*)$", re.MULTILINE)
_WITHOUT_CODE = re.compile(r"enum \{.*?\};|^\s*(?:const )?u?int\d+_t \w+(?:, \w+)*;$", re.MULTILINE | re.DOTALL)
_OPERATOR = re.compile(r"[-+*&|^<>]=?|=|\?|\[")
_CALL = re.compile(r"\b(\w+)\(")
_STRUCT = re.compile(r"static const struct \w+ (\w+) = (\{.*?\});", re.DOTALL)
_TAKEN = re.compile(r"&(\w+)")


@dataclass(frozen=True)
class _FunctionText:
    """``operations``: what its own text counts; ``calls`` by name, once for each place.

    ``has_layer``: a parameter is a struct, which has the numbers of a layer.
    """

    head: str
    body: str
    operations: float
    calls: Counter[str]
    has_layer: bool


def code_bytes(plan: Plan) -> tuple[int, ...]:
    """Of each call of a plan, then of all that belongs to none, built with gcc -O2.

    A function that layers share counts in equal parts for each of them.
    """
    *own, rest = operations(plan)
    target = plan.options.target
    calls = (
        round(each * price(target, call.kernel, call.optimize).code) for each, call in zip(own, plan.calls, strict=True)
    )
    entries = sum(len(stream.turns) + len(stream.above) + len(stream.below) for stream in plan.streams)
    return (*calls, round(rest * ANY_KERNEL.code) + CALL_BYTES * (len(plan.steps) + 4 * entries))


def operations(plan: Plan, *, joins: bool = True) -> tuple[float, ...]:
    """Of the functions of each call, those that it shares in equal parts, then of all that belong to none.

    ``joins``: of functions that are alike the first one counts, as gcc makes them one unless it is told not to.
    """
    texts = bodies(plan)
    folded = {index: _named(plan.prefix, call) for index, call in enumerate(plan.calls)}
    text = _Text(
        {None: needed(plan, texts), **{index: [text] for index, text in enumerate(texts)}}, folded, joins=joins
    )
    sums = [0.0] * (len(plan.calls) + 1)
    for name, count in text.alone.items():
        owner = text.owners[name]
        shared = None if owner is None else plan.calls[owner].shared
        if owner is None:
            sums[-1] += count
        elif plan.calls[owner].operations is not None:
            continue
        elif shared is not None and name.startswith(shared.symbol):
            for index in (index for index, call in enumerate(plan.calls) if call.shared == shared):
                sums[index] += count / len(shared.nodes)
        else:
            sums[owner] += count
    for index, call in enumerate(plan.calls):
        sums[index] += (call.operations or 0.0) / (1 if call.shared is None else len(call.shared.nodes))
    return tuple(sums)


def _named(prefix: str, call: Call) -> dict[str, float]:
    """Of a call what it says of the library's functions and of its own, by the names that they have in a file."""
    own = call.symbol if call.shared is None else call.shared.symbol
    spelt = (f"{prefix}_{{}}", f"{prefix}_{{}}_s8", f"{prefix}_{{}}_u8", f"{own}_{{}}")
    folded = {**OUTPUT_STEP, **call.folded}
    return {each.format(name): count for name, count in folded.items() for each in spelt}


class _Text:
    """The functions of C texts by their owners, and how much each becomes that is not inlined.

    ``folded``: of an owner those of the library whose calls count so much in its functions.
    """

    def __init__(
        self,
        texts: Mapping[int | None, Sequence[str]],
        folded: Mapping[int, Mapping[str, float]] | None = None,
        *,
        joins: bool = True,
    ) -> None:
        self._folded = folded or {}
        self._joins = joins
        self.owners: dict[str, int | None] = {}
        self._functions: dict[str, _FunctionText] = {}
        macros: dict[str, str] = {}
        self._structs: dict[str, str] = {}
        for owner, own in texts.items():
            text = _compiled("".join(own))
            macros |= _MACRO.findall(text)
            self._structs |= _STRUCT.findall(text)
            for each in functions(text):
                self.owners[each.name] = owner
                self._functions[each.name] = _function(each, macros)
        self._sizes: dict[str, tuple[float, frozenset[str]]] = {}
        self._meanings: dict[str, str] = {}

    @cached_property
    def alone(self) -> dict[str, float]:
        """The functions that are not inlined, one of those that are alike, with their operations."""
        return {name: self._size(name) for name in self._different if not self._is_inlined(name)}

    @cached_property
    def _different(self) -> tuple[str, ...]:
        """The first of the functions that are alike: gcc makes them one before it inlines what is called once."""
        first: dict[str, str] = {}
        for name in self._functions:
            first.setdefault(self._meaning(name), name)
        return tuple(first.values())

    @cached_property
    def _places(self) -> Counter[str]:
        """How many calls each function has by what it means, functions that are alike taken as one."""
        places: Counter[str] = Counter()
        for name in self._different:
            for callee, count in self._functions[name].calls.items():
                if callee in self._functions:
                    places[self._meaning(callee)] += count
        return places

    def _meaning(self, name: str) -> str:
        """The body with what its functions and structs are in place of their names: equal for those gcc makes one."""
        if not self._joins:
            return name
        if name not in self._meanings:
            body = _TAKEN.sub(lambda found: self._structs.get(found[1], found[0]), self._functions[name].body)
            meant = _CALL.sub(
                lambda found: f"{self._meaning(found[1])}(" if found[1] in self._functions else found[0], body
            )
            self._meanings[name] = f"f{sha256(meant.encode()).hexdigest()}"
        return self._meanings[name]

    def _size(self, name: str) -> float:
        """Of a function with all that is inlined into it."""
        own, once = self._parts(name)
        return own + sum(max(self._parts(each)[0] - 1, 0.0) for each in once)

    def _parts(self, name: str) -> tuple[float, frozenset[str]]:
        """What a function counts without those of the library that count once, however often it calls them.

        These take a layer's numbers, for which compilers fold them: of calls and branches most vanish.
        """
        if name not in self._sizes:
            self._sizes[name] = 0.0, frozenset()  # no function calls itself
            function = self._functions[name]
            own, once = function.operations, frozenset[str]()
            owner = self.owners[name]
            folded = {} if owner is None else self._folded.get(owner, {})
            for callee, count in function.calls.items():
                if callee in folded:
                    own += max(folded[callee] - 1, 0.0) * count
                    continue
                if callee not in self._functions:
                    continue
                if not self._is_inlined(callee):
                    own += count
                    continue
                size, of_library = self._parts(callee)
                once |= of_library
                if self.owners[callee] is None and size >= SMALL and self._functions[callee].has_layer:
                    once |= {callee}
                else:
                    own += max(size - 1, 0.0) * count
            self._sizes[name] = own, once
        return self._sizes[name]

    def _is_inlined(self, name: str) -> bool:
        """Whether gcc puts a function where it is called: what is called once, what is small, what asks for it."""
        head = self._functions[name].head
        places = self._places[self._meaning(name)]
        if "_NOINLINE" in head or "_SHARED" in head:
            return False
        if "inline" in head.lower():
            return True  # where it is handed over, too
        return places == 1 or (places > 1 and self._size(name) < SMALL)


def _compiled(text: str) -> str:
    """The text without comments, and of alternatives for other cores or compilers the first one alone."""
    lines: list[str] = []
    taken: list[bool] = []
    for line in without_comments(text).splitlines():
        word = line.strip()
        if word.startswith("#if"):
            taken.append(True)
        elif word.startswith(("#else", "#elif")):
            taken[-1] = False
        elif word.startswith("#endif"):
            taken.pop()
        elif all(taken):
            lines.append(line)
    return "\n".join([*lines, ""])


def _instructions(assembly: str, macros: Mapping[str, str]) -> float:
    """How many instructions a statement of assembly has, those of macros and of repetitions included."""
    total, times = 0.0, 1
    for found in _INSTRUCTION.finditer(assembly.split(": [")[0]):
        if found["values"]:
            times = found["values"].count(",") + 1
        elif found["times"]:
            times = int(found["times"])
        elif found["end"]:
            times = 1
        else:
            total += times * (_instructions(macros.get(found["macro"], ""), macros) if found["macro"] else 1)
    return total


def _function(function: CFunction, macros: Mapping[str, str]) -> _FunctionText:
    text = _REGISTER.sub("", function.body)
    instructions = sum(_instructions(each, macros) for each in _ASSEMBLY.findall(text))
    plain = _WITHOUT_CODE.sub("", _ASSEMBLY.sub("", text))
    operations = instructions + plain.count(";") + OPERATOR * len(_OPERATOR.findall(plain))
    return _FunctionText(
        function.head, function.body, operations, Counter(_CALL.findall(plain)), "struct " in function.listed
    )
