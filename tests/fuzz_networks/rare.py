"""Operators and spellings that few networks have; as in ``operators``, each takes the network and a tensor."""

from __future__ import annotations

from math import prod, sqrt
from typing import Any

import numpy as np

from fuzz_networks.network import Network, Value
from fuzz_networks.operators import LARGEST, Extend, last, moved, product_of, windows

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
    return product_of(net, x, lambda a: net.node("MatMul", [weights, a] if is_first else [a, weights]), shape, spread)


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


RARE: dict[Extend, int] = {
    rare_function: 30, scaled_gemm: 20, weights_first: 20, ceiled_pool: 20, rare_reduce: 8, spellings: 30,
}  # fmt: skip
"""How often each is tried, beside ``operators.OPERATORS``."""
