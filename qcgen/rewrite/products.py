"""Products of matrices in all their spellings, and what is added to them or scales them."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from string import ascii_letters

import numpy as np

from qcgen.ir.graph import Node
from qcgen.ir.types import Q8, Array, DType
from qcgen.rewrite.quantization import dequantized, is_quantize, quantization_of
from qcgen.rewrite.wiring import CAST_TO_FLOAT, Change, Steps, Wiring

# A product of two computed matrices whose operands are scaled is scaled behind: onnxruntime's products have a factor.


def scale_behind_product(wiring: Wiring, node: Node) -> Change | None:
    """(s a) (t b) u becomes (a b) (s t u), for numbers s, t, u; division by a number is multiplication by 1 over it.

    Source: MatMulScaleFusion, tried with 1.32.0.
    """
    if not node.is_a("MatMul") or node.in_float or any(wiring.constant(name) is not None for name in node.inputs):
        return None
    if _is_of_codes(wiring, node) or _becomes_gemm(wiring, node):
        return None
    inputs, last, factor, steps = node.inputs, node, np.float32(1), list[Node]()
    while True:
        before = [_scaled(wiring, wiring.producers.get(name)) for name in inputs]
        before = [None if each is None or _is_scaled_product(wiring, each[1]) else each for each in before]
        behind = _scaled(wiring, wiring.only_reader(last.outputs[0]))
        found = [each for each in (*before, behind) if each is not None]
        if not found:
            break
        for step, _, by in found:
            factor, steps = np.float32(factor * by), [*steps, step]
        inputs = tuple(name if each is None else each[1] for name, each in zip(inputs, before, strict=True))
        last = last if behind is None else behind[0]
    if not steps or (len(steps) == 1 and last.op_type == "Mul"):
        return None
    product, number = wiring.fresh(f"{node.name}_product"), wiring.fresh(f"{node.name}_factor")
    joined = Node(node.name, "MatMul", "", inputs, (product,), {})
    scaled = Node(wiring.fresh(f"{node.name}_scaled"), "Mul", "", (product, number), last.outputs, {})
    return Change(last, (joined, scaled), (node,), {number: np.asarray(factor)})


def _is_scaled_product(wiring: Wiring, name: str) -> bool:
    """Whether a tensor is a product of floats that is read once: it is what is scaled, not what reads it."""
    maker = wiring.producers.get(name)
    if maker is None or not maker.is_a("MatMul") or wiring.only_reader(name) is None:
        return False
    return not _is_of_codes(wiring, maker)


def _is_of_codes(wiring: Wiring, product: Node) -> bool:
    """Whether onnxruntime has MatMulIntegerToFloat."""
    return all(dequantized(wiring, name) is not None for name in product.inputs)


def _scaled(wiring: Wiring, node: Node | None) -> tuple[Node, str, np.float32] | None:
    """A node that multiplies by a constant number, what it multiplies, and that number; None if it does not."""
    if node is None or not node.is_a("Mul", "Div"):
        return None
    for index in (0, 1) if node.op_type == "Mul" else (1,):
        number, other = wiring.floats(node.input(index)), wiring.graph.value(node.input(1 - index)).shape
        if number is not None and number.size == 1 and number.ndim <= len(other or ()):
            value = np.float32(number.reshape(()))
            return node, node.input(1 - index), value if node.op_type == "Mul" else np.float32(1) / value
    return None


# MatMul followed by a bias is Gemm.


def join_matmul_add(wiring: Wiring, node: Node) -> Change | None:
    """MatMul of a dequantized matrix with one of numbers or codes that are constant, then Add of such a vector.

    Data with other than two axes is reshaped before and behind a Gemm, as in onnxruntime: there float weights can
    become codes, and those of a bias are added. Source: MatMulAddFusion of onnxruntime.
    """
    add = wiring.only_reader(node.outputs[0])
    if not node.is_a("MatMul") or node.in_float or add is None or not add.is_a("Add"):
        return None
    (a, b), bias = node.inputs, add.input_beside(node.outputs[0])
    x, rows, w = dequantized(wiring, a), wiring.graph.value(a), wiring.graph.value(b).fixed_shape
    found, by = dequantized(wiring, bias), dequantized(wiring, b)
    if x is None or wiring.constant(b if by is None else by.codes) is None or w is None or len(w) != 2:
        return None
    if wiring.constant(bias if found is None else found.codes) is None or wiring.graph.value(bias).shape != w[1:]:
        return None
    if rows.shape is not None and len(rows.shape) == 2:
        return Change(add, (Node(node.name, "Gemm", "", (a, b, bias), add.outputs, {}),), remove=(node,))
    if rows.fixed_shape is None:
        return None
    steps, shape = Steps(wiring, node), np.array([*rows.fixed_shape[:-1], w[1]], np.int64)
    to_rows = steps.constant("matrix_shape", np.array([-1, rows.fixed_shape[-1]], np.int64))
    matrix, product = steps.step("Reshape", a, to_rows, role="matrix_reshape"), steps.fresh("product")
    gemm = Node(node.name, "Gemm", "", (matrix, b, bias), (product,), {})
    back = product, steps.constant("shape", shape)
    reshape = Node(steps.fresh("product_reshape"), "Reshape", "", back, add.outputs, {})
    return Change(add, (*steps.nodes, gemm, reshape), remove=(node,), constants=steps.constants)


def add_behind_gemm(wiring: Wiring, node: Node) -> Change | None:
    """Gemm of which B or C is computed: C is added behind it; not to alpha * A * B of a computed B: rounded at once."""
    alpha, beta, addend = node.number("alpha", 1.0), node.number("beta", 1.0), node.input(2)
    if not node.is_a("Gemm") or not addend:
        return None
    has_weights, has_bias = (wiring.constant(name) is not None for name in node.inputs[1:3])
    if wiring.graph.dtype(node.inputs[0]) is not DType.FLOAT32 or (has_bias if has_weights else alpha != 1):
        return None
    steps = Steps(wiring, node)
    product = steps.again("Gemm", *node.inputs[:2], beta=1.0)
    if beta != 1:
        addend = steps.step("Mul", addend, steps.constant("beta", np.asarray(beta, np.float32)))
    steps.step("Add", product, addend, is_last=True)
    return steps.change()


def write_out_gemm(wiring: Wiring, node: Node) -> Change | None:
    """Gemm of a computed B, without C: MatMul of the matrices, or of their codes, transposed, and alpha.

    Alpha scales the result, or the numbers of A where onnxruntime sums up codes: if both have zero points.
    """
    if not node.is_a("Gemm") or node.input(2) or wiring.constant(node.input(1)) is not None:
        return None
    alpha, steps, operands = node.number("alpha", 1.0), Steps(wiring, node), list(node.inputs[:2])
    makers = [wiring.graph.dequantizer(name) for name in operands]
    is_whole = alpha > 0 and all(maker is not None and maker.input(2) for maker in makers)
    factors = np.float32(alpha if is_whole else 1), np.float32(1)
    for place, (maker, factor) in enumerate(zip(makers, factors, strict=True)):
        by = None if maker is None else quantization_of(wiring, maker)
        codes = maker.inputs[0] if maker is not None and by is not None and by.is_per_tensor else ""
        moved = codes or operands[place]
        if node.attributes.get(("transA", "transB")[place], 0):
            moved = steps.step("Transpose", moved, perm=(1, 0))
        if by is not None and codes and (moved != codes or factor != 1):
            scale = steps.constant(f"scale_{place}", by.scale * factor)
            moved = steps.step("DequantizeLinear", moved, scale, by.zero_point_name)
        operands[place] = operands[place] if moved == codes else moved
    product = steps.step("MatMul", *operands, is_last=is_whole or alpha == 1)
    steps.nodes[-1] = replace(steps.nodes[-1], in_float=all(makers) and not is_whole)
    if alpha != 1 and not is_whole:
        steps.step("Mul", product, steps.constant("alpha", np.asarray(alpha, np.float32)), is_last=True)
    return steps.change()


def widen_vectors(wiring: Wiring, node: Node) -> Change | None:
    """The product with a vector that is constant, or dequantized, is that with a matrix of one row or column."""
    if not node.is_a("MatMul") or len(node.inputs) != 2:
        return None
    shape, operands, steps = wiring.graph.value(node.outputs[0]).fixed_shape, list(node.inputs), Steps(wiring, node)
    for axis, name in enumerate(node.inputs):
        if _is_vector(wiring, name):
            operands[axis] = steps.step("Unsqueeze", name, steps.constant(f"axis_{axis}", np.array([axis], np.int64)))
    if shape is None or tuple(operands) == node.inputs:
        return None
    product, to = steps.fresh("product"), steps.constant("shape", np.array(shape, np.int64))
    steps.nodes.append(replace(node, inputs=tuple(operands), outputs=(product,)))
    steps.step("Reshape", product, to, is_last=True, role="reshape")
    return steps.change()


def _is_vector(wiring: Wiring, name: str) -> bool:
    found = dequantized(wiring, name)
    constant = wiring.constant(name if found is None else found.codes)
    return constant is not None and constant.ndim == 1


# Weights of few bits in blocks are unpacked, and their product is one of float32 numbers.


def write_out_blocks(wiring: Wiring, node: Node) -> Change | None:
    """MatMulNBits of constant weights (N, blocks, bytes), the lowest bits first: A times their float32 numbers (K, N).

    Scales (N, blocks), zero points packed likewise, the middle of the codes without them. Not of an accuracy_level that
    quantizes A. Source: com.microsoft.MatMulNBits-1, and onnxruntime 1.32.0 on which numbers it multiplies.
    """
    if (node.domain, node.op_type) != ("com.microsoft", "MatMulNBits") or node.input(4):
        return None
    k, n, block = (node.integer(name, 0) for name in ("K", "N", "block_size"))
    bits, level = node.integer("bits", 4), node.integer("accuracy_level", 0)
    packed, scales, zeros = (wiring.constant(node.input(index)) for index in (1, 2, 3))
    if packed is None or scales is None or scales.dtype != np.float32 or level > 1 or bits not in (2, 4, 8):
        return None
    if min(k, n, block) < 1 or (node.input(3) and zeros is None):
        return None
    blocks = -(-k // block)
    if scales.size != n * blocks or packed.size * 8 != n * blocks * block * bits:
        return None
    codes = _unpacked(packed.reshape(n, -1), bits)[:, : blocks * block].reshape(n, blocks, block)
    zero = np.full((n, blocks), 1 << (bits - 1))
    if zeros is not None:
        is_plain = zeros.dtype == np.float32
        if zeros.size != n * (blocks if is_plain else -(-blocks * bits // 8)):
            return None
        zero = zeros if is_plain else _unpacked(zeros.reshape(n, -1), bits)[:, :blocks]
    difference = codes.astype(np.float32) - zero.reshape(n, blocks, 1).astype(np.float32)
    numbers = (difference * scales.reshape(n, blocks, 1)).reshape(n, -1)[:, :k]
    steps, bias = Steps(wiring, node), node.input(5)
    product = steps.step("MatMul", node.inputs[0], steps.constant("weights", numbers.T.copy()), is_last=not bias)
    if bias:
        steps.step("Add", product, bias, is_last=True)
    return steps.change()


def _unpacked(packed: Array, bits: int) -> Array:
    """Codes of few bits, along the last axis, of bytes that hold several."""
    parts = [packed >> shift & ((1 << bits) - 1) for shift in range(0, 8, bits)]
    return np.stack(parts, axis=-1).reshape(*packed.shape[:-1], -1)


# Einsum of one tensor is a sum, of two a product of matrices.


def write_out_einsum(wiring: Wiring, node: Node) -> Change | None:
    """Einsum: of one tensor ReduceSum and Transpose, of two the MatMul of matrices (m, terms) by (terms, n).

    Letters of an operand differ, and each is one of the other operand or of the result. onnxruntime adds in this order.
    """
    text = node.text("equation", "").replace(" ", "")
    terms, _, y = text.partition("->")
    letters, shapes = terms.split(","), [wiring.graph.value(name).fixed_shape for name in node.inputs]
    known = [shape for shape in shapes if shape is not None]
    if not node.is_a("Einsum") or "->" not in text or not len(letters) == len(shapes) == len(known):
        return None
    spare, most = "".join(letter for letter in ascii_letters if letter not in text), 0
    for place, (names, shape) in enumerate(zip(letters, known, strict=True)):
        if "..." in names:  # axes that stand for themselves, the last ones of the longest
            count = len(shape) - len(names) + len("...")
            most, letters[place] = max(most, count), names.replace("...", spare[:count][::-1])
    if most and "..." not in y:
        return None
    y = y.replace("...", spare[:most][::-1])
    if [len(each) for each in letters] != list(map(len, known)) or not "".join((*letters, y, "a")).isalpha():
        return None
    pairs = {pair for names, shape in zip(letters, known, strict=True) for pair in zip(names, shape, strict=True)}
    sizes, steps = dict(pairs), Steps(wiring, node)
    if len(pairs) > len(sizes) or any(len({*names}) < len(names) for names in (*letters, y)) or not {*y} <= {*sizes}:
        return None

    def ordered(name: str, has: str, wanted: str, is_last: bool = False) -> str:
        if has == wanted and not is_last:
            return name
        return steps.step("Transpose", name, is_last=is_last, perm=tuple(has.index(letter) for letter in wanted))

    def shaped(name: str, *groups: str) -> str:
        if len(m) == len(terms) == len(n) == 1:
            return name
        to = np.array([prod(sizes[letter] for letter in group) for group in groups], np.int64)
        return steps.step("Reshape", name, steps.constant(f"shape_{len(steps.nodes)}", to))

    if len(letters) == 1:
        gone = np.array([index for index, letter in enumerate(letters[0]) if letter not in y], np.int64)
        left = "".join(letter for letter in letters[0] if letter in y)
        x = steps.step("ReduceSum", node.inputs[0], steps.constant("axes", gone), keepdims=0) if gone.size else ""
        ordered(x or node.inputs[0], left, y, is_last=True)
        return steps.change()
    if len(letters) != 2 or not {*sizes} <= {*y} | ({*letters[0]} & {*letters[1]}):
        return None
    a, b = letters
    both, terms = ["".join(each for each in a if each in b and (each in y) == is_kept) for is_kept in (True, False)]
    m, n = ("".join(each for each in one if each not in other) for one, other in ((a, b), (b, a)))
    rows = shaped(ordered(node.inputs[0], a, both + m + terms), *both, m, terms)
    columns = shaped(ordered(node.inputs[1], b, both + terms + n), *both, terms, n)
    product = steps.step("MatMul", rows, columns)
    steps.nodes[-1] = replace(steps.nodes[-1], name=node.name, in_float=True, written=node.operator)
    ordered(shaped(product, *both, *m, *n), both + m + n, y, is_last=True)
    steps.nodes[-1] = replace(steps.nodes[-1], name=steps.fresh("ordered"), written="")
    return steps.change()


# Products of onnxruntime's optimizer that end in float become the operators that they were made of.


def write_out_products(wiring: Wiring, node: Node) -> Change | None:
    """DynamicQuantizeMatMul of a constant matrix, and MatMulIntegerToFloat: sum * (a_scale * b_scale) + bias.

    Each operation is rounded by itself, as in onnxruntime.
    """
    if node.domain != "com.microsoft" or any(node.outputs[1:]):
        return None
    steps = Steps(wiring, node)
    if node.op_type == "DynamicQuantizeMatMul":
        x, b, b_scale, b_zero, bias = (node.input(index) for index in range(5))
        if wiring.constant(x) is not None or wiring.graph.value(x).dtype is not DType.FLOAT32:
            return None
        a, a_scale, a_zero = found = tuple(steps.fresh(role) for role in ("codes", "scale", "zero_point"))
        steps.nodes.append(Node(steps.fresh("quantize"), "DynamicQuantizeLinear", "", (x,), found, {}))
    elif node.op_type == "MatMulIntegerToFloat":
        a, b, a_scale, b_scale, a_zero, b_zero, bias = (node.input(index) for index in range(7))
    else:
        return None
    matrix = wiring.constant(b)
    is_weights = matrix is not None and matrix.ndim == 2
    if not (is_weights or node.op_type == "MatMulIntegerToFloat") or not a_scale or not b_scale:
        return None
    sums = steps.step("MatMulInteger", a, b, a_zero, b_zero)
    numbers = steps.step("Cast", sums, to=CAST_TO_FLOAT)
    unit = steps.step("Mul", a_scale, b_scale)
    scaled = steps.step("Mul", numbers, unit, is_last=not bias)
    if bias:
        steps.step("Add", scaled, bias, is_last=True)
    return steps.change()


def sum_up_codes(wiring: Wiring, node: Node) -> Change | None:
    """MatMul of two dequantized tensors that stays float: sums of codes, times the product of the scales.

    onnxruntime makes MatMulIntegerToFloat of it, but not of int8 by uint8, nor where a QuantizeLinear is among the
    readers, nor where it has made a Gemm of it and of an Add before. Source: models as 1.32.0 optimizes them.
    """
    if not node.is_a("MatMul") or len(node.inputs) != 2 or node.in_float:
        return None
    makers = [wiring.graph.dequantizer(name) for name in node.inputs]
    found = [quantization_of(wiring, maker) for maker in makers if maker is not None and not maker.in_float]
    ends = [by for by in found if by is not None and by.dtype in Q8]
    if len(ends) < 2 or [by.dtype for by in ends] == [DType.INT8, DType.UINT8] or not ends[0].is_per_tensor:
        return None
    a, b = (maker.inputs[0] for maker in makers if maker is not None)
    matrix, shape = wiring.constant(b), wiring.graph.value(node.outputs[0]).shape
    is_of_columns = matrix is not None and matrix.ndim == 2 and ends[1].axis == 1
    if not (ends[1].is_per_tensor or is_of_columns) or {a, b} & wiring.graph.narrow or shape is None:
        return None
    readers = wiring.readers.get(node.outputs[0], ())
    if any(is_quantize(reader) for reader in readers) or _becomes_gemm(wiring, node):
        return None
    with np.errstate(over="ignore", under="ignore"):
        scale = ends[0].scale * ends[1].scale
    if not (np.isfinite(scale) & (scale > 0)).all():
        return None
    steps, sums = Steps(wiring, node), wiring.fresh(f"{node.outputs[0]}_sums")
    codes = (a, b, *(by.names[1] for by in ends))
    steps.nodes.append(Node(node.name, "MatMulInteger", "", codes, (sums,), {}, written=node.operator))
    unit = steps.constant("scale", np.asarray(scale))
    steps.step("DequantizeLinear", sums, unit, is_last=True, role="dequantize", axis=len(shape) - 1)
    return steps.change()


def _becomes_gemm(wiring: Wiring, node: Node) -> bool:
    """Whether onnxruntime joins a MatMul with the Add behind it, whatever is added. Source: MatMulAddFusion."""
    add = wiring.only_reader(node.outputs[0])
    if add is None or not add.is_a("Add"):
        return False
    names = (*node.inputs, add.input_beside(node.outputs[0]))
    a, b, addend = (wiring.graph.value(name).fixed_shape for name in names)
    if not a or b is None or len(b) != 2:
        return False
    return addend == b[1:] or (len(a) == 2 and addend in ((1, b[1]), (a[0], 1), (a[0], b[1])))
