"""What portable/copy does, counted by kinds of work."""

from __future__ import annotations

from typing import Any

import numpy as np

from qcgen.ir.program import Int64s, Operator
from qcgen.kernels.cost import Names, Terms, new_terms
from qcgen.kernels.kernel import Prepared
from qcgen.kernels.walk import Walk

WORD = 4
SHORT, INLINE, ROUNDS = 16, 32, 64
"""Bytes: below SHORT memcpy copies one by one; gcc for Arm copies up to INLINE itself, up to ROUNDS in a loop."""
PEELED = 16
"""Up to so many rounds of a loop of one statement compilers write out."""

BLOCKS = ("short block", "repeated short block", "block", "repeated block", "block in rounds", "block by a call")


def block_kind(size: int, is_repeated: bool) -> str:
    """How a block of so many bytes is copied; one that is copied to several places in a row may be loaded once.

    >>> [block_kind(size, False) for size in (8, 32, 33, 65)], block_kind(16, True)
    (['short block', 'block', 'block in rounds', 'block by a call'], 'repeated block')
    """
    if size > ROUNDS:
        return "block by a call"
    if size > INLINE:
        return "block in rounds"
    return "repeated " * is_repeated + "short " * (size < SHORT) + "block"


def copy_terms(op: Operator, prepared: Prepared) -> Terms:
    """portable/copy: blocks by memcpy, other elements one by one."""
    names: Names = prepared.context
    terms, element = new_terms(), op.y.dtype.bytes
    terms["call"] = 1
    for kind in BLOCKS:
        terms[kind] = terms[f"move of a {kind}"] = terms[f"byte of an unaligned {kind}"] = 0
    terms["byte of a short block"] = terms["unaligned block by a call"] = 0
    if names["is_whole"]:
        terms["moved byte"] = names["size"] * element
        return terms
    if names["fill"]:
        is_bytes = names["fill"].byte is not None
        terms["filled byte" if is_bytes else "filled element"] = names["size"] * (element if is_bytes else 1)
    for copy in names["copies"]:
        if copy.is_block:
            _count_blocks(terms, prepared, copy.walk, element)
        else:
            _count_elements(terms, copy.walk)
    return terms


def _count_blocks(terms: Terms, prepared: Prepared, walk: Walk, element: int) -> None:
    """Moves are of four, two and one byte; a library that moves no unaligned words moves bytes."""
    blocks, size = walk.size // walk.count, walk.count * element
    kind = block_kind(size, bool(walk.outer) and not any("X_STEP" in number.name for number in walk.outer[-1].numbers))
    unaligned = blocks * (1 - _aligned(prepared, walk, element))
    terms["row of blocks"] += _rows(walk)
    terms[kind] += blocks
    terms[f"move of a {kind}"] += blocks * (size // WORD + size % WORD // 2 + size % 2)
    terms[f"byte of an unaligned {kind}"] += unaligned * size
    terms["byte of a short block"] += blocks * size * (size < SHORT)
    terms["unaligned block by a call"] += unaligned * (size > ROUNDS)


def _count_elements(terms: Terms, walk: Walk) -> None:
    way = "in a short run" if walk.count <= PEELED else "in a run"
    terms[way.removeprefix("in a ")] += walk.size // walk.count
    terms[f"element {way}"] += walk.size
    terms["row of runs"] += _rows(walk)


def _rows(walk: Walk) -> int:
    """How often the innermost of the outer loops starts."""
    return walk.size // walk.count // walk.outer[-1].numbers[0].value if walk.outer else 0


def _aligned(prepared: Prepared, walk: Walk, element: int) -> float:
    """The share of blocks that begin at a multiple of four bytes, in x and in y, if both tensors do."""
    x, y = (element * _starts(prepared, walk, name) % WORD for name in ("x", "y"))
    return float(((x == 0) & (y == 0)).mean())


def _starts(prepared: Prepared, walk: Walk, tensor: str) -> Int64s:
    """Where the runs of a tensor begin: elements from its first one."""
    numbers = {number.name: number.value for loop in walk.outer for number in loop.numbers}
    numbers |= {number.name: number.value for number in walk.numbers}
    tables: dict[str, Any] = {table.role: table.values for table in prepared.constants}
    starts = np.array(numbers.get(f"{tensor.upper()}_FIRST", 0), np.int64)
    terms = {term.variable: term for run in walk.runs if run.tensor == tensor for term in run.terms}
    for loop in walk.outer:
        steps = np.zeros(loop.numbers[0].value, np.int64)
        if loop.variable in terms:
            term = terms[loop.variable]
            steps = tables[term.table] if term.table else np.arange(steps.size) * numbers[term.step]
        starts = np.add.outer(starts, steps)
    return starts
