"""What the portable kernels that walk through elements do, counted by kinds of work."""

from __future__ import annotations

from qcgen.ir.program import Operator, Softmax
from qcgen.kernels.cost import Names, Terms, count_pair_lines, new_terms
from qcgen.kernels.kernel import Prepared

SMALL_BLOCK = 16
"""Bytes below which memcpy copies one by one."""


def elementwise_terms(_op: Operator, prepared: Prepared) -> Terms:
    """portable/lookup, quantize, dequantize."""
    names: Names = prepared.context
    terms, walk = new_terms(), names["walk"]
    terms["call"] = 1
    terms["run"] = walk.size // walk.count
    terms["element" if walk.contiguous else "element with steps"] = walk.size
    return terms


def binary_terms(_op: Operator, prepared: Prepared) -> Terms:
    """portable/quantized_binary: an element of a sum or product by the line's form."""
    names: Names = prepared.context
    terms, walk = new_terms(), names["walk"]
    terms["call"] = 1
    terms["run"] = walk.size // walk.count
    terms["element" if walk.contiguous else "element with steps"] = walk.size
    count_pair_lines(terms, names, walk.size)
    return terms


def softmax_terms(op: Operator, prepared: Prepared) -> Terms:
    """portable/softmax: additions and divisions of float32 numbers in integers."""
    assert isinstance(op, Softmax)
    names: Names = prepared.context
    terms = new_terms()
    rows = names["walk"].size
    terms["row"] = rows
    terms["element"] = rows * names["length"]
    return terms


def copy_terms(op: Operator, prepared: Prepared) -> Terms:
    """portable/copy: blocks by memcpy, other elements one by one."""
    names: Names = prepared.context
    terms = new_terms()
    bytes_ = op.y.dtype.bytes
    terms["call"] = 1
    if names["is_whole"]:
        terms["moved byte"] = names["size"] * bytes_
        return terms
    if names["fill"]:
        terms["filled byte" if names["fill"].byte is not None else "filled element"] = names["size"] * (
            bytes_ if names["fill"].byte is not None else 1
        )
    for copy in names["copies"]:
        walk = copy.walk
        runs = walk.size // walk.count
        if copy.is_block:
            small = walk.count * bytes_ < SMALL_BLOCK
            terms["small block" if small else "block"] += runs
            terms["byte of a small block" if small else "byte of a block"] += walk.size * bytes_
        else:
            terms["run"] += runs
            terms["element by element"] += walk.size
    return terms
