"""How the outputs of a plane's rows are summed: which of its words are loaded and multiplied with which weights."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from qcgen.kernels.arm_dsp.kernel_words import KernelWords
from qcgen.kernels.plane import PlaneAxis

MAX_WORDS = 6  # words of weights that registers hold besides four sums, two words of the image and pointers
COLUMNS = {1: 4, 2: 2}  # columns that are summed at the same time, by how many rows are: four sums,
SPILLED_SUMS = 6  # or more sums where weights are loaded for each of their uses anyway
MAX_PARTS = 4  # up to so many times in a loop,
WHOLE_PARTS = 8  # or up to so many times if that saves the loop;
SPILLED_PARTS = 2  # so many at most if not all weights stay in registers
LOAD_COST = {1: 3, 2: 4}  # cycles and instructions of one word and of two side by side


@dataclass(frozen=True)
class Product:
    """``sum`` += the product of a word of the plane with word ``weight`` of the kernel, by the primitive ``by``."""

    sum: str
    by: str
    weight: int


@dataclass(frozen=True)
class Load:
    """Words of a plane that lie side by side, ``index`` words behind ``row_start``, and the products of each."""

    row_start: int
    index: int
    words: tuple[tuple[Product, ...], ...]


@dataclass(frozen=True)
class Part:
    """Outputs that are summed at the same time; ``sums`` is each sum and where its code goes, in C."""

    sums: tuple[tuple[str, str], ...]
    loads: tuple[Load, ...]

    @property
    def products(self) -> int:
        """How many multiplications there are."""
        return sum(len(word) for load in self.loads for word in load.words)


@dataclass(frozen=True)
class Group:
    """``outputs`` columns in ``parts``, one after the other; ``count`` groups, each ``step`` words on."""

    outputs: int
    count: int
    step: int
    parts: tuple[Part, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The variables that words are loaded to."""
        most = max(len(load.words) for part in self.parts for load in part.loads)
        return tuple(f"word{i}" for i in range(most))


@dataclass(frozen=True)
class Walk:
    """``lines`` rows of outputs that are summed together, in ``groups``; ``left`` words are left to the next rows."""

    lines: int
    groups: tuple[Group, ...]
    left: int


@dataclass(frozen=True)
class Planes:
    """What the walks have in common: the kernel, its axes and the words of a plane's row."""

    kernel: KernelWords
    height: PlaneAxis
    width: PlaneAxis
    row_words: int


def lines_of(planes: Planes) -> int:
    """Two rows of outputs are summed at the same time if that saves more than a tenth of the loads.

    It does where they share two rows of the image, in strides of 1. Weights are needed at two places then, so they have
    to stay in registers.
    """
    if planes.height.output == 1 or len(planes.kernel.words) > MAX_WORDS:
        return 1
    return 2 if _load_cost(planes, 2) < 0.9 * _load_cost(planes, 1) else 1


def _load_cost(planes: Planes, lines: int) -> float:
    """What loading words of the image takes for each output."""
    part = _part(planes, lines, range(min(COLUMNS[lines], planes.width.output)))
    return sum(LOAD_COST[len(load.words)] for load in part.loads) / len(part.sums)


def walk_of(planes: Planes, lines: int) -> Walk:
    """The outputs of ``lines`` rows: all at once if they are few, else in groups and what these leave over."""
    outputs = planes.width.output
    if len(planes.kernel.words) <= MAX_WORDS:
        divided = _divided(outputs, COLUMNS[lines], MAX_PARTS, WHOLE_PARTS)
    else:
        has_more = planes.width.stride == 1 or outputs <= SPILLED_SUMS
        divided = _divided(outputs, SPILLED_SUMS if has_more else COLUMNS[lines], SPILLED_PARTS, SPILLED_PARTS)
    groups = tuple(_group(planes, lines, columns, count) for columns, count in divided)
    read = sum(group.step * group.count for group in groups)
    return Walk(lines, groups, lines * planes.height.stride * planes.row_words - read)


def _divided(outputs: int, columns: int, most: int, whole: int) -> Iterable[tuple[list[int], int]]:
    """The columns of each part of a group, and how many groups there are: loops of up to ``most`` parts, or none."""
    wholes, rest = divmod(outputs, columns)
    parts = min(range(most, 1, -1), key=lambda n: wholes % n)
    looped = wholes // parts if wholes > whole else 0
    alone = [columns] * (wholes - looped * parts) + [rest] * (rest > 0)
    return [([columns] * parts, looped)] * (looped > 0) + [(alone, 1)] * (len(alone) > 0)


def _group(planes: Planes, lines: int, sizes: list[int], count: int) -> Group:
    firsts = [sum(sizes[:i]) for i in range(len(sizes))]
    parts = tuple(_part(planes, lines, range(first, first + n)) for first, n in zip(firsts, sizes, strict=True))
    return Group(sum(sizes), count, sum(sizes) * planes.width.stride // 2, parts)


def _part(planes: Planes, lines: int, columns: range) -> Part:
    height, width = planes.height, planes.width
    words: dict[tuple[int, int], list[Product]] = {}
    sums: list[tuple[str, str]] = []
    for line in range(lines):
        for column in columns:
            name = f"sum{lines * columns.start + len(sums)}"
            sums.append((name, _place(line, column)))
            for row in range(height.kernel):
                y = line * height.stride + row * height.dilation
                for word, by, weight in planes.kernel.products(row, column * width.stride):
                    words.setdefault((y, word), []).append(Product(name, by, weight))
    return Part(tuple(sums), tuple(_loads(planes, words)))


def _loads(planes: Planes, words: dict[tuple[int, int], list[Product]]) -> Iterable[Load]:
    """The words in the order in which they are loaded, two at a time where they lie side by side."""
    while words:
        y, first = min(words)
        together = [(y, word) for word in (first, first + 1) if (y, word) in words]
        yield Load(y * planes.row_words, first, tuple(tuple(words.pop(key)) for key in together))


def _place(line: int, column: int) -> str:
    terms = ["out", *(["OUT_ROW"] if line else []), *([f"{column} * CHANNELS"] if column else [])]
    return " + ".join(terms)
