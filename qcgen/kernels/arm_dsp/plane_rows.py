"""How the outputs of a plane's rows are summed: which of its words are loaded and multiplied with which weights."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from qcgen.kernels.arm_dsp.kernel_words import KernelWords
from qcgen.kernels.windows import OutputGroups, PlaneAxis

MAX_WORDS = 6  # words of weights that registers hold besides four sums, two words of the image and pointers
SUMS = 4  # outputs that are summed at the same time,
SPILLED_SUMS = 6  # or more where weights are loaded for each of their uses anyway
MAX_PARTS = 4  # up to so many times in a loop,
WHOLE_PARTS = 8  # or up to so many times if that saves the loop;
SPILLED_PARTS = 2  # so many at most if not all weights stay in registers


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
class PartedGroups(OutputGroups):
    """Columns in ``parts``, one after the other; ``step`` is in words."""

    parts: tuple[Part, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The variables that words are loaded to."""
        most = max(len(load.words) for part in self.parts for load in part.loads)
        return tuple(f"word{i}" for i in range(most))


@dataclass(frozen=True)
class RowLoops:
    """A row of outputs, in ``groups``; ``left`` words are left to the next row of windows."""

    groups: tuple[PartedGroups, ...]
    left: int


@dataclass(frozen=True)
class Planes:
    """What the loops have in common: the kernel, its axes and the words of a plane's row."""

    kernel: KernelWords
    height: PlaneAxis
    width: PlaneAxis
    row_words: int


def row_loops(planes: Planes) -> RowLoops:
    """The outputs of a row: all at once if they are few, else in groups and what these leave over."""
    outputs = planes.width.output
    if len(planes.kernel.words) <= MAX_WORDS:
        divided = _divided(outputs, SUMS, MAX_PARTS, WHOLE_PARTS)
    else:
        has_more = planes.width.stride == 1 or outputs <= SPILLED_SUMS
        divided = _divided(outputs, SPILLED_SUMS if has_more else SUMS, SPILLED_PARTS, SPILLED_PARTS)
    groups = tuple(_group(planes, columns, count) for columns, count in divided)
    read = sum(group.step * group.count for group in groups)
    return RowLoops(groups, planes.height.stride * planes.row_words - read)


def _divided(outputs: int, columns: int, most: int, whole: int) -> Iterable[tuple[list[int], int]]:
    """The columns of each part of a group, and how many groups there are: loops of up to ``most`` parts, or none."""
    wholes, rest = divmod(outputs, columns)
    parts = min(range(most, 1, -1), key=lambda n: wholes % n)
    looped = wholes // parts if wholes > whole else 0
    alone = [columns] * (wholes - looped * parts) + [rest] * (rest > 0)
    return [([columns] * parts, looped)] * (looped > 0) + [(alone, 1)] * (len(alone) > 0)


def _group(planes: Planes, sizes: list[int], count: int) -> PartedGroups:
    firsts = [sum(sizes[:i]) for i in range(len(sizes))]
    parts = tuple(_part(planes, range(first, first + n)) for first, n in zip(firsts, sizes, strict=True))
    return PartedGroups(sum(sizes), count, sum(sizes) * planes.width.stride // 2, parts)


def _part(planes: Planes, columns: range) -> Part:
    words: dict[tuple[int, int], list[Product]] = {}
    sums: list[tuple[str, str]] = []
    for column in columns:
        name = f"sum{column}"
        sums.append((name, f"out + {column} * CHANNELS" if column else "out"))
        for row in range(planes.height.kernel):
            for word, by, weight in planes.kernel.products(row, column * planes.width.stride):
                words.setdefault((row * planes.height.dilation, word), []).append(Product(name, by, weight))
    return Part(tuple(sums), tuple(_loads(planes, words)))


def _loads(planes: Planes, words: dict[tuple[int, int], list[Product]]) -> Iterable[Load]:
    """The words in the order in which they are loaded, two at a time where they lie side by side."""
    while words:
        y, first = min(words)
        together = [(y, word) for word in (first, first + 1) if (y, word) in words]
        yield Load(y * planes.row_words, first, tuple(tuple(words.pop(key)) for key in together))
