"""Checks a certificate of qcgen against its model, from the formulas in quantization.md alone.

Nothing of qcgen is used: this walks through the model, finds what every tensor can hold and what every quantized
operator computes, and then compares the certificate's integers with that, at both sides of every step. It ends with
status 0 and the number of points compared, or with status 1 and what is wrong. certificate.md describes the file.
"""

import argparse
import functools
import hashlib
import json
import sys
from decimal import Context, Decimal
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

f32, INT32 = np.float32, (-(2**31), 2**31 - 1)
MOVES = "Reshape Flatten Squeeze Unsqueeze Identity Transpose Concat Slice Split Pad Resize Gather Expand Tile".split()
MOVES += ["DepthToSpace", "SpaceToDepth"]
CHOICES = ("GlobalMaxPool", "ReduceMax", "ReduceMin")


def run(node, inputs):
    """What a node of ONNX's own makes of arrays, None for what it does not read."""
    return ReferenceEvaluator(node).run(None, {name: x for name, x in zip(node.input, inputs) if name})


def attributes(node):
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


class Wrong(Exception):
    """The certificate, or the model, is not what this program can confirm."""


class InFloat(Exception):
    """An operator between DequantizeLinear and QuantizeLinear is computed in float: any code may come of it."""


def need(holds, what):
    if not np.all(holds):
        raise Wrong(what)


# ---- the formulas ----


def requantize(acc, scale, zero, low, high):  # (1)
    return np.rint(np.clip(acc.astype(f32) * scale, f32(low - zero), f32(high - zero))).astype(np.int64) + zero


def quantize(x, scale, zero, low, high):  # (9)
    v = f32(x) / f32(scale)
    clamped = np.clip(np.where(np.isnan(v), f32(low - zero), v), f32(low - zero), f32(high - zero))
    return np.rint(clamped).astype(np.int64) + zero


def fma(a, b, c):  # (8): the sum is rounded to odd in float64, so that the rounding to float32 is the only one
    product, c = np.float64(a) * np.float64(b), np.float64(c)
    total = np.asarray(product + c)
    part = total - product
    lost = (product - (total - part)) + (c - part)
    beside = np.nextafter(total, np.where(lost > 0, np.inf, -np.inf))
    return np.where((lost != 0) & (total.view(np.int64) % 2 == 0), beside, total).astype(f32)


def add(a, b, a_by, b_by, y_by, low, high):  # (11), (12)
    r_a, r_b = f32(a_by[0]) / f32(y_by[0]), f32(b_by[0]) / f32(y_by[0])
    constant = f32(y_by[1]) - fma(r_a, a_by[1], r_b * f32(b_by[1]))
    return np.clip(np.rint(fma(a, r_a, fma(b, r_b, constant))), low, high).astype(np.int64)


def multiply(a, b, a_by, b_by, y_by, low, high):  # (13)
    ratio = f32(a_by[0]) * f32(b_by[0]) / f32(y_by[0])
    value = f32((a - a_by[1]) * (b - b_by[1])) * ratio + f32(y_by[1])
    return np.clip(np.rint(value), low, high).astype(np.int64)


def mean(total, count, y_by, low, high):  # the end of (15)
    return np.clip(np.rint(total / f32(count) / f32(y_by[0]) + f32(y_by[1])), low, high).astype(np.int64)


def rational(x, bound, p, q):  # x p(x^2) / q(x^2) with x clamped, Horner's rule with fma
    x = np.clip(x, f32(-bound), f32(bound))
    top, bottom = np.full_like(x, p[0]), np.full_like(x, q[0])
    for c in p[1:]:
        top = fma(top, x * x, f32(c))
    for c in q[1:]:
        bottom = fma(bottom, x * x, f32(c))
    return top * x / bottom


def logistic(x):  # (19)
    p = (4.37031012579801e-11, 1.15627324459942e-07, 6.08574864600143e-05, 8.51377133304701e-03, 2.48287947061529e-01)
    q = (6.10247389755681e-13, 5.76102136993427e-09, 6.29106785017040e-06, 1.70198817374094e-03, 1.16817656904453e-01)
    return np.maximum(rational(x, 18, p, (*q, 9.93151921023180e-01)) + f32(0.5), f32(0))


def tanh(x):  # (25)
    p = (-2.76076847742355e-16, 2.00018790482477e-13, -8.60467152213735e-11, 5.12229709037114e-08, 1.48572235717979e-05)
    q = (1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03)
    return rational(x, 9, (*p, 6.37261928875436e-04, 4.89352455891786e-03), q)


def horner(x, coefficients, step=lambda total, x, c: total * x + c):
    total = np.full_like(x, coefficients[0])
    for c in coefficients[1:]:
        total = step(total, x, f32(c))
    return total


def power(p, m):  # p * 2^m, rounded once
    return np.ldexp(np.float64(p), m.astype(np.int64)).astype(f32)


def exponential(x):  # (26)
    x, m = reduced(np.clip(x, f32(-103.9720840454), f32(88.7762626647950)))
    c = ("0x1.694p-10", "0x1.125edcp-7", "0x1.555b5ap-5", "0x1.55545p-3", "0x1.fffff6p-2", "0x1p0", "0x1p0")
    return power(horner(x, [float.fromhex(v) for v in c], fma), m)


def reduced(x):  # x - m ln 2 and m, the integer next to x / ln 2
    big = f32(1.5 * 2**23)
    m = fma(x, f32(1.44269504088896341), big) - big
    return fma(m, f32(-1.42860677e-6), fma(m, f32(-6.93145752e-1), x)), m


def eigen_exp(x):  # the exponential of (27) and (28), nothing fused
    r = np.clip(x, f32(-105), f32(88.723))
    m = np.floor(r * f32(1.44269504088896341) + f32(0.5))
    for part in (-0.693359375, 2.12194440e-4):
        r = m * f32(part) + r
    even = horner(r * r, (1.37449637986719608306884765625e-3, 4.166965186595916748046875e-2, 0.499999880790710449))
    odd = horner(r * r, (8.36894474923610687255859375e-3, 0.16666518151760101318359375))
    p = r * r * (r * odd + even) + (r + f32(1))
    return np.where(x < -104, f32(0), np.maximum(power(p, m), x))


def eigen_log(x):  # of finite x > 0, nothing fused
    mantissa, e = np.frexp(x)
    is_low = mantissa < f32(0.707106781186547524)
    v = (mantissa - f32(1)) + np.where(is_low, mantissa, f32(0))
    p = v * horner(v, (0.18256296349849254, 1.0000000190281063, 1.0000000190281136))
    q = horner(v, (0.049616247954120038, 0.59923249590823520, 1.4999999999999927, 1.0))
    return (e - is_low).astype(f32) * f32(0.69314718055994531) + p / q


def log1p(x):  # the logarithm of (28), 0 <= x <= 1
    above = x + f32(1)
    return np.where(above == 1, x, x * (eigen_log(above) / np.where(above == 1, f32(1), above - f32(1))))


def logarithm(x):  # (63)
    usual = (x > 0) & np.isfinite(x)
    return np.where(usual, eigen_log(np.where(usual, x, f32(1))), np.log(np.where(usual, f32(1), x)))


def softplus(x):  # (28)
    return np.maximum(x, f32(0)) + log1p(eigen_exp(-np.abs(x)))


def selu(x, a):  # (60)
    alpha, gamma = f32(a.get("alpha", 1.67326319217681884765625)), f32(a.get("gamma", 1.05070102214813232421875))
    return np.where(x > 0, gamma * x, gamma * alpha * (eigen_exp(x) - f32(1)))


def celu(x, a):  # (61)
    alpha = f32(a.get("alpha", 1.0))
    return np.maximum(x, f32(0)) + np.minimum(alpha * (eigen_exp(x / alpha) - f32(1)), f32(0))


def erf(x):  # (64)
    a = np.minimum(np.abs(x), f32(3.925))
    p = (-5.99104969e-4, 4.99339588e-3, -2.67667342e-2, 1.12818025e-1, -3.76124859e-1, 1.28379151e-1)
    q = (1.72948930e-5, -3.83208680e-4, 3.88393435e-3, -2.42545605e-2, 1.06777847e-1, 6.34846687e-1, 1.28717512e-1)
    e = (1.38319808e-3, 8.37550033e-3, 4.16689515e-2, 1.66664466e-1, 4.99999851e-1, 1.0, 1.0)
    rest, m = reduced(-fma(horner(a, q, fma), a, a))
    big = f32(1) - power(horner(rest, e, fma), m)
    return np.copysign(np.where(a > f32(0.921875), big, fma(horner(a * a, p, fma), a, a)), x)


def gelu(x, a):  # (65) and (66)
    b = f32(0.7978845608028654)
    by_tanh = a.get("approximate", b"none") in (b"tanh", "tanh")
    inner = tanh(x * (b + f32(0.044715) * b * x * x)) if by_tanh else erf(x * f32(0.7071067811865476))
    return f32(0.5) * x * (inner + f32(1))


def real_power(x, y):  # (67)
    if y.size == 1 and y in (2, 3):
        return x * x if y == 2 else x * x * x
    return np.vectorize(one_power, [f32])(x, y)


def one_power(x, y):
    plain = np.power(np.float64(x), np.float64(y))
    if not np.isfinite(plain) or plain == 0 or abs(x) == 1:
        return f32(plain)
    exact = Context(prec=60, traps=[]).power(abs(Decimal(float(x))), Decimal(float(y)))
    near = f32(float(exact))  # float32 numbers around it: the nearest, and of two the even one
    with np.errstate(over="ignore"):
        around = [np.nextafter(near, f32(0)), near, np.nextafter(near, f32(np.inf))]
    gaps = [(abs(Decimal(float(v)) - exact), int(v.view(np.uint32)) & 1, v) for v in around if np.isfinite(v)]
    return np.copysign(min(gaps)[2] if np.isfinite(near) else near, f32(plain))


def hard_sigmoid(x, a):  # (29)
    return np.clip(f32(a.get("alpha", 0.2)) * x + f32(a.get("beta", 0.5)), f32(0), f32(1))


def shrink(x, a):
    bias, lambd = f32(a.get("bias", 0.0)), f32(a.get("lambd", 0.5))
    return np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, f32(0)))


POINTWISE = {
    "Abs": lambda x, _: np.abs(x),
    "Neg": lambda x, _: -x,
    "Exp": lambda x, _: exponential(x),
    "Elu": lambda x, a: np.where(x >= 0, x, f32(a.get("alpha", 1.0)) * (eigen_exp(x) - f32(1))),  # (27)
    "Softplus": lambda x, _: softplus(x),
    "Mish": lambda x, _: x * tanh(softplus(x)),
    "Selu": selu,
    "Celu": celu,
    "Softsign": lambda x, _: x * (f32(1) / (f32(1) + np.abs(x))),  # (62)
    "Log": lambda x, _: logarithm(x),
    "Erf": lambda x, _: erf(x),
    "Gelu": gelu,
    "QuickGelu": lambda x, a: x * logistic(x * f32(a.get("alpha", 1.702))),
    "Cos": lambda x, _: f32(np.cos(x.astype(np.float64))),
    "Sin": lambda x, _: f32(np.sin(x.astype(np.float64))),
    "Ceil": lambda x, _: np.ceil(x),
    "Floor": lambda x, _: np.floor(x),
    "Reciprocal": lambda x, _: f32(1) / x,
    "Round": lambda x, _: np.rint(x),
    "Shrink": shrink,
    "Sign": lambda x, _: np.sign(x),
    "Sqrt": lambda x, _: np.sqrt(x),
    "ThresholdedRelu": lambda x, a: np.where(x > f32(a.get("alpha", 1.0)), x, f32(0)),
    "Relu": lambda x, _: np.maximum(x, f32(0)),
    "LeakyRelu": lambda x, a: np.where(x >= 0, x, f32(a.get("alpha", 0.01)) * x),  # (20)
    "Sigmoid": lambda x, _: logistic(x),
    "Tanh": lambda x, _: tanh(x),
    "HardSigmoid": hard_sigmoid,
    "HardSwish": lambda x, _: x * hard_sigmoid(x, {"alpha": 1 / 6}),  # (30)
}
BINARY = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
    "Pow": real_power,
    "PRelu": lambda x, slope: np.where(x < 0, slope * x, x),
}
ARITHMETIC, SUMS = ("Add", "Sub", "Mul", "Div"), ("ConvInteger", "MatMulInteger")
CONDITIONS = {
    "And": np.logical_and,
    "Equal": np.equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Not": np.logical_not,
    "Or": np.logical_or,
    "Where": lambda condition, x, y: np.where(condition != 0, x + f32(0), y),
}
FOLDED = {"Max": np.maximum, "Min": np.minimum}


def words(v):
    """The bits of float32 numbers."""
    return np.asarray(v, f32).reshape(-1).view(np.uint32).astype(np.int64)


# ---- output steps: equations (5) and (6) ----


def covers(given, lo, hi):
    """Whether intervals [lowest], [highest] hold others."""
    least, most = (np.array(v, np.int64) for v in given)
    return least.shape == lo.shape and (least <= lo).all() and (hi <= most).all()


def check_step(e, scale, zero, lo, hi, exact_code=None):
    """Compares the integers of an output step with (1), or another formula, at both sides of all its steps."""
    low, high, s = e["low"], e["high"], e["shift"]
    roles = ("addend", "multiplier", "offset", "guard_band", "mantissa", "exponent", "limit_low", "limit_high")
    numbers = {role: np.array(e[role])[:, None] for role in roles if role in e}
    need([v.shape == (len(lo), 1) for v in numbers.values()], "every channel has its numbers")
    lo, hi = lo[:, None], hi[:, None]
    scale = None if exact_code else np.asarray(scale, f32).reshape(-1, 1)
    exact_code = exact_code or (lambda acc: requantize(acc, scale, zero, low, high))
    codes = np.arange(low + 1, high + 1)
    below, above = lo - 1 + 0 * codes, hi + 1 + 0 * codes
    while (above - below > 1).any():  # thresholds, by bisection on (1)
        middle = (below + above) >> 1
        reached = exact_code(middle) >= codes
        below, above = np.where(reached, below, middle), np.where(reached, middle, above)
    points = np.clip(np.concatenate([lo, hi, above, above - 1], axis=1), lo, hi)
    want = exact_code(points)
    if scale is not None and ("mantissa" in e or e["form"] == "soft-float" or np.any(e["guard_band"])):
        exact = np.ldexp(np.float64(e["mantissa"]), np.array(e["exponent"]) + e["k"])
        need(exact == np.broadcast_to(scale[:, 0], exact.shape), "the scale is mantissa * 2^exponent")
    need(e["word"] == 32 - e["k"] * (e["form"] == "multiply-high") or e["form"] == "split", "word")
    need(e["form"] in ("multiply-high", "soft-float") or e["k"] == 0, "k")
    need(e["form"] == "wide" or e["prescale"] == 0, "prescale")
    a = (points << e["k"]) + numbers["addend"]
    need((INT32[0] <= a) & (a <= INT32[1]), "accumulators stay within int32")
    if e["form"] == "soft-float":
        return points.size  # by (4), which is (1)
    m, offset, window = numbers["multiplier"], numbers["offset"], numbers["guard_band"]
    product = a.astype(object) * m  # Python's integers: nothing wraps
    need((m >= 0) & (m < 2**31) & (window >= 0) & (s >= 0) & (s < 31), "the numbers fit their tables")
    if e["form"] == "multiply-high":
        h, parts = (product >> 32) + offset, [offset]
    elif e["form"] == "split":
        upper, lower = m >> e["word"], m & ((1 << e["word"]) - 1)
        h, parts = a * upper + (a * lower >> e["word"]) + offset, [a * upper, a * lower, offset]
    elif e["form"] == "wide":
        need(np.abs(product + offset) < 2**63, "products stay within int64")
        h, parts = (product + offset) >> e["prescale"], []
    else:
        need(e["form"] == "narrow", "the form is known")
        product = np.clip(a, np.array(e["limit_low"])[:, None], np.array(e["limit_high"])[:, None]) * m
        h, parts = product + offset, [product, offset]
    for part in (h, *parts):
        need((INT32[0] <= part) & (part <= INT32[1]), "everything stays within int32")
    h = h.astype(np.int64)
    # How far h is on the wrong side of the step below its code, or of the one above.
    short = np.where(want > low, (want << s) - h, 0).max(axis=1, initial=0)
    beyond = np.where(want < high, h - ((want + 1) << s) + 1, 0).max(axis=1, initial=0)
    guard = window[:, 0]
    always = guard >= max(1, 1 << max(s - 1, 0))
    need((np.maximum(short, beyond) <= guard) | always, "the line is exact outside its guard bands")
    if "fast" in e:
        check_fast(e["fast"], e, h - offset, want, guard > 0, short, beyond)
    return points.size


def check_fast(f, e, h, want, guarded, short, beyond):
    """The same step in the form that kernels for one machine compile."""
    s = e["shift"]
    need(len(f["offset"]) == len(h), "every channel has its fast offset")
    h = h + np.array(f["offset"])[:, None]
    codes = np.clip((np.clip(h, f["least"], f["most"]) + f["half"]) >> s, f["low"], f["high"])

    def is_guarded(h):
        if f["guard"]:
            return ((h + f["guard"]) & f["mask"]) == 0
        return np.abs(((h << (32 - s)) + 2**31) % 2**32 - 2**31) >= f["limit"]

    need((INT32[0] <= h) & (h + f["guard"] <= INT32[1]), "the fast step stays within int32")
    need((codes == want)[~guarded], "the fast step is exact")
    if guarded.any() and (f["guard"] or f["limit"]):
        need(((codes == want) | is_guarded(h))[guarded], "the fast step is exact or leaves it to the exact one")
        missed = np.arange(-short[guarded].max(), beyond[guarded].max()) - f["half"]
        need(is_guarded(missed) & (missed.size < 2**s) & (f["mask"] < 2**s), "its test finds all that the line misses")


def check_pairs(e, want, terms, low, high):
    """Compares the integers of a sum or product with its codes at every pair of codes; returns the points."""
    name = e["node"]
    if e["form"] == "table":
        need(np.array_equal(e["values"], want), f"{name}: values")
        return want.size
    lines = ("line", "split line", "even window", "split even window", "exceptions")
    need(e["form"] in lines, f"{name}: the form is known")
    need(len(e["slopes"]) == len(e["fine_slopes"]) == len(terms), f"{name}: slopes")
    window, s, mask = e["window"] or 0, e["shift"], (1 << e["shift"]) - 1
    fine = sum(t * m for t, m in zip(terms, e["fine_slopes"])) + e["fine_offset"]
    h = sum(t * m for t, m in zip(terms, e["slopes"])) + e["offset"] + (fine >> e["fine_shift"]) + window
    most = sum(np.abs(t).max() * abs(m) for t, m in zip(terms, e["slopes"])) + abs(e["offset"]) + (1 << s)
    rest = sum(np.abs(t).max() * abs(m) for t, m in zip(terms, e["fine_slopes"])) + abs(e["fine_offset"])
    most += (rest >> e["fine_shift"]) + 1 + 2 * window
    need(rest < 2**31 and most < 2**31, f"{name}: int32 holds all sums")
    codes = h >> s
    if e["window"] is not None:
        codes = codes - (codes & 1 & ((h & mask) <= 2 * window))
    codes = np.clip(codes, low, high)
    apart = np.abs(((h + (1 << s >> 1)) & mask) - (1 << s >> 1))
    need(apart[e["exceptions"]] <= e["exception_window"], f"{name}: exceptions lie next to a step")
    need(len(e["exceptions"]) == len(e["values"]), f"{name}: values")
    codes[e["exceptions"]] = e["values"]
    need(codes == want, f"{name}: every pair of codes gives the output's code")
    return want.size


# ---- the model ----


class Codes:
    """What a tensor's elements can be, arrays of its shape, the bounds of its type, and what the codes mean."""

    def __init__(self, lo, hi, bounds, scale=None, zero=0):
        self.lo, self.hi, self.bounds, self.scale, self.zero = lo, hi, bounds, scale, zero

    def but(self, lo, hi):
        return Codes(lo, hi, self.bounds, self.scale, self.zero)

    @property
    def by(self):
        return self.scale, self.zero

    @property
    def all(self):
        return np.unique(self.lo) if self.lo is self.hi else np.arange(self.bounds[0], self.bounds[1] + 1)


def taps(x, kernel, a, fill):
    """What each tap of a window reads of x (N, C, ...), windows in the order of the output."""
    n, size = len(kernel), x.shape[2:]
    strides, dilations = a.get("strides", [1] * n), a.get("dilations", [1] * n)
    extents = [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]
    pads, auto = list(a.get("pads", [0] * 2 * n)), a.get("auto_pad", b"NOTSET")
    if auto.startswith(b"SAME"):
        total = [max(0, (-(-i // s) - 1) * s + e - i) for i, s, e in zip(size, strides, extents)]
        begin = [(t + (auto == b"SAME_LOWER")) // 2 for t in total]
        pads = [*begin, *(t - b for t, b in zip(total, begin))]
    up = a.get("ceil_mode", 0)
    places = [i + b + e - x for i, b, e, x in zip(size, pads[:n], pads[n:], extents)]
    out = [min(-(-p // s) if up else p // s, (i + b - 1) // s) + 1 for p, s, i, b in zip(places, strides, size, pads)]
    ends = [max((o - 1) * s + e - i - b, 0) for o, s, e, i, b in zip(out, strides, extents, size, pads)]
    x = np.pad(x, [(0, 0), (0, 0), *zip(pads[:n], ends)], constant_values=fill)
    for tap in np.ndindex(*kernel):
        first = [t * d for t, d in zip(tap, dilations)]
        yield x[(slice(None), slice(None), *(slice(f, f + (o - 1) * s + 1, s) for f, o, s in zip(first, out, strides)))]


def cut(graph, outputs):
    """Leaves of a graph what the tensors ``outputs`` depend on, which become its outputs."""
    needed = set(outputs)
    for node in reversed(graph.node):  # a valid model computes before it reads
        needed.update(node.input if not needed.isdisjoint(node.output) else ())
    nodes = list(graph.node)
    names, kept = unique_names(nodes), []
    for node in nodes:
        if not needed.isdisjoint(node.output):
            kept.append(onnx.NodeProto())
            kept[-1].CopyFrom(node)
            kept[-1].name = names[id(node)]
    del graph.node[:], graph.output[:]
    graph.node.extend(kept)
    graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in outputs)


def in_8_bits(values):
    """Weights of 4 bits as numpy's own integers of 8 bits: the same numbers."""
    return values.astype({"int4": np.int8, "uint4": np.uint8}.get(values.dtype.name, values.dtype))


class Joint:
    """A table that does what several nodes do, whose names are ``joined``: which of them it passed on its way back."""

    def __init__(self, e):
        self.node, self.joined, self.passed, self.tensors = e["node"], e["joined"], set(), set()
        need(e["kind"] == "table" and len(self.joined) > 0, f"{self.node}: joined names the nodes that a table joins")
        need(len({*self.joined, self.node}) == len(self.joined) + 1, f"{self.node}: joined names each node once")

    def passes(self, names):
        self.passed.update(names)
        return not {*self.joined, self.node}.isdisjoint(names)


class Model:
    """Walks through a model, and compares each entry of the certificate with what it finds."""

    def __init__(self, path, entries, in_float, outputs=()):
        proto, self.in_float = onnx.load(path), set(in_float)
        if outputs:
            cut(proto.graph, outputs)
        self.types = {v.name: v for v in [*onnx.shape_inference.infer_shapes(proto, data_prop=True).graph.value_info]}
        self.types |= {v.name: v for v in [*proto.graph.input, *proto.graph.output]}
        self.constants = {i.name: in_8_bits(numpy_helper.to_array(i)) for i in proto.graph.initializer}
        self.nodes, self.outputs = proto.graph.node, {v.name for v in proto.graph.output}
        self.made = {name: node for node in self.nodes for name in node.output}
        self.read = {name: [n for n in self.nodes if name in n.input] for node in self.nodes for name in node.output}
        self.names = unique_names(self.nodes)
        self.entries = {e["node"]: e for e in entries}
        need(len(self.entries) == len(entries), "every node has one entry")
        self.joints = {e["node"]: Joint(e) for e in entries if "joined" in e}
        self.given, self.left_out = set(self.entries), []
        self.absorbed = {name for joint in self.joints.values() for name in joint.joined} - self.given
        self.codes, self.points = {}, 0
        for value in proto.graph.input:
            if value.name not in self.constants and value.type.tensor_type.elem_type in (2, 3):
                bounds = (0, 255) if value.type.tensor_type.elem_type == 2 else (-128, 127)
                self.codes[value.name] = Codes(*(np.full(self.shape(value.name), b) for b in bounds), bounds)

    def shape(self, name):
        return [d.dim_value or 1 for d in self.types[name].type.tensor_type.shape.dim]

    def value(self, node, i, default=None):
        return self.constants[node.input[i]] if i < len(node.input) and node.input[i] else default

    def coded(self, name, scale=None, zero=None):
        """The codes of a tensor, constant or not; None if it has none."""
        if name in self.constants and self.constants[name].dtype.kind in "iu":
            array = self.constants[name].astype(np.int64)
            info = np.iinfo(self.constants[name].dtype)
            self.codes[name] = Codes(array, array, (info.min, info.max))
        c = self.codes.get(name)
        return c if c is None or scale is None else Codes(c.lo, c.hi, c.bounds, scale, zero)

    def operand(self, node, i):
        """The codes of a quantized operator's input, whose scale and zero point follow it."""
        scale, zero = self.value(node, i + 1), self.value(node, i + 2, np.int64(0))
        return self.coded(node.input[i], scale.reshape(-1)[0] if scale.size == 1 else scale, int(zero.reshape(-1)[0]))

    def walk(self):
        for node in self.nodes:
            a = attributes(node)
            op, first = node.op_type, node.input[0] if node.input else ""
            if op == "Constant" or (op != "DequantizeLinear" and all(i in self.constants for i in node.input if i)):
                self.constants |= zip(node.output, run(node, [self.value(node, i) for i in range(len(node.input))]))
            elif op == "DequantizeLinear":
                scale, zero = self.value(node, 1), self.value(node, 2, np.int64(0))
                self.codes[node.output[0]] = self.coded(first, scale, zero.astype(np.int64))
            elif op == "Cast" and a["to"] == onnx.TensorProto.FLOAT and self.coded(first) is not None:
                self.codes[node.output[0]] = self.coded(first, np.float32(1), np.int64(0))
            elif op in ("Relu", "Clip") and self.recodes(node):
                self.moved(node, a)  # by the table of the QuantizeLinear behind it
            elif self.joint(node):
                pass  # one table does it, together with other nodes
            elif op == "QuantizeLinear":
                self.quantized(node)
            elif op.startswith("Q") and op != "QuickGelu":
                y = 7 if op == "QGemm" else 6 if len(node.input) > 6 else 3
                scale, zero = self.value(node, y), self.value(node, y + 1, np.uint8(0)).reshape(-1)[0]
                bounds = np.iinfo(zero.dtype).min, np.iinfo(zero.dtype).max
                x = [self.operand(node, i) for i in ((0, 3) if y > 3 else (0,))]
                bias = self.value(node, 6 if op == "QGemm" else 8) if op in ("QGemm", "QLinearConv") else None
                zeros = self.value(node, 5).astype(np.int64) if y > 3 else None
                kind = {"QGemm": "Gemm", "QLinearMatMul": "MatMul"}.get(op, op.removeprefix("QLinear"))
                by = (f32(scale.reshape(-1)[0]), int(zero), *map(int, bounds))
                lo, hi = self.operator(node, kind, a, x, zeros, lambda _, b=bias: b, by)
                self.codes[node.output[0]] = Codes(lo, hi, by[2:])
            elif first in self.codes and (op in MOVES or op in ("Relu", "Clip", "MaxPool", *CHOICES)):
                self.moved(node, a)
        for name in self.entries:
            raise Wrong(f"{name}: the model has no such quantized node")
        for name in self.left_out:
            is_joined = name not in self.outputs and all(self.is_joined(reader, name) for reader in self.read[name])
            need(
                is_joined, f"{self.names[id(self.made[name])]}: an entry is missing, because others read its codes, too"
            )
        for name in self.in_float - set(self.names.values()):
            raise Wrong(f"{name}: the model has no such node, which is said to be computed in float32")

    def recodes(self, node):
        """Whether a Relu or Clip of codes is quantized with another meaning, and nothing else reads it."""
        x, [output] = self.codes.get(node.input[0]), node.output
        readers = [] if output in self.outputs else self.read[output]
        if x is None or x.scale is None or [n.op_type for n in readers] != ["QuantizeLinear"]:
            return False
        by, bounds = self.meaning(readers[0])
        return bounds[1] - bounds[0] == x.bounds[1] - x.bounds[0] == 255 and (by, bounds) != (x.by, x.bounds)

    def moved(self, node, a):
        """What only moves codes, or keeps some of them."""
        x, op = self.codes[node.input[0]], node.op_type
        if op == "Gather" and node.input[1] not in self.constants:  # any row
            place = (*self.shape(node.input[1]), *x.lo.shape[1:])
            self.codes[node.output[0]] = x.but(np.broadcast_to(x.lo.min(0), place), np.broadcast_to(x.hi.max(0), place))
            return
        if op in ("Relu", "Clip"):
            low, high = self.clip(node, a, (x.scale, x.zero, *x.bounds))
            results = [[np.clip(end, low, high)] for end in (x.lo, x.hi)]
            e = None if self.recodes(node) else self.entries.pop(self.names[id(node)], None)
            if e:
                table = np.clip(np.arange(x.bounds[0], x.bounds[1] + 1), low, high)
                need(e["kind"] == "table" and np.array_equal(e["values"], table), f"{e['node']}: values are clamped")
                self.points += 256
        elif op == "MaxPool":
            lowest = x.bounds[0]
            results = [[np.max(list(taps(end, a["kernel_shape"], a, lowest)), axis=0)] for end in (x.lo, x.hi)]
        else:
            parts = [self.coded(name) if name and name not in self.constants else None for name in node.input]
            others = [None if part else self.value(node, i) for i, part in enumerate(parts)]
            if op == "Pad" and x.scale is not None:
                fill = quantize(others[2] if others[2:] and others[2] is not None else 0, *x.by, *x.bounds)
                node.input[2:] = ["filled"]
                others[2:] = [fill]
            results = [
                run(node, [getattr(p, end) if p else o for p, o in zip([*parts, None], others)]) for end in ("lo", "hi")
            ]
        for name, lo, hi in zip(node.output, *results):
            self.codes[name] = x.but(lo, hi)

    def clip(self, node, a, by):
        """The codes at which Relu or Clip stops, of floats that are quantized so, or of codes."""
        scale, zero, low, high = by
        ends = (
            [0, None]
            if node.op_type == "Relu"
            else [self.value(node, 1, a.get("min")), self.value(node, 2, a.get("max"))]
        )
        low, high = (
            b if end is None else int(end) if scale is None else int(quantize(end, scale, zero, *by[2:]))
            for b, end in zip((low, high), ends)
        )
        return low, high

    # ---- tables that join several nodes ----

    def joint(self, node):
        """Checks a table that joins nodes, of which this is the last; whether it is, or is left to such a table."""
        chain = self.chain(node)
        names = {self.names[id(n)] for n in chain}
        own = [self.entries.pop(name) for name in names & set(self.joints) & set(self.entries)]
        if not own and (names.isdisjoint(self.absorbed) or not names.isdisjoint(self.given)):
            return False
        tensor, by, bounds = node.output[0], *self.meaning(node)
        ends = [np.full(self.shape(tensor), b) for b in bounds]
        for e in own:
            joint = self.joints[e["node"]]
            root, x, codes = self.composed(tensor, joint)
            need(root != tensor and joint.passed >= {*joint.joined}, f"{joint.node}: joined names what it computes")
            ends = self.looked_up(e, x, codes)
        if not own:
            self.left_out.append(tensor)
        self.codes[tensor] = Codes(*ends, bounds, *(by if node.op_type in ("Relu", "Clip") else ()))
        return True

    def chain(self, node):
        """The nodes of the C function that writes this node's output; none unless it works element by element."""
        if node.op_type in ("QLinearAdd", "QLinearMul", "QLinearSigmoid", "QLinearLeakyRelu"):
            return [node]
        if node.op_type in ("Relu", "Clip"):
            return [node] if node.input[0] in self.codes else []
        chain = [node] if node.op_type == "QuantizeLinear" else []
        while chain and chain[0].input[0] in self.made and (len(chain) == 1 or chain[0].op_type in ("Relu", "Clip")):
            chain.insert(0, self.made[chain[0].input[0]])
        return [n for n in chain if n.op_type not in ("DequantizeLinear", *MOVES)]

    def meaning(self, node):
        """Scale and zero point of a node's output, and the bounds of its type."""
        if node.op_type in ("Relu", "Clip"):
            return self.codes[node.input[0]].by, self.codes[node.input[0]].bounds
        at = 1 if node.op_type == "QuantizeLinear" else 6 if len(node.input) > 6 else 3
        zero = self.value(node, at + 1, np.uint8(0)).reshape(-1)[0]
        info = np.iinfo(zero.dtype)
        return (f32(self.value(node, at).reshape(-1)[0]), int(zero)), (int(info.min), int(info.max))

    def composed(self, tensor, joint):
        """(name, Codes, codes): the tensor before all that a table joins, and what they make of each of its codes."""
        node, c = self.made.get(tensor), self.coded(tensor)
        chain = self.chain(node) if node is not None else []
        if not joint.passes({self.names[id(n)] for n in chain}):
            need(c is not None and c.bounds[1] - c.bounds[0] == 255, f"{joint.node}: it begins with codes of 8 bits")
            return tensor, c, np.arange(c.bounds[0], c.bounds[1] + 1)
        joint.tensors.add(tensor)
        by, bounds = self.meaning(node)
        made, kind = chain[0], chain[0].op_type.removeprefix("QLinear")
        found = self.function(node.input[0]) if node.op_type == "QuantizeLinear" else None
        if found:  # of one tensor, which others may make of the first one
            before, codes = found[:2], np.arange(found[1].bounds[0], found[1].bounds[1] + 1)
            if before[0] in self.made and self.chain(self.made[before[0]]):
                *before, codes = self.composed(before[0], joint)
            values = found[2][0][codes - found[1].bounds[0]]
        elif node.op_type == "QuantizeLinear" and kind not in ("Add", "Mul"):
            found = self.function(node.input[0], joint)
            need(found is not None, f"{joint.node}: what it joins comes from one tensor")
            before, values = found[:2], found[2][0]
        if found:
            need(found[3] is None, f"{joint.node}: one table serves all channels")
            return *before, quantize(values, *by, *bounds)
        for clip in [n for n in chain if n.op_type in ("Relu", "Clip")]:
            bounds = self.clip(clip, attributes(clip), (*by, *bounds))
        places = [0, 3] if kind in ("Add", "Mul") and made is node else [0, 1] if kind in ("Add", "Mul") else [0]
        x = [self.operand(made, i) if kind != made.op_type else self.coded(made.input[i]) for i in places]
        need(None not in x, f"{joint.node}: what it joins is computed of codes")
        parts = [self.operand_of(made.input[i], joint) for i in places]
        roots = {part[0]: part for part in parts if part[0]}
        need(len(roots) == 1, f"{joint.node}: what it joins comes from one tensor")
        [root] = roots.values()
        codes = [part[2] for part in parts]
        if kind in ("Relu", "Clip"):
            return *root[:2], np.clip(codes[0], *bounds)
        if kind in ("Sigmoid", "LeakyRelu"):
            values = (codes[0] - x[0].zero).astype(f32) * f32(x[0].scale)
            return *root[:2], quantize(POINTWISE[kind](values, attributes(made)), *by, *bounds)
        function = add if kind == "Add" else multiply
        if self.is_swapped(function, *x):
            x, codes = x[::-1], codes[::-1]
        return *root[:2], function(*codes, x[0].by, x[1].by, by, *bounds)

    def operand_of(self, name, joint):
        """What ``composed`` gives of an operand's codes; with the name "" for one constant code."""
        made = self.made.get(name)
        name = made.input[0] if made is not None and made.op_type == "DequantizeLinear" else name
        if name in self.constants:
            need(self.constants[name].size == 1, f"{joint.node}: a constant is one number")
            return "", None, self.constants[name].astype(np.int64).reshape(-1)
        return self.composed(name, joint)

    def is_joined(self, node, tensor):
        """Whether all that a node makes of a tensor is part of tables, which compute the tensor's codes themselves."""
        name = self.names[id(node)]
        if name in self.given:
            return name in self.joints and tensor in self.joints[name].tensors
        if name in self.in_float or not self.outputs.isdisjoint(node.output):
            return False
        return all(self.is_joined(reader, tensor) for o in node.output for reader in self.read[o])

    @np.errstate(all="ignore")  # NaN and infinities are results
    def function(self, name, joint=None):
        """(name of a tensor of codes, these codes, values, axis): a float tensor as a function of it, by elements.

        The values are (channels or 1, codes or 1), channels along an axis that is counted back from -1. The name is ""
        for numbers, which depend on nothing; None for what is not such a function.
        """
        constant = self.number(name)
        if constant is not None:
            long = [i - constant.ndim for i, size in enumerate(constant.shape) if size > 1]
            return ("", None, constant.reshape(-1, 1), long[0] if long else None) if len(long) < 2 else None
        node, c = self.made.get(name), self.codes.get(name)
        if node is None:
            return None
        if node.op_type not in (*POINTWISE, *BINARY, *CONDITIONS, *FOLDED, "Clip", "BatchNormalization"):
            if c is None or c.scale is None or np.size(c.scale) > 1:
                return None
            source, root, codes = node.input[0], c, np.arange(c.bounds[0], c.bounds[1] + 1)
            if joint is not None and node.op_type == "DequantizeLinear":
                source, root, codes = self.composed(source, joint)
            return source, root, ((codes - c.zero).astype(f32) * f32(c.scale)).reshape(1, -1), None
        of = self.gelu_of(node)
        if of is not None:
            node = onnx.helper.make_node("Gelu", [of], list(node.output))
        is_one = node.op_type in (*POINTWISE, "Clip", "BatchNormalization")
        if joint is not None:
            joint.passed.add(self.names.get(id(node)))
        parts = [self.function(i, joint) for i in node.input[: 1 if is_one else None]]
        sources = {part and part[0] for part in parts} - {""}
        if None in sources or len(sources) != 1 or (joint is None and self.is_pair(node)):
            return None
        values, a = [part[2] for part in parts], attributes(node)
        axes = {part[3] for part in parts} - {None}
        if node.op_type == "BatchNormalization":  # x * s + (bias - mean * s)
            scale, bias, mean, variance = (self.number(i).reshape(-1, 1) for i in node.input[1:])
            s = scale * (f32(1) / np.sqrt(variance + f32(a.get("epsilon", 1e-5))))
            values = values[0] * s + (bias - mean * s)
            axes |= {1 - len(self.shape(node.input[0]))} if len(s) > 1 else set()
        elif node.op_type == "Clip":
            values = np.clip(*values, self.value(node, 1, a.get("min")), self.value(node, 2, a.get("max")))
        elif node.op_type in CONDITIONS:
            values = CONDITIONS[node.op_type](*values)
        elif node.op_type in FOLDED:
            values = functools.reduce(FOLDED[node.op_type], values)
        else:
            is_binary = node.op_type in BINARY
            values = BINARY[node.op_type](*values) if is_binary else POINTWISE[node.op_type](*values, a)
        if len(axes) > 1:
            return None
        return (*next(part[:2] for part in parts if part[0]), values.astype(f32), next(iter(axes), None))

    def number(self, name):
        """A constant of floats, or what a DequantizeLinear makes of constant codes; None for anything else."""
        made = self.made.get(name)
        if made is not None and made.op_type == "DequantizeLinear" and made.input[0] in self.constants:
            return run(made, [self.value(made, i) for i in range(len(made.input))])[0]
        given = self.constants.get(name)
        return given if given is not None and given.dtype == f32 else None

    def gelu_of(self, node):
        """x where a Mul is x * (1 + erf(x / sqrt(2))) / 2, the products from left to right: a Gelu of x. Else None."""
        for first in node.input if node.op_type == "Mul" else ():
            inner, other = self.made.get(first), [i for i in node.input if i != first]
            if inner is None or inner.op_type != "Mul" or len(other) != 1 or len(self.read[first]) != 1:
                continue
            factors = [*inner.input, *other]
            x = [i for i in inner.input if self.raised_erf_of(i) is None and not self.is_number(i, 0.5)]
            rest = [i for i in factors if i not in x]
            raised = [i for i in rest if x and self.raised_erf_of(i) == x[0]]
            if len(x) == 1 and len(raised) == 1 and len(rest) == 2 and any(self.is_number(i, 0.5) for i in rest):
                return x[0]
        return None

    def raised_erf_of(self, name):
        """x where a tensor is 1 + erf(x / sqrt(2)), each part read once; else None."""
        for op, number in (("Add", 1), ("Erf", None), ("Div", 2**0.5)):
            node = self.made.get(name)
            if node is None or node.op_type != op or len(self.read[name]) != 1:
                return None
            numbers = [i for i in node.input if number and self.is_number(i, number)]
            if number and (not numbers or (op == "Div" and node.input[1] not in numbers)):
                return None
            name = next(i for i in node.input if i not in numbers)
        return name

    def is_number(self, name, number):
        """Whether a tensor is this number, as nearly as onnxruntime demands it."""
        given = self.constants.get(name)
        return given is not None and given.size == 1 and np.isclose(given, f32(number), 1e-5, 1e-8).all()

    def is_pair(self, node):
        """Whether this is a sum or product of codes and codes, of which there are pairs."""
        made = [self.made.get(name) for name in node.input]
        return node.op_type in ("Add", "Mul") and all(n is not None and n.op_type == "DequantizeLinear" for n in made)

    def quantized(self, node):
        """QuantizeLinear: of a function of one tensor, of a quantized operator written in floats, or of floats."""
        zero = self.value(node, 2, np.uint8(0)).reshape(-1)[0]
        bounds = int(np.iinfo(zero.dtype).min), int(np.iinfo(zero.dtype).max)
        by = (f32(self.value(node, 1).reshape(-1)[0]), int(zero), *bounds)
        made = self.made.get(node.input[0])
        is_operator = made is not None and made.op_type in ("Sigmoid", "LeakyRelu") and made.input[0] in self.codes
        found = None if is_operator else self.function(node.input[0])
        if found:
            x, table = found[1], quantize(found[2], *by)
            if found[3] is not None and (table != table[0]).any():
                lo, hi = self.channel_tables(node, x, table, found[3])
            else:
                lo, hi = self.table(node, x, table[0], x.by == by[:2] and x.bounds == bounds)
        else:
            name, path = node.input[0], []
            while name in self.made and self.made[name].op_type in (*MOVES, "Relu", "Clip"):
                path.append(self.made[name])
                name = path[-1].input[0]
            try:
                lo, hi = self.fused(name, path[::-1], by)
            except InFloat:
                lo, hi = (np.full(self.shape(node.output[0]), b) for b in bounds)
        self.codes[node.output[0]] = Codes(lo, hi, bounds)

    def fused(self, name, path, by):
        """The codes behind a quantized operator that is written in floats, and what moves or clamps its output."""
        node, chain = self.made.get(name), self.float_chain(name)
        x = [self.coded(i) for i in node.input] if node is not None else []
        if chain is None and (not x or x[0] is None):
            raise InFloat
        for clip in path:
            if clip.op_type not in MOVES:
                by = (*by[:2], *self.clip(clip, attributes(clip), by))
        if chain is not None:
            return self.after(path, *self.of_sums(*chain, by))
        if node.op_type in ("ReduceMean", "ReduceSum"):
            lo, hi = self.reduction(node, attributes(node), x[0], by)
            return self.after(path, lo, hi)
        zeros = x[1].zero if len(x) > 1 and x[1] is not None else None
        lo, hi = self.operator(node, node.op_type, attributes(node), x, zeros, lambda scale: self.bias(node, scale), by)
        return self.after(path, lo, hi)

    def float_chain(self, name):
        """(node, operations): integer sums that a Cast and operations with constants make floats of; else None.

        Each operation is the name of an operator, a number for each channel or for all, and whether that comes first.
        """
        operations = []
        while name in self.made:
            node = self.made[name]
            if node.op_type == "Cast":
                sums = self.made.get(node.input[0])
                return (sums, operations[::-1]) if sums and sums.op_type in SUMS else None
            numbers = [self.number(i) for i in node.input] if node.op_type in ARITHMETIC else []
            if len([i for i in numbers if i is None]) != 1 or self.names[id(node)] in self.in_float:
                return None
            is_first = numbers[0] is not None
            operations.append((node.op_type, numbers[1 - is_first].reshape(-1, 1), is_first))
            name = node.input[int(is_first)]
        return None

    def of_sums(self, node, operations, y):
        """The codes of such floats: equation (95)."""
        x, w = self.codes.get(node.input[0]), self.constants.get(node.input[1])
        if x is None or w is None:
            raise InFloat
        x = Codes(x.lo, x.hi, x.bounds, f32(1), int(self.value(node, 2, np.int64(0)).reshape(-1)[0]))
        w = Codes(w.astype(np.int64), w.astype(np.int64), x.bounds, f32(1))

        def exact(acc, kept, low, high):
            v = acc.astype(f32)
            for kind, number, is_first in operations:
                number = number[kept] if len(number) > 1 else number
                v = BINARY[kind](*((number, v) if is_first else (v, number)))
            return quantize(v, *y[:2], low, high)

        kind = "Conv" if node.op_type == "ConvInteger" else "MatMul"
        zeros = self.value(node, 3, np.int64(0)).astype(np.int64)
        return self.linear(node, kind, attributes(node), x, w, zeros, lambda _: None, y, exact)

    def after(self, path, lo, hi):
        """The codes behind what moves the output of an operator."""
        for move in path:
            if move.op_type in MOVES:
                others = [self.constants.get(i) for i in move.input[1:]]
                lo, hi = (run(move, [v, *others])[0] for v in (lo, hi))
        return lo, hi

    def bias(self, node, scale):
        """The integer bias of a convolution or product whose bias is given in floats, or in codes of another scale."""
        if len(node.input) < 3 or not node.input[2]:
            return None
        c = self.coded(node.input[2])
        if c is None:
            return np.rint(self.constants[node.input[2]] / scale).astype(np.int64)
        if c.bounds[1] == 2**31 - 1 and np.allclose(c.scale, scale, rtol=1e-2, atol=1e-6):
            return c.lo
        return np.rint((c.lo - c.zero) * np.float64(c.scale) / scale.astype(np.float64)).astype(np.int64)

    # ---- operators: the codes that they can write, and the entry of each ----

    def entry(self, node, kind, lo, hi):
        """The entry of a node; None if it needs none: computed in float, its output constant, or read by nobody."""
        names = [self.names[id(node)], *(self.behind(node) if node.op_type == "QuantizeLinear" else ())]
        name = next((n for n in names if n in self.entries), names[0])
        if name in self.in_float:
            need(
                not node.op_type.startswith("QLinear") and node.op_type != "QGemm",
                f"{name}: it is said to be computed in float32, and is quantized",
            )
            raise InFloat
        if name not in self.entries:
            unread = not any(self.read.get(o) or o in self.outputs for o in node.output)
            need(unread or (lo == hi).all(), f"{name}: an entry is missing")
            return None
        e = self.entries.pop(name)
        need(e["kind"] == kind, f"{name}: its kind is {kind}")
        return e

    def behind(self, node):
        """The names of the nodes between codes and a QuantizeLinear: a table of them has that of one of them."""
        names, open_ = [], [node.input[0]]
        while open_:
            made = self.made.get(open_.pop(0))
            if made is not None and made.op_type != "DequantizeLinear" and self.names[id(made)] not in names:
                names.append(self.names[id(made)])
                open_ += made.input
        return names

    def channel_tables(self, node, x, tables, axis):
        """A table for each place of an axis, which is counted back from -1."""
        lo, hi = (np.moveaxis(v, axis, 0).reshape(len(tables), -1) for v in (x.lo, x.hi))
        spans = [(low.min() - x.bounds[0], high.max() - x.bounds[0] + 1) for low, high in zip(lo, hi)]
        parts = [row[low:high] for row, (low, high) in zip(tables, spans)]
        place = [-1 if i == axis % x.lo.ndim else 1 for i in range(x.lo.ndim)]
        ends = [np.array([end(part) for part in parts]).reshape(place) for end in (np.min, np.max)]
        ends = [np.broadcast_to(end, x.lo.shape) for end in ends]
        e = self.entry(node, "table", *ends)
        if e:
            given = np.array(e["values"])
            same = (np.array_equal(given[i][low:high], parts[i]) for i, (low, high) in enumerate(spans))
            need(e["axis"] == axis % x.lo.ndim and all(same), f"{e['node']}: values are those of the function")
            self.points += given.size
        return ends

    def table(self, node, x, table, may_clamp):
        pairs, codes = self.looked_up(None, x, table), np.arange(x.bounds[0], x.bounds[1] + 1)
        if may_clamp and (np.clip(codes, table.min(), table.max()) == table).all():
            return pairs  # no table: codes are kept, or clamped
        return self.looked_up(self.entry(node, "table", *pairs), x, table)

    def looked_up(self, e, x, table):
        """The codes that a table gives where its input can be; its entry, if there is one, says the same there."""
        first, span = x.bounds[0], np.unique(np.stack([x.lo, x.hi]).reshape(2, -1), axis=1)
        parts = {(low, high): table[low - first : high - first + 1] for low, high in span.T}
        ends = {pair: (part.min(), part.max()) for pair, part in parts.items()}
        if e:
            for low, high in parts:
                part = np.array(e["values"])[low - first : high - first + 1]
                need(np.array_equal(part, parts[low, high]), f"{e['node']}: values are those of the function")
            self.points += 256
        return np.array([ends[pair] for pair in zip(x.lo.ravel(), x.hi.ravel())]).T.reshape(2, *x.lo.shape)

    def operator(self, node, kind, a, x, w_zero, bias, y):
        scale, zero, low, high = y
        if kind in ("LSTM", "GRU"):
            need(self.names[id(node)] in self.in_float, f"{self.names[id(node)]}: it is computed in float32")
            raise InFloat
        if kind == "MatMul" and not (x[1].lo is x[1].hi and x[1].lo.ndim == 2):
            return self.product(node, *x[:2], y)
        if kind in ("Conv", "Gemm", "MatMul"):
            return self.linear(node, kind, a, *x[:2], w_zero, bias, y)
        if kind in ("Add", "Mul"):
            return self.pairs(node, add if kind == "Add" else multiply, *x, y)
        if kind == "GlobalAveragePool":
            axis = -1 if a.get("channels_last") else 1
            axes = tuple(i for i in range(1, x[0].lo.ndim) if i != axis % x[0].lo.ndim)
            pixels = int(np.prod([x[0].lo.shape[i] for i in axes]))
            by = f32(x[0].scale) / (f32(scale) * f32(pixels))  # (14)
            lo, hi = ((v - x[0].zero).sum(axis=axes, keepdims=True) for v in (x[0].lo, x[0].hi))
            ends = [requantize(v, by, zero, low, high) for v in (lo, hi)]
            e = self.entry(node, "mean", *ends)
            if e:
                self.step(e, np.array([by]), y, np.array([lo.min()]), np.array([hi.max()]))
            return ends
        if kind == "AveragePool":
            return self.window_mean(node, a, x[0], y)
        if kind == "Softmax":
            ends = np.full_like(x[0].lo, min(max(zero, low), high)), np.full_like(x[0].lo, high)
            e = self.entry(node, "softmax", *ends)
            if e:
                length, unit = x[0].lo.shape[a.get("axis", -1)], np.float64(x[0].scale)
                largest = np.float64(np.finfo(f32).max / f32(length))
                shift = max(0.0, np.float64(f32(np.log(largest))) - 5) / unit
                table = np.exp((np.arange(-255, 1) + shift) * unit).astype(f32)  # (16)
                need(np.array_equal(e["exponentials"], table.view(np.uint32)), f"{e['node']}: the exponentials")
                need(e["factor"] == np.floor(f32(1) / f32(scale)), f"{e['node']}: the factor")  # (17)
                self.points += 256
            return ends
        if kind == "InstanceNormalization":
            ends = np.full_like(x[0].lo, low), np.full_like(x[0].lo, high)
            e = self.entry(node, "instance norm", *ends)
            if e:
                values = (np.arange(x[0].bounds[0], x[0].bounds[1] + 1) - x[0].zero).astype(f32) * f32(x[0].scale)
                given = {"numbers": values, "scale": self.real(node, 1), "bias": self.real(node, 2)}
                for role, numbers in {**given, "epsilon": a.get("epsilon", 1e-5)}.items():
                    need(np.array_equal(np.reshape(e[role], -1), words(numbers)), f"{e['node']}: {role}")
                self.points += 256
            return ends
        if kind == "LayerNormalization":
            ends = np.full_like(x[0].lo, low), np.full_like(x[0].lo, high)
            e = self.entry(node, "layer norm", *ends)
            if e:
                row = x[0].lo.shape[a.get("axis", -1) % x[0].lo.ndim :]
                for i, role in enumerate(("scale", "bias")[: len(node.input) - 1], start=1):
                    given = words(np.broadcast_to(self.real(node, i), row))
                    need(np.array_equal(e[role], given), f"{e['node']}: {role}")
                    self.points += given.size
                need(e["epsilon"] == words(a.get("epsilon", 1e-5)), f"{e['node']}: epsilon")
            return ends
        if kind in ("Sigmoid", "LeakyRelu"):
            values = (np.arange(x[0].bounds[0], x[0].bounds[1] + 1) - x[0].zero).astype(f32) * f32(x[0].scale)
            values = POINTWISE[kind](values, a)
            return self.table(node, x[0], quantize(values, *y), False)
        raise Wrong(f"{node.op_type}: this program does not know the operator")

    def real(self, node, i):
        """The float32 numbers of a constant input, which may be quantized."""
        c = self.codes.get(node.input[i])
        if c is None or node.input[i] in self.constants:
            return self.constants[node.input[i]]
        return (c.lo - c.zero).astype(f32) * np.asarray(c.scale, f32)

    def linear(self, node, kind, a, x, w, w_zero, bias, y, exact=None):
        """Convolutions and products of matrices: (2) and (3), or with the codes that ``exact`` makes of sums."""
        last = kind != "Conv" or a.get("channels_last")
        weights, group = w.lo, a.get("group", 1)
        if kind != "Conv" and not a.get("transB"):
            weights = weights.T
        weights = (weights - np.reshape(w_zero, [-1] + [1] * (weights.ndim - 1))).astype(np.float64)
        x_scale = f32(x.scale) * f32(a["alpha"]) if a.get("alpha", 1.0) != 1.0 else f32(x.scale)
        unit = x_scale * np.asarray(w.scale, f32).reshape(-1)
        given, size = bias(unit), len(weights)
        given = np.zeros(size, np.int64) if given is None else np.broadcast_to(given.reshape(-1), size).astype(np.int64)
        ends = [np.moveaxis(v - x.zero, -1, 1) if last else v - x.zero for v in (x.lo, x.hi)]
        if kind != "Conv":
            ends = [(v.reshape(-1, v.shape[-1]) if v.ndim > 2 else v) for v in (x.lo - x.zero, x.hi - x.zero)]
        total = [0, 0]
        split = weights.reshape(group, size // group, weights.shape[1], -1)
        for t, (low, high) in enumerate(zip(*(taps(v, weights.shape[2:], a, 0) for v in ends))):
            low, high = (v.reshape(len(v), group, v.shape[1] // group, -1).astype(np.float64) for v in (low, high))
            up, down = np.maximum(split[..., t], 0), np.minimum(split[..., t], 0)
            total = [total[0] + up @ low + down @ high, total[1] + up @ high + down @ low]
        lo, hi = (v.reshape(len(v), size, -1).astype(np.int64) + given[:, None] for v in total)
        lo, hi = lo.min(axis=(0, 2)), hi.max(axis=(0, 2))
        outside = (lo < INT32[0]) | (hi > INT32[1])
        lo, hi = np.where(outside, INT32[0], lo), np.where(outside, INT32[1], hi)
        scale = np.maximum(np.broadcast_to(unit / f32(y[0]), size), f32(2.0**-126))
        codes = [requantize(v, scale, *y[1:]) for v in (lo, hi)]
        if exact:
            codes = [exact(v[:, None], slice(None), *y[2:])[:, 0] for v in (lo, hi)]
        e = self.entry(node, "requantize", *codes)
        if e:
            seen = [np.moveaxis(v, -1 if last else 1, 0).reshape(v.shape[-1 if last else 1], -1) for v in (x.lo, x.hi)]
            claimed = np.array(e["x_range"])
            need(claimed.shape == (2, len(seen[0])), f"{e['node']}: x_range has the input's channels")
            low, high = seen[0].min(axis=1), seen[1].max(axis=1)
            if any(n.op_type == "Pad" for n in self.nodes):  # it may have become pads, which add nothing to a sum
                claimed = np.minimum(claimed[0], x.zero), np.maximum(claimed[1], x.zero)
            need((claimed[0] <= low) & (high <= claimed[1]), f"{e['node']}: x_range")
            kept = np.array(e["channels"])
            need((np.diff(kept) > 0).all() and kept[0] >= 0 and kept[-1] < size, f"{e['node']}: channels")
            self.step(e, scale[kept], y, lo[kept], hi[kept], exact and functools.partial(exact, kept=kept))
        if kind != "Conv":
            return [np.broadcast_to(v, (*x.lo.shape[:-1], size)) for v in codes]
        place = list(next(taps(ends[0][:, :1], weights.shape[2:], a, 0)).shape)
        place[1] = size
        spread = [np.broadcast_to(v.reshape(-1, *[1] * (len(place) - 2)), place) for v in codes]
        return [np.moveaxis(v, 1, -1) if last else v for v in spread]

    def reduction(self, node, a, x, y):
        """ReduceMean and ReduceSum, along any axes: (14), or (44) for sums."""
        rank = x.lo.ndim
        named = self.value(node, 1, a.get("axes"))
        axes = tuple(sorted(int(i) % rank for i in named)) if named is not None and len(named) else tuple(range(rank))
        is_mean = node.op_type == "ReduceMean"
        is_image = is_mean and rank > 2 and axes in (tuple(range(2, rank)), tuple(range(1, rank - 1)))
        count = int(np.prod([x.lo.shape[i] for i in axes])) if is_mean else 1
        scale = np.maximum(f32(x.scale) / (f32(y[0]) * f32(count)), f32(2.0**-126))
        lo, hi = ((v - x.zero).sum(axis=axes, keepdims=bool(a.get("keepdims", 1))) for v in (x.lo, x.hi))
        ends = [requantize(v, scale, *y[1:]) for v in (lo, hi)]
        e = self.entry(node, "mean" if is_image else "sum", *ends)
        if e:
            self.step(e, np.array([scale]), y, np.array([lo.min()]), np.array([hi.max()]))
        return ends

    def product(self, node, a, b, y):
        """Products of two computed matrices: (2) and (41)."""
        shape = np.matmul(np.zeros(a.lo.shape), np.zeros(b.lo.shape)).shape
        ends = []
        for v, axis in ((a, -1), (b, max(-2, -b.lo.ndim))):  # of each term
            low, high = (np.moveaxis(codes - v.zero, axis, 0) for codes in (v.lo, v.hi))
            ends.append((low.reshape(len(low), -1).min(axis=1), high.reshape(len(high), -1).max(axis=1)))
        corners = [p * q for p in ends[0] for q in ends[1]]
        lo = np.minimum(np.minimum.reduce(corners), 0).sum(keepdims=True)
        hi = np.maximum(np.maximum.reduce(corners), 0).sum(keepdims=True)
        need((INT32[0] <= lo) & (hi <= INT32[1]), f"{node.name}: no sum leaves int32")
        scale = np.maximum(np.reshape(f32(a.scale) * f32(b.scale) / f32(y[0]), 1), f32(2.0**-126))
        codes = [np.broadcast_to(requantize(v, scale, *y[1:]), shape) for v in (lo, hi)]
        e = self.entry(node, "product", *codes)
        if e:
            self.step(e, scale, y, lo, hi)
        return codes

    def step(self, e, scale, y, lo, hi, exact=None):
        """An output step: its interval, its bounds, its integers."""
        claimed = [np.array(v) for v in e["accumulator"]]
        need([v.shape == lo.shape for v in claimed], f"{e['node']}: accumulator has the kept channels")
        need((claimed[0] <= lo) & (hi <= claimed[1]), f"{e['node']}: accumulators lie within the interval")
        need((e["low"], e["high"]) in (y[2:], self.ahead(e["node"], y)), f"{e['node']}: low and high")
        code = exact and functools.partial(exact, low=e["low"], high=e["high"])
        ends = [requantize(v, scale, y[1], e["low"], e["high"]) for v in claimed]
        ends = [code(v[:, None])[:, 0] for v in claimed] if exact else ends
        need(np.array_equal(ends, e["y_range"]), f"{e['node']}: y_range")
        try:
            self.points += check_step(e, scale, y[1], *claimed, code)
        except Wrong as wrong:
            raise Wrong(f"{e['node']}: {wrong}") from None

    def ahead(self, name, y):
        """The bounds of an output that is clamped before anything else is done to it."""
        [node] = [n for n in self.nodes if self.names[id(n)] == name]
        low, high, scale = y[2], y[3], None
        while len(self.read.get(node.output[0], [])) == 1:
            [node] = self.read[node.output[0]]
            if node.op_type in ("Relu", "Clip"):
                a = attributes(node)
                ends = self.clip(node, a, (scale, *y[1:]))
                low, high = max(low, ends[0]), min(high, ends[1])
            elif node.op_type == "DequantizeLinear":
                scale = y[0]
            elif node.op_type not in (*MOVES, "QuantizeLinear"):
                break
        return low, high

    def is_swapped(self, function, a, b):
        """Whether the second operand is the one that (12) calls a: the first one is repeated along the rows."""
        shapes = [(1,) * (max(a.lo.ndim, b.lo.ndim) - v.lo.ndim) + v.lo.shape for v in (a, b)]
        inner = [pair for pair in zip(*shapes) if max(pair) > 1][-1:]
        return bool(inner) and inner[0][0] == 1 and function is add

    def pairs(self, node, function, a, b, y):
        """Sums and products: (22) at every pair of codes."""
        if self.is_swapped(function, a, b):
            a, b = b, a
        corners = [function(u, v, a.by, b.by, y[:2], *y[2:]) for u in (a.lo, a.hi) for v in (b.lo, b.hi)]
        ends = np.minimum.reduce(corners), np.maximum.reduce(corners)
        e = self.entry(node, "pairs", *ends)
        if not e:
            return ends
        name = e["node"]
        need(np.isin(a.all, e["a_codes"]).all() and np.isin(b.all, e["b_codes"]).all(), f"{name}: a_codes, b_codes")
        p, q = (v.ravel() for v in np.meshgrid(e["a_codes"], e["b_codes"], indexing="ij"))
        terms = [p, q] if function is add else [(p - a.zero) * (q - b.zero)]
        self.points += check_pairs(e, function(p, q, a.by, b.by, y[:2], *y[2:]), terms, *y[2:])
        return ends

    def window_mean(self, node, a, x, y):
        """Means of windows: (15), (21) and (23)."""
        last, kernel = a.get("channels_last"), a["kernel_shape"]
        ends = [np.moveaxis(v, -1, 1) if last else v for v in (x.lo, x.hi)]
        ones = list(taps(np.ones(ends[0].shape), kernel, a, 1.0 if a.get("count_include_pad") else 0.0))
        totals = [np.zeros(ones[0].shape, f32) for _ in ends]
        for parts in zip(*(taps(v - x.zero, kernel, a, 0) for v in ends)):
            totals = [total + part.astype(f32) * f32(x.scale) for total, part in zip(totals, parts)]
        codes = [mean(total, sum(ones), y[:2], *y[2:]) for total in totals]
        codes = [np.moveaxis(v, 1, -1) if last else v for v in codes]
        e = self.entry(node, "window mean", *codes)
        need(not e or e["form"] in ("line", "guard band", "soft-float"), "the form is known")
        if not e or e["form"] == "soft-float":
            return codes  # the C does the additions of (15) one after the other
        name, n = e["node"], int(np.prod(kernel))
        values = (x.all - x.zero).astype(f32) * f32(x.scale)
        least = most = np.zeros(1, f32)
        for _ in range(n):  # the least and the greatest total of all windows with the same sum of codes
            size = len(least) + 255
            low, high = np.full(size, np.inf, f32), np.full(size, -np.inf, f32)
            for i, v in enumerate(values):
                low[i : i + len(least)] = np.minimum(low[i : i + len(least)], least + v)
                high[i : i + len(most)] = np.maximum(high[i : i + len(most)], most + v)
            least, most = low, high
        least, most = (mean(v, n, y[:2], *y[2:]) for v in (least, most))
        first = (x.bounds[0] - x.zero) * n
        sums, s = np.arange(first, first + len(least)), e["shift"]
        need(e["accumulator"] == sums[[0, -1]].tolist(), f"{name}: accumulator")
        h = sums * e["slope"] + e["offset"]
        need(np.abs(h).max() + np.abs(x.zero * n * e["slope"]) < 2**31, f"{name}: int32 holds all sums")
        wrong = (least != most) | (np.clip(h >> s, *y[2:]) != least)
        apart = np.abs(((h + (1 << s >> 1)) & ((1 << s) - 1)) - (1 << s >> 1))
        need(apart[wrong] <= (-1 if e["guard"] is None else e["guard"]), f"{name}: exact outside its window")
        self.points += sums.size
        return codes


MOST = 2**32 - 1  # the largest magnitude of Orion's numbers


def last_requantized(sign, f, y_scale, y_zero):
    """The accumulator of this sign that is farthest from 0 and that Orion requantizes, found by bisection."""

    def fits(magnitude):
        quotient = (magnitude << f) // y_scale
        return quotient <= MOST and abs(sign * quotient + (y_zero << f)) <= MOST

    first, last = 0, MOST
    while first < last:
        middle = (first + last + 1) // 2
        first, last = (middle, last) if fits(middle) else (first, middle - 1)
    return sign * first


def check_orion(model, entries, f):
    """Convolutions in Orion's fixed point with f fraction bits, every number cut off to f bits, and a sign."""

    def cut(v):
        return np.sign(v) * (np.abs(v) >> f)

    def kept(v):  # Orion panics beyond, and so does the C: it returns 1
        return np.clip(v, -MOST, MOST)

    graph, points = onnx.load(model).graph, 0
    constants = {i.name: numpy_helper.to_array(i).astype(np.float64) for i in graph.initializer}
    constants |= {n.output[0]: numpy_helper.to_array(n.attribute[0].t) for n in graph.node if n.op_type == "Constant"}
    nodes = [node for node in graph.node if node.op_type != "Constant"]
    names, entries = unique_names(graph.node), {e["node"]: e for e in entries}
    need({names[id(node)] for node in nodes} == set(entries), "every node has one entry, and no other has")
    for node in nodes:
        e, given = entries[names[id(node)]], [constants.get(name) for name in node.input]
        need(node.op_type == "QLinearConv" and e["kind"] == "staircase", f"{e['node']}: it is a staircase of sums")
        x_scale, w_scale, y_scale = (int(float(given[i].reshape(())) * 2**f) for i in (1, 4, 6))
        x_zero, w_zero, y_zero = (int(given[i].reshape(())) for i in (2, 5, 7))
        x = cut(((np.arange(-128, 128) - x_zero) << f) * x_scale)
        x = x[abs(x) <= MOST][[0, -1]].astype(object)
        w = cut(((given[3].astype(np.int64) - w_zero) << f) * w_scale).reshape(*given[3].shape[:2], -1).astype(object)
        bias = given[8].astype(np.int64) * (x_scale * w_scale >> f) if len(given) > 8 and node.input[8] else 0
        parts = kept(cut(w * x[0])), kept(cut(w * x[1])), 0 * w  # a tap may lie outside the image
        sums = [kept(pick.reduce(parts).sum(axis=2)).sum(axis=1) for pick in (np.minimum, np.maximum)]
        has_groups = any(a.name == "group" and a.i > 1 for a in node.attribute)
        lo, hi = ((kept(each) if has_groups else each) + bias for each in sums)
        least, most = (last_requantized(sign, f, y_scale, y_zero) for sign in (-1, 1))
        low, high = e["accumulator"]
        need(least <= low <= max(lo.min(), least), f"{e['node']}: accumulator")
        need(min(hi.max(), most) <= high <= most, f"{e['node']}: accumulator")
        steps = np.array(e["thresholds"], np.int64)
        need(steps.shape == (255,) and (np.diff(steps) >= 0).all(), f"{e['node']}: thresholds of 255 codes, in order")
        acc = np.clip(np.concatenate([[low, high], steps, steps - 1]), low, high)
        moved = np.sign(acc) * ((np.abs(acc) << f) // y_scale) + (y_zero << f)
        codes = cut(np.clip(moved, -128 << f, 127 << f))
        need((steps[:, None] <= acc).sum(axis=0) - 128 == codes, f"{e['node']}: the thresholds are the formula's")
        points += acc.size
    return points


def unique_names(nodes):
    """A name for every node: its own, or the operator's with a number; of equal names the first keeps it."""
    taken, used, names = {n.name for n in nodes if n.name}, set(), {}
    for node in nodes:
        name = node.name
        if not name or name in used:
            number = 1 if name else 0
            while f"{name or node.op_type}_{number}" in taken:
                number += 1
            name = f"{name or node.op_type}_{number}"
            taken.add(name)
        used.add(name)
        names[id(node)] = name
    return names


FIELDS = {"arithmetic", "files", "float", "model", "nodes", "options", "qcgen", "schema"}
TEXTS = ("node", "symbol", "kind", "form", "rounding")
SHIFTS = {"shift": 31, "fine_shift": 31, "k": 31, "word": 32, "prescale": 63}
SINGLE = {"low", "high", "fine_offset", "exception_window", "axis", "factor", "slope", "window", *SHIFTS}
SINGLE |= {"half", "least", "most", "guard", "mask", "limit"}
LONG = ("offset", "thresholds")  # some of them have 64 bits in C


def is_of_c(value, field=None):
    """Whether all numbers are integers that shift, or fit the types that the C has for them, with some room."""
    if field == "joined":
        return isinstance(value, list) and all(isinstance(name, str) for name in value)
    if isinstance(value, dict):
        return field in (None, "fast") and all(is_of_c(part, name) for name, part in value.items())
    if isinstance(value, list):
        return field not in (*SINGLE, *TEXTS, "fast", None) and all(is_of_c(part, field) for part in value)
    if field in TEXTS:
        return isinstance(value, str)
    if value is None:
        return field in ("guard", "window")
    least, most = (
        (0, SHIFTS[field]) if field in SHIFTS else (-(2**63), 2**63 - 1) if field in LONG else (-(2**33), 2**33)
    )
    return type(value) is int and least <= value <= most


def printable(text):
    """On one line, and nothing that drives a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def opened(model, certificate, folder=None):
    """The certificate, if it is whole and belongs to the model and to the files beside it; raises Wrong."""
    body = json.loads(Path(certificate).read_text(encoding="utf-8"))
    given = body.pop("sha256", None)
    text = json.dumps(body, sort_keys=True, separators=(",", ":")).encode()
    need(given == sha256(text), "sha256 is that of the certificate")
    need(body["schema"] == 1, "the schema is 1")
    need(set(body) == FIELDS, f"the fields are {', '.join(sorted(FIELDS))} and sha256")
    for e in body["nodes"]:
        need(is_of_c(e), f"{e['node']}: its numbers are integers, within the range of their types in C")
    need(
        body["model"]["sha256"] == hashlib.sha256(Path(model).read_bytes()).hexdigest(),
        "the model is the certified one",
    )
    for name, digest in body["files"].items():
        file = Path(folder or Path(certificate).parent) / name
        need(file.is_file() and sha256(file.read_bytes()) == digest, f"{name} is the certified file")
    return body


def check(model, certificate, folder=None):
    """The number of points compared, and the nodes that are said to be computed in float32; raises Wrong."""
    body = opened(model, certificate, folder)
    if body["options"]["numerics"].startswith("orion"):
        bits = {"fp16x16": 16, "fp8x23": 23}[body["options"]["numerics"][6:]]
        return check_orion(model, body["nodes"], bits), []
    need(body["arithmetic"].get("onnxruntime"), "the arithmetic is onnxruntime's or Orion's")
    walked = Model(model, body["nodes"], body["float"], body["options"].get("outputs", ()))
    walked.walk()
    return walked.points, body["float"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL.onnx", help="the model that was compiled, as it was then")
    parser.add_argument("certificate", metavar="NAME.cert.json", help="what qcgen compile --certificate wrote")
    parser.add_argument("folder", nargs="?", help="where the C files are (default: beside the certificate)")
    args = parser.parse_args()
    try:
        with np.errstate(all="ignore"):
            points, in_float = check(args.model, args.certificate, args.folder)
    except Exception as error:  # whatever a file that qcgen did not write leads to, it is not confirmed
        sys.exit(printable(f"not confirmed: {error if isinstance(error, Wrong) else repr(error)}"))
    sys.stdout.reconfigure(errors="backslashreplace")
    print(f"confirmed: {points:,} points")
    if in_float:
        print(printable(f"computed in float32, where there is nothing to confirm: {', '.join(in_float)}"))


if __name__ == "__main__":
    main()
