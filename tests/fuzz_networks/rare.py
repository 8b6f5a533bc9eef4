"""Operators and spellings that few networks have; as in ``operators``, each takes the network and a tensor."""

from __future__ import annotations

from math import prod, sqrt
from typing import Any

import ml_dtypes
import numpy as np

from fuzz_networks.network import Network, Value
from fuzz_networks.operators import (
    LARGEST,
    Extend,
    conv,
    gemm,
    global_pool,
    last,
    matmul,
    moved,
    pair,
    product_of,
    windows,
)

FUNCTIONS: dict[str, int] = {
    "Celu": 12,
    "Elu": 6,
    "Selu": 6,
    "Mish": 18,
    "Softplus": 1,
    "Log": 6,
    "Pow": 7,
    "Dropout": 7,
}
"""Functions of one number by the opset that has them."""


def rare_function(net: Network, x: Value) -> Value | None:
    name = net.rng.choice([name for name, since in FUNCTIONS.items() if since <= net.opset])
    operands = [net.constant(np.float32(net.pick(2.0, 3.0, 0.5, 1.0, -1.0)))] if name == "Pow" else []
    attributes: dict[str, Any] = {"alpha": net.rng.uniform(0.2, 2)} if name in ("Celu", "Elu") else {}
    return net.between(x, lambda a: net.node(name, [*a, *operands], **attributes), x.shape, x.spread)


def scaled_gemm(net: Network, x: Value) -> Value | None:
    """Gemm with factors, and with its first operand turned."""
    if len(x.shape) != 2:
        return None
    turned, weights_turned = net.pick(0, 1), net.pick(0, 1)
    inner, rows, out = x.shape[1 - turned], x.shape[turned], net.channels()
    rows, inner = (x.shape[1], x.shape[0]) if turned else x.shape
    name, scale, zero, numbers = net.weights((out, inner) if weights_turned else (inner, out), x, None)
    spread = x.spread * float(np.sqrt(np.mean(numbers**2) * inner)) + 1e-9
    bias = net.constant(net.np.normal(0, spread, net.pick((out,), (1, out), (rows, out), (rows, 1))).astype(np.float32))
    weights = net.dequantized_weights(name, scale, zero, None)
    factors = {"alpha": net.pick(None, 0.5, 2.0, 0.7), "beta": net.pick(None, 0.25, 1.0, 3.0)}
    turns = {"transA": turned or None, "transB": weights_turned or None}
    make = lambda a: net.node("Gemm", [a, weights, bias], **factors, **turns)  # noqa: E731
    return last(net, product_of(net, x, make, (rows, out), spread), "code")


def weights_first(net: Network, x: Value) -> Value | None:
    """A product whose first operand is constant, or whose second is a batch of matrices."""
    if len(x.shape) < 2 or max(x.shape[-2:]) > 100:
        return None
    if len(x.shape) == 3 and net.chance(0.4):
        out = net.channels()
        shape, of_weights, inner = (*x.shape[:2], out), (x.shape[0], x.shape[2], out), x.shape[2]
        is_first = False
    else:
        rows = net.channels()
        shape, of_weights, inner = (*x.shape[:-2], rows, x.shape[-1]), (rows, x.shape[-2]), x.shape[-2]
        is_first = True
    if prod(shape) > LARGEST:
        return None
    name, scale, zero, numbers = net.weights(of_weights, x, None)
    spread = x.spread * float(np.sqrt(np.mean(numbers**2) * inner)) + 1e-9
    weights = net.dequantized_weights(name, scale, zero, None)
    y = product_of(net, x, lambda a: net.node("MatMul", [weights, a] if is_first else [a, weights]), shape, spread)
    is_float = is_first and (np.asarray(zero).dtype, x.dtype) == (np.int8, "uint8")  # onnxruntime multiplies them so
    return last(net, y, "code") if is_float else y


def ceiled_pool(net: Network, x: Value) -> Value | None:
    """A pooling whose last window may hang over."""
    rank = len(x.shape) - 2
    if rank not in (1, 2) or net.opset < 10:
        return None
    attributes, kernel, _ = windows(net, x.shape[2:], is_pool=True)
    attributes.pop("dilations", None)
    if "auto_pad" in attributes:
        return None
    strides = attributes.get("strides", [1] * rank)
    pads = attributes.get("pads", [0] * (2 * rank))
    sizes = []
    for a, (n, k, s) in enumerate(zip(x.shape[2:], kernel, strides, strict=True)):
        size = -(-(n + pads[a] + pads[a + rank] - k) // s) + 1
        sizes.append(size - ((size - 1) * s >= n + pads[a]))
    if min(sizes) < 1:
        return None
    shape, op_type = (*x.shape[:2], *sizes), net.pick("MaxPool", "AveragePool")
    return net.between(x, lambda a: net.node(op_type, a, **attributes, ceil_mode=1), shape, x.spread)


def rare_reduce(net: Network, x: Value) -> None:
    """ReduceL2 or LogSoftmax, whose last bits nothing says."""
    if net.chance(0.5):
        if net.opset < 13:
            return
        last(net, net.between(x, lambda a: net.node("LogSoftmax", a, axis=-1), x.shape, 2), "code")
        return
    axis, keep = net.rng.randrange(len(x.shape)), net.pick(0, 1)
    shape = tuple(1 if a == axis else s for a, s in enumerate(x.shape) if keep or a != axis)
    if not shape:
        return
    axes = [net.integers(axis)] if net.opset >= 18 else []
    attributes = {} if axes else {"axes": [axis]}
    make = lambda a: net.node("ReduceL2", [*a, *axes], keepdims=keep, **attributes)  # noqa: E731
    last(net, net.between(x, make, shape, x.spread * sqrt(x.shape[axis])), "code")


def spellings(net: Network, x: Value) -> Value | None:
    """Movements as few write them: Transpose without an order, Gather of one place or of a table of places, ..."""
    kind = net.pick("Transpose", "Gather", "Flatten", "Split", "Expand")
    shape, rank = x.shape, len(x.shape)
    match kind:
        case "Transpose":
            return moved(net, x, lambda a: net.node(kind, a), shape[::-1])
        case "Gather":
            axis, size = net.rng.randrange(rank), net.pick((), (1,), (2, 2), (1, 3))
            places = net.np.integers(-shape[axis] if net.opset >= 11 else 0, shape[axis], size)
            made = (*shape[:axis], *size, *shape[axis + 1 :])
            if not 1 <= len(made) <= 5 or prod(made) > LARGEST:
                return None
            written = axis - rank if net.chance(0.5) else axis
            indices = net.constant(np.asarray(places, net.pick(np.int32, np.int64)))
            return moved(net, x, lambda a: net.node(kind, [*a, indices], axis=written), made)
        case "Flatten":
            axis = net.rng.randint(1, rank)
            if net.opset < 11:
                return None
            made = (prod(shape[: rank - axis]), prod(shape[rank - axis :]))
            return moved(net, x, lambda a: net.node(kind, a, axis=-axis), made)
        case "Split":
            axis = net.rng.randrange(rank)
            if shape[axis] % 2:
                return None
            count = {"num_outputs": 2} if net.opset >= 18 else {}
            made = (*shape[:axis], shape[axis] // 2, *shape[axis + 1 :])
            name = net.node(
                kind, [net.dequantize(x)], outputs=2, axis=axis - rank if net.opset >= 11 else axis, **count
            )
            first = net.quantize(name, Value("", made, x.scale, x.zero, x.dtype, x.spread))
            net.quantize(f"{name}.1", Value("", made, x.scale, x.zero, x.dtype, x.spread))
            return first
        case _:
            wide = [2, *shape] if rank < 5 and net.chance(0.5) else [1] * (rank - 1) + [shape[-1]]
            made = tuple(int(n) for n in np.broadcast_shapes(tuple(wide), shape))
            if prod(made) > LARGEST:
                return None
            return moved(net, x, lambda a: net.node(kind, [*a, net.integers(*wide)]), made, codes=False)


def four_bits(net: Network, x: Value) -> None:
    """Weights of int4 or uint4, with which onnxruntime computes in float32."""
    if net.opset < 21 or len(x.shape) not in (2, 4):
        return
    dtype, low, high = net.pick(("int4", -8, 7), ("uint4", 0, 15))
    attributes: dict[str, Any] = {}
    if len(x.shape) == 2:
        inner, out = x.shape[1], net.channels()
        of_weights, axis, shape, op_type = (inner, out), 1, (x.shape[0], out), "MatMul"
    else:
        attributes, kernel, sizes = windows(net, x.shape[2:])
        out, inner = net.channels(), x.shape[1] * prod(kernel)
        of_weights, axis, shape, op_type = (out, x.shape[1], *kernel), 0, (x.shape[0], out, *sizes), "Conv"
    if prod(shape) > LARGEST or prod(of_weights) > 20_000:
        return
    count = out if net.chance(0.6) else None
    scales = (0.1 * net.np.uniform(0.3, 3, count or 1)).astype(np.float32)
    codes = net.np.integers(low, high + 1, of_weights).astype(np.int8)
    zeros = net.np.integers(low, high + 1, count or 1) if net.chance(0.3) else np.zeros(count or 1)
    small = getattr(ml_dtypes, dtype)
    parameters = [scales, zeros.astype(np.int8).astype(small)]
    parameters = parameters if count else [each[0] for each in parameters]
    weights = net.node(
        "DequantizeLinear",
        [net.constant(codes.astype(small), "w"), *map(net.constant, parameters)],
        axis=axis if count else None,
    )
    spread = x.spread * sqrt(inner) * 0.5
    last(net, product_of(net, x, lambda a: net.node(op_type, [a, weights], **attributes), shape, spread), "code")


def sixteen_bits(net: Network, x: Value) -> None:
    """One operator on codes of 16 bits, made of those of 8: onnxruntime computes it in float32."""
    if net.opset < 21 or len(x.shape) not in (2, 4):
        return
    dtype = net.pick("int16", "uint16")
    zero = 256 * (x.zero - x.low) + (0 if dtype == "uint16" else -(2**15))
    like = Value("", (), float(np.float32(x.scale / 256)), zero, dtype, x.spread)
    wide = net.between(x, lambda a: a[0], x.shape, x.spread, like=like)
    extend = net.pick(*((gemm, matmul) if len(x.shape) == 2 else (conv, global_pool, pair)))
    integer, net.integer = net.integer, 0.0
    made = extend(net, wide)
    net.integer = integer
    net.values.remove(wide)
    if made is None:
        net.outputs.append(net.dequantize(wide))
    else:
        last(net, made, "code")


def quotient(net: Network, x: Value) -> None:
    """A float32 quotient of two tensors; some divisors are 0."""
    same = [value for value in net.values if value.shape == x.shape and value.dtype == x.dtype]
    y = net.rng.choice(same)
    last(net, net.between([x, y], lambda ab: net.node("Div", ab), x.shape, x.spread / (y.spread + 1e-9)), "code")


def recurrent(net: Network, x: Value) -> None:
    """GRU or LSTM in float32 between codes."""
    if len(x.shape) != 3 or net.opset < 7 or x.shape[0] > 8 or x.shape[1] > 3:
        return
    length, batch, inner = x.shape
    units, op_type, direction = net.pick(1, 2, 3, 5), net.pick("GRU", "LSTM"), net.pick("forward", "reverse")
    gates = 3 if op_type == "GRU" else 4
    shapes = [(1, gates * units, inner), (1, gates * units, units), (1, 2 * gates * units)]
    names = [net.constant(net.np.normal(0, 0.4, shape).astype(np.float32)) for shape in shapes]
    attributes: dict[str, Any] = {"hidden_size": units, "direction": direction}
    if op_type == "GRU" and net.chance(0.5):
        attributes["linear_before_reset"] = 1
    shape = (length, 1, batch, units)
    made = net.between(x, lambda a: net.node(op_type, [*a, *names], **attributes), shape, 0.4)
    last(net, made, "code")


RARE: dict[Extend, int] = {
    rare_function: 30, scaled_gemm: 20, weights_first: 20, ceiled_pool: 20, rare_reduce: 8, spellings: 30,
    four_bits: 20, sixteen_bits: 20, quotient: 10, recurrent: 20,
}  # fmt: skip
"""How often each is tried, beside ``operators.OPERATORS``."""
