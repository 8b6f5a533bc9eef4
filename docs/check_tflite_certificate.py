"""Checks a certificate of qcgen against its .tflite file, from the formulas in quantization.md alone.

Nothing of qcgen is used: this reads the file, finds what every tensor can hold and what the output codes of each sum
are, in TensorFlow Lite's integers, and compares the certificate's numbers with that at both sides of every step. It
ends with status 0, the number of points compared and the nodes that it does not know, or with status 1 and what is
wrong. It needs numpy, and check_certificate.py beside it, which compares steps and pairs.
"""

import argparse
import math
import struct
import sys
from pathlib import Path

import numpy as np
from check_certificate import Wrong, check_pairs, check_step, covers, need, opened, printable

KINDS = {
    0: "ADD", 1: "AVERAGE_POOL_2D", 2: "CONCATENATION", 3: "CONV_2D", 4: "DEPTHWISE_CONV_2D", 9: "FULLY_CONNECTED",
    14: "LOGISTIC", 17: "MAX_POOL_2D", 18: "MUL", 19: "RELU", 21: "RELU6", 22: "RESHAPE", 25: "SOFTMAX", 34: "PAD",
    39: "TRANSPOSE", 40: "MEAN", 41: "SUB", 43: "SQUEEZE", 74: "SUM", 98: "LEAKY_RELU", 101: "ABS", 114: "QUANTIZE",
}  # fmt: skip
SUMMING = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
TYPES = {0: np.float32, 2: np.int32, 3: np.uint8, 4: np.int64, 7: np.int16, 9: np.int8}
TENSORS_OF_8_BITS = (3, 9)


# ---- the formulas ----


def half_away(value):
    return math.floor(value + 0.5) if value >= 0 else -math.floor(0.5 - value)


def multiplier(scale):  # q and e of (78)
    fraction, e = math.frexp(scale)
    q = half_away(fraction * 2.0**31)
    q, e = (2**30, e + 1) if q == 2**31 else (q, e)
    return (0, 0) if e < -31 else (q, e)


def twice(acc, q, e):  # (78), without the zero point
    left, right = np.maximum(e, 0), np.maximum(-e, 0)
    h = ((acc << left) * q + 2**30) >> 31
    return np.sign(h) * ((np.abs(h) + ((1 << right) >> 1)) >> right)


def away(total, count):  # (79)
    return np.sign(total) * ((np.abs(total) + count // 2) // count)


def bounds(activation, scale, zero, low, high):  # of a fused activation
    def code(value):
        return zero + half_away(float(np.float32(value) / np.float32(scale)))

    if activation in (1, 3):
        low = max(low, code(0))
    elif activation == 2:
        low, high = max(low, code(-1)), min(high, code(1))
    return low, min(high, code(6)) if activation == 3 else high


def high(a, b):  # floor((a b + 2^30) / 2^31)
    return (a * b + 2**30) >> 31


def exponential(x):  # of x <= 0 in units of 2^-26, in units of 2^-31: gemmlowp's fixed point
    quarter = (x & (2**24 - 1)) - 2**24
    a = (quarter << 5) + 2**28
    square = high(a, a)
    tail = high(square, a) + away(high(square, square), 4)
    result = 1895147668 + high(1895147668, a + away(high(tail, 715827883) + square, 2))
    for bit, factor in enumerate((1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242), start=24):
        result = np.where((quarter - x) >> bit & 1, high(result, factor), result)
    return np.where(x == 0, 2**31 - 1, result)


class Unknown(Exception):
    """What a node is given comes from one that is not looked at."""


# ---- the file ----


class Table:
    def __init__(self, data, at):
        self.data, self.at = data, at
        self.vtable = at - struct.unpack_from("<i", data, at)[0]
        [self.size] = struct.unpack_from("<H", data, self.vtable)

    def place(self, field):
        if 4 + 2 * field >= self.size:
            return 0
        [offset] = struct.unpack_from("<H", self.data, self.vtable + 4 + 2 * field)
        return offset and self.at + offset

    def number(self, field, kind, default=0):
        place = self.place(field)
        return struct.unpack_from(f"<{kind}", self.data, place)[0] if place else default

    def target(self, field):
        place = self.place(field)
        return place and place + struct.unpack_from("<I", self.data, place)[0]

    def table(self, field):
        target = self.target(field)
        return Table(self.data, target) if target else None

    def array(self, field, kind):
        target = self.target(field)
        if not target:
            return np.zeros(0, kind)
        return np.frombuffer(self.data, kind, struct.unpack_from("<I", self.data, target)[0], target + 4)

    def tables(self, field):
        start = self.target(field)
        places = self.array(field, "<u4") if start else ()
        return [Table(self.data, start + 4 + 4 * i + int(offset)) for i, offset in enumerate(places)]


class Tensor:
    """Its shape, type, scales and zero points; the elements of a constant; the codes that it can hold, (lo, hi)."""

    def __init__(self, told, buffers):
        self.shape, self.type = tuple(map(int, told.array(0, "<i4"))), told.number(1, "b")
        by, content = told.table(4), buffers[told.number(2, "I")].array(0, np.uint8)
        self.scales = by.array(2, "<f4").astype(np.float64) if by else np.zeros(0)
        zeros = by.array(3, "<i8") if by else np.zeros(0, np.int64)
        self.zero = int(zeros[0]) if zeros.size else 0
        known = TYPES.get(self.type)
        self.constant = content.view(known).reshape(self.shape).astype(np.int64) if content.size and known else None
        self.lo = self.hi = self.constant
        self.is_known, self.dropped = True, np.zeros(0, np.int64)
        if self.constant is None and self.type in TENSORS_OF_8_BITS:
            self.fill(*self.ends)

    @property
    def ends(self):
        info = np.iinfo(TYPES[self.type])
        return int(info.min), int(info.max)

    @property
    def scale(self):
        return float(self.scales[0])

    def fill(self, lo, hi):
        self.lo, self.hi = (np.array(np.broadcast_to(v, self.shape), np.int64) for v in (lo, hi))

    def channels(self):
        """The least and the greatest code of each place of the last axis."""
        axes = tuple(range(len(self.shape) - 1))
        return self.lo.min(axis=axes), self.hi.max(axis=axes)


class Network:
    def __init__(self, data, entries):
        need(data[4:8] == b"TFL3", "the model is a .tflite file")
        model = Table(data, struct.unpack_from("<I", data, 0)[0])
        graph = model.tables(2)[0]
        self.tensors = [Tensor(told, model.tables(4)) for told in graph.tables(0)]
        codes = [max(c.number(0, "b"), c.number(3, "i")) for c in model.tables(1)]
        self.operators = graph.tables(3)
        self.kinds = [codes[o.number(0, "I")] for o in self.operators]
        read = {int(i) for o in self.operators for i in o.array(1, "<i4")} | set(map(int, graph.array(2, "<i4")))
        for number, tensor in enumerate(self.tensors):
            tensor.is_read = number in read
        joined = {name for e in entries for name in e.get("joined", ())}
        self.entries, self.points, self.unknown = {}, 0, sorted(joined)
        for e in entries:
            self.entries.setdefault(e["node"], []).append(e)

    def walk(self):
        for index, (operator, code) in enumerate(zip(self.operators, self.kinds)):
            kind = KINDS.get(code, "")
            own = [e for name, every in self.entries.items() if name.rpartition("_")[2] == str(index) for e in every]
            need(all(e["node"] == f"{kind}_{index}" for e in own if kind), f"operator {index} is {kind}")
            given = [self.tensors[i] if i >= 0 else None for i in operator.array(1, "<i4")]
            results = [self.tensors[i] for i in operator.array(2, "<i4")]
            rule = getattr(self, kind.lower(), None) if kind else None
            is_of_codes = all(t is None or t.type in (2, *TENSORS_OF_8_BITS) for t in (*given, *results))
            is_joined = f"{kind}_{index}" in self.unknown or "joined" in (own or [{}])[0]
            is_whole = kind in SUMMING or not any(t is not None and t.dropped.size for t in given)
            is_looked_at = rule is not None and is_of_codes and is_whole and len(own) <= 1 and not is_joined
            for y in results:
                y.is_known = is_looked_at and all(t is None or t.is_known for t in given)
            self.name, self.result = f"{kind}_{index}", results[0] if results else None
            try:
                need(is_looked_at, "another operator")
                rule(own[0] if own else None, operator.table(4), given, results[0])
            except Unknown:
                is_looked_at = False
            except Wrong:
                if is_looked_at:
                    raise
            if not is_looked_at:
                self.unknown += [e["node"] for e in own]
                for y in results:
                    y.is_known = False

    # ---- sums ----

    @staticmethod
    def seen(size, image, count, stride, dilation):
        """Which taps along an axis windows have in the image: each way once, (ways, size)."""
        pad = max((count - 1) * stride + (size - 1) * dilation + 1 - image, 0) // 2
        places = np.arange(count)[:, None] * stride - pad + np.arange(size) * dilation
        return np.unique((places >= 0) & (places < image), axis=0)

    def sums(self, e, x, weights, bias, windows=(True,)):
        """The least and the greatest sums (M,) with weights (M, C, taps) of the last axis of x.

        ``windows``: of each way to reach into padding, which adds nothing, the taps that are in the image.
        """
        lo, hi = x.channels()
        if e and "x_range" in e and not covers(e["x_range"], lo, hi):
            need(not x.is_known, f"{e['node']}: x_range")
            raise Unknown
        kept = e.get("channels", slice(None)) if e else slice(None)
        need(not weights[kept][:, x.dropped].any(), f"{self.name}: it reads channels that are not computed")
        ends = [(weights * (v - x.zero)[:, None]).astype(np.int64) for v in (lo, hi)]
        least = [np.where(inside, np.minimum(*ends), 0).sum(axis=(1, 2)) for inside in windows]
        most = [np.where(inside, np.maximum(*ends), 0).sum(axis=(1, 2)) for inside in windows]
        return np.minimum.reduce(least) + bias, np.maximum.reduce(most) + bias

    def requantized(self, e, least, most, scales, y, low, high):
        found = [multiplier(float(s)) for s in np.broadcast_to(scales, least.shape)]
        q, exponent = (np.array(v, np.int64)[:, None] for v in zip(*found))
        return self.stepped(
            e, "twice", least, most, y.zero, low, high, lambda acc, c: twice(acc, q[c], exponent[c]), (q, exponent)
        )

    def stepped(self, e, rounding, least, most, zero, low, high, exact, numbers=None):
        """Checks an entry; the codes at the ends, (2, M)."""

        def codes(acc, channels):
            return np.clip(exact(acc, channels) + zero, low, high)

        every = np.arange(len(least))
        if e:
            name, kept = e["node"], np.array(e.get("channels", every))
            need(e.get("rounding") == rounding, f"{name}: rounding")
            need((e["low"], e["high"]) == (low, high), f"{name}: low and high")
            need(covers(e["accumulator"], least[kept], most[kept]), f"{name}: accumulator")
            lo, hi = (np.array(v, np.int64) for v in e["accumulator"])
            need(covers(e["y_range"], *(codes(v[:, None], kept)[:, 0] for v in (lo, hi))), f"{name}: y_range")
            if "mantissa" in e and numbers is not None:
                need(np.array_equal(e["mantissa"], numbers[0][kept, 0]), f"{name}: mantissa")
                need(np.array_equal(e["exponent"], numbers[1][kept, 0]), f"{name}: exponent")
            self.points += check_step(e, None, zero, lo, hi, lambda acc: codes(acc, kept))
        ends = tuple(codes(v[:, None], every)[:, 0] for v in (least, most))
        left_out = np.setdiff1d(every, kept) if e else every
        left_out = left_out[(ends[0] != ends[1])[left_out]]
        self.may_lack(e, not left_out.size)
        self.result.dropped = left_out
        return ends

    def may_lack(self, e, is_constant):
        """A node without an entry writes constants, or what is not read."""
        need(e or is_constant or not self.result.is_read, f"{self.name}: it has no entry")

    def conv_2d(self, e, options, given, y):
        x, w, *rest = given
        kernel = w.constant.transpose(0, 3, 1, 2)
        self.convolution(e, options, x, kernel.reshape(*kernel.shape[:2], -1), w, rest, y, 3, ((1, 2), (4, 5)))

    def depthwise_conv_2d(self, e, options, given, y):
        x, w, *rest = given
        count, channels = w.shape[3], x.shape[3]
        whole = np.zeros((count, channels, w.shape[1] * w.shape[2]), np.int64)
        owners = np.arange(count) // (count // channels)
        whole[np.arange(count), owners] = w.constant.transpose(3, 0, 1, 2).reshape(count, -1)
        self.convolution(e, options, x, whole, w, rest, y, 4, ((1, 2), (5, 6)))

    def convolution(self, e, options, x, weights, w, rest, y, field, places):
        activation = options.number(field, "b")
        if x.shape[-1] != weights.shape[1]:
            raise Wrong("groups of CONV_2D are not known here")
        bias = rest[0].constant if rest and rest[0] is not None else 0
        strides, dilations = ([options.number(field, "i", 1) for field in fields][::-1] for fields in places)
        parts = list(zip(w.shape[1:3], x.shape[1:3], y.shape[1:3], strides, dilations))
        down, across = (self.seen(*part) for part in parts)
        windows = [np.outer(rows, columns).reshape(-1) for rows in down for columns in across]
        least, most = self.sums(e, x, weights, bias, windows)
        scales = w.scales * x.scale / y.scale
        y.fill(*self.requantized(e, least, most, scales, y, *bounds(activation, y.scale, y.zero, *y.ends)))

    def fully_connected(self, e, options, given, y):
        x, w, *rest = given
        rows = Tensor.__new__(Tensor)
        rows.shape, rows.zero, rows.is_known = (x.lo.size // w.shape[1], w.shape[1]), x.zero, x.is_known
        rows.dropped = x.dropped
        rows.lo, rows.hi = x.lo.reshape(rows.shape), x.hi.reshape(rows.shape)
        bias = rest[0].constant if rest and rest[0] is not None else 0
        activation = options.number(0, "b") if options else 0
        least, most = self.sums(e, rows, w.constant[:, :, None], bias)
        scales = w.scales * x.scale / y.scale
        codes = self.requantized(e, least, most, scales, y, *bounds(activation, y.scale, y.zero, *y.ends))
        y.lo, y.hi = (np.broadcast_to(v, (rows.shape[0], w.shape[0])).reshape(y.shape) for v in codes)

    def mean(self, e, options, given, y):
        self.reduced(e, given, y, is_mean=True)

    def sum(self, e, options, given, y):
        self.reduced(e, given, y, is_mean=False)

    def reduced(self, e, given, y, is_mean):
        x, axes = given[0], tuple(int(a) % len(given[0].shape) for a in given[1].constant.reshape(-1))
        count = math.prod(x.shape[a] for a in axes)
        q, exponent = multiplier(x.scale / y.scale)
        if is_mean:
            shift = min(count.bit_length() - 1, 32, 31 + exponent)
            q, exponent = (q << shift) // count, exponent - shift
        sums = [(v - x.zero).sum(axis=axes) for v in (x.lo, x.hi)]
        ends = np.array([sums[0].min()]), np.array([sums[1].max()])
        numbers = np.array([[q]]), np.array([[exponent]])
        self.stepped(e, "twice", *ends, y.zero, *y.ends, lambda acc, c: twice(acc, q, exponent), numbers)
        y.lo, y.hi = (np.clip(twice(v, q, exponent) + y.zero, *y.ends).reshape(y.shape) for v in sums)

    def average_pool_2d(self, e, options, given, y):
        [x] = given
        width, height = options.number(3, "i"), options.number(4, "i")
        count, low_high = width * height, bounds(options.number(5, "b"), y.scale, y.zero, *y.ends)
        lo, hi = x.channels()
        y.fill(np.clip(lo, *low_high), np.clip(hi, *low_high))
        if e is None:
            return
        size = len(e["addend"])
        least, most = (np.broadcast_to((v - x.zero) * count, (len(v),))[:size] for v in (lo, hi))
        if size == 1:
            least, most = least.min(keepdims=True), most.max(keepdims=True)
        need((e["of_sum"], e["count"]) == (count * x.zero, count), f"{e['node']}: of_sum and count")
        exact = lambda acc, c: away(acc + count * x.zero, count)  # noqa: E731
        self.stepped(e, "away", least, most, 0, *low_high, exact)

    # ---- pairs and tables ----

    def add(self, e, options, given, y):
        self.added(e, options, given, y, 1)

    def sub(self, e, options, given, y):
        self.added(e, options, given, y, -1)

    def added(self, e, options, given, y, sign):
        a, b = given
        both = 2 * max(a.scale, b.scale)
        qa, qb, qy = (multiplier(s) for s in (a.scale / both, b.scale / both, both / (2.0**20 * y.scale)))

        def function(p, q):
            first, second = twice((p - a.zero) << 20, *qa), twice((q - b.zero) << 20, *qb)
            return twice(first + sign * second, *qy) + y.zero

        self.paired(e, options, function, a, b, y, lambda p, q: [p, q])

    def mul(self, e, options, given, y):
        a, b = given
        by = multiplier(a.scale * b.scale / y.scale)
        self.paired(
            e,
            options,
            lambda p, q: twice((p - a.zero) * (q - b.zero), *by) + y.zero,
            a,
            b,
            y,
            lambda p, q: [(p - a.zero) * (q - b.zero)],
        )

    def paired(self, e, options, function, a, b, y, terms):
        low, high = bounds(options.number(0, "b") if options else 0, y.scale, y.zero, *y.ends)
        corners = [np.clip(function(u, v), low, high) for u in (a.lo, a.hi) for v in (b.lo, b.hi)]
        y.fill(np.minimum.reduce(corners), np.maximum.reduce(corners))
        self.may_lack(e, e or (y.lo == y.hi).all())
        if e:
            need(e["kind"] == "pairs", f"{e['node']}: the kind is pairs")
            for tensor, codes in ((a, e["a_codes"]), (b, e["b_codes"])):
                every = (
                    tensor.constant if tensor.constant is not None else np.arange(tensor.lo.min(), tensor.hi.max() + 1)
                )
                need(np.isin(every, codes).all(), f"{e['node']}: a_codes, b_codes")
            p, q = (v.ravel() for v in np.meshgrid(e["a_codes"], e["b_codes"], indexing="ij"))
            self.points += check_pairs(e, np.clip(function(p, q), low, high), terms(p, q), low, high)

    def tabled(self, e, x, y, function):
        codes = np.arange(*(x.ends + np.array([0, 1])))
        table = np.clip(function(codes - x.zero) + y.zero, *y.ends)
        reached = table[int(x.lo.min()) - x.ends[0] : int(x.hi.max()) - x.ends[0] + 1]
        y.fill(reached.min(), reached.max())
        if e:
            need(e["kind"] == "table" and np.array_equal(e["values"], table), f"{e['node']}: values")
            self.points += table.size

    def quantize(self, e, options, given, y):
        by = multiplier(given[0].scale / y.scale)
        self.tabled(e, given[0], y, lambda v: twice(v, *by))

    def relu(self, e, options, given, y):
        by = multiplier(given[0].scale / y.scale)
        self.tabled(e, given[0], y, lambda v: np.maximum(twice(v, *by), 0))

    def leaky_relu(self, e, options, given, y):
        x, alpha = given[0], float(np.float32(options.number(0, "f")))
        above, below = multiplier(x.scale / y.scale), multiplier(x.scale * alpha / y.scale)
        self.tabled(e, x, y, lambda v: np.where(v < 0, twice(v, *below), twice(v, *above)))

    def abs(self, e, options, given, y):
        by = multiplier(given[0].scale / y.scale)
        self.tabled(e, given[0], y, lambda v: twice(np.abs(v), *by))

    def softmax(self, e, options, given, y):
        if e:
            need(e["kind"] == "integer softmax", f"{e['node']}: the kind is integer softmax")
            q, left = multiplier(min(options.number(0, "f") * given[0].scale * 2.0**26, 2.0**31 - 1))
            far, distance = 31 << 26 >> left, np.arange(255, -1, -1)
            table = exponential(high(-np.minimum(distance, far) << left, q))
            need(np.array_equal(e["exponentials"], np.where(distance <= far, table, 0)), f"{e['node']}: exponentials")
            self.points += table.size

    # ---- what only moves codes ----

    def reshape(self, e, options, given, y):
        y.lo, y.hi = (v.reshape(y.shape) for v in (given[0].lo, given[0].hi))

    squeeze = reshape

    def transpose(self, e, options, given, y):
        order = given[1].constant.reshape(-1)
        y.lo, y.hi = (v.transpose(order) for v in (given[0].lo, given[0].hi))

    def concatenation(self, e, options, given, y):
        axis = options.number(0, "i")
        y.lo, y.hi = (np.concatenate([getattr(t, end) for t in given], axis) for end in ("lo", "hi"))

    def pad(self, e, options, given, y):
        pads = given[1].constant
        y.lo, y.hi = (np.pad(v, pads, constant_values=given[0].zero) for v in (given[0].lo, given[0].hi))

    def max_pool_2d(self, e, options, given, y):
        y.fill(*given[0].channels())


def check(model, certificate, folder=None):
    """The number of points compared, and the nodes that are not known; raises Wrong."""
    body = opened(model, certificate, folder)
    need(body["arithmetic"] == {"numerics": "tflm"}, "the arithmetic is TensorFlow Lite Micro's")
    network = Network(Path(model).read_bytes(), body["nodes"])
    network.walk()
    return network.points, list(dict.fromkeys([*network.unknown, *body["float"]]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL.tflite", help="the file that was compiled, as it was then")
    parser.add_argument("certificate", metavar="NAME.cert.json", help="what qcgen compile --certificate wrote")
    parser.add_argument("folder", nargs="?", help="where the C files are (default: beside the certificate)")
    args = parser.parse_args()
    try:
        with np.errstate(all="ignore"):
            points, unknown = check(args.model, args.certificate, args.folder)
    except Exception as error:  # whatever a file that qcgen did not write leads to, it is not confirmed
        sys.exit(printable(f"not confirmed: {error if isinstance(error, Wrong) else repr(error)}"))
    print(f"confirmed: {points:,} points")
    if unknown:
        print(printable(f"not looked at: {', '.join(unknown)}"))


if __name__ == "__main__":
    main()
