"""What the portable kernels that walk through elements do, counted by kinds of work."""

from __future__ import annotations

from qcgen.ir.program import Operator, Softmax
from qcgen.kernels.cost import Names, Terms, count_bounds, count_pair_lines, new_terms
from qcgen.kernels.kernel import Prepared


def elementwise_terms(_op: Operator, prepared: Prepared) -> Terms:
    """portable/quantize, dequantize."""
    names: Names = prepared.context
    terms, walk = new_terms(), names["walk"]
    terms["call"] = 1
    terms["run"] = walk.size // walk.count
    terms["element" if walk.contiguous else "element with steps"] = walk.size
    return terms


def lookup_terms(op: Operator, prepared: Prepared) -> Terms:
    """portable/lookup: codes of int8 count from -128."""
    names: Names = prepared.context
    terms = elementwise_terms(op, prepared)
    terms["code of int8"] = names["walk"].size * bool(names["first_code"])
    return terms


def binary_terms(_op: Operator, prepared: Prepared) -> Terms:
    """portable/quantized_binary: an element of a sum or product by the line's form."""
    names: Names = prepared.context
    terms, walk = new_terms(), names["walk"]
    terms["call"] = 1
    terms["run"] = walk.size // walk.count
    terms["element" if walk.contiguous else "element with steps"] = walk.size
    count_pair_lines(terms, names, walk.size)
    count_bounds(terms, names, walk.size)
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
