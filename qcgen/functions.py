"""The functions of a float32 number that onnxruntime has, operation by operation: tables are made with them.

They depend on nothing but float32 arithmetic that rounds as IEEE 754 says: not on the host's C library, not on numpy's
own functions. Equations and checks are those of docs/quantization.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal, localcontext
from math import copysign, inf, isinf, isnan, log, nan

import numpy as np

from qcgen.arithmetic import fused
from qcgen.ir.program import Float32s

_TANH_P = (
    *(-2.76076847742355e-16, 2.00018790482477e-13, -8.60467152213735e-11, 5.12229709037114e-08),
    *(1.48572235717979e-05, 6.37261928875436e-04, 4.89352455891786e-03),
)
_TANH_Q = (1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03)

_LOGISTIC_P = (
    *(4.37031012579801e-11, 1.15627324459942e-07, 6.08574864600143e-05, 8.51377133304701e-03),
    *(2.48287947061529e-01,),
)
_LOGISTIC_Q = (
    *(6.10247389755681e-13, 5.76102136993427e-09, 6.29106785017040e-06),
    *(1.70198817374094e-03, 1.16817656904453e-01, 9.93151921023180e-01),
)

UNSTEADY = frozenset(("Celu", "Cos", "Elu", "Log", "Mish", "Pow", "Selu", "Sin", "Softplus"))
"""Functions that depend on the place of a number in its tensor in onnxruntime, or on its C library."""


def tanh(x: Float32s) -> Float32s:
    """Equation (25): x p(x^2) / q(x^2) with x clamped to [-9, 9], p and q by Horner's rule with fma.

    Source: MlasComputeTanh for FMA3. Checked: 0 of 1,500,032 numbers differ from onnxruntime's.
    """
    value = np.clip(x, np.float32(-9), np.float32(9))
    square = value * value
    result: Float32s = _horner_fused(square, _TANH_P) * value / _horner_fused(square, _TANH_Q)
    return result


def unfused_tanh(x: Float32s) -> Float32s:
    """Equation (25) without fma and with x clamped to [-10, 10], as a GRU has it. Source: gru_output_gate_tanh."""
    value = np.clip(x, np.float32(-10), np.float32(10))
    square = value * value
    return np.asarray(_horner(square, _TANH_P) * value / _horner(square, _TANH_Q), np.float32)


def logistic(x: Float32s) -> Float32s:
    """Equation (19): 1 / (1 + e^-x) as max(x p(x^2) / q(x^2) + 1/2, 0), x clamped to [-18, 18]; above 1 by one ulp.

    p and q by Horner's rule with fma. Source: MlasComputeLogistic for FMA3. Checked: 0 of 76,800 outputs of
    QLinearSigmoid differ, 300 whole tables, and 0 of 1,500,032 numbers.
    """
    value = np.clip(x, np.float32(-18), np.float32(18))
    square = value * value
    p, q = _horner_fused(square, _LOGISTIC_P), _horner_fused(square, _LOGISTIC_Q)
    result: Float32s = np.maximum(p * value / q + np.float32(0.5), np.float32(0))
    return result


def sine(x: Float32s) -> Float32s:
    """sin x, rounded once. onnxruntime's depends on the place of x in its tensor: 14 % are the next float32 number."""
    return np.array([_sine(float(each), 0) for each in x.flat], np.float32).reshape(x.shape)


def cosine(x: Float32s) -> Float32s:
    """cos x, rounded once. onnxruntime's depends on the place of x in its tensor: 19 % are the next float32 number."""
    return np.array([_sine(float(each), 1) for each in x.flat], np.float32).reshape(x.shape)


_PI = Decimal(
    "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211706798215"
)
_ANGLE = Context(prec=90, traps=[])  # of these, a float32 number has up to 39 digits before the point


def _sine(x: float, quarters: int) -> float:
    """sin (x + quarters pi/2), by its series around the nearest multiple of pi."""
    if isinf(x) or isnan(x):
        return nan
    if x == 0 and quarters == 0:
        return x
    with localcontext(_ANGLE):
        angle = Decimal(x) + quarters * _PI / 2
        turns = (angle / _PI).to_integral_value()
        rest = angle - turns * _PI
        term = total = -rest if turns % 2 else rest
        for k in range(2, 80, 2):
            term *= -rest * rest / (k * (k + 1))
            total += term
    return float(total)


LOG2_E = np.float32(1.44269504088896341)


def exponential(x: Float32s) -> Float32s:
    """Equation (26): e^x as 2^m times a polynomial of x - m ln 2, m the integer next to x / ln 2, all with fma.

    x is clamped to [-103.972, 88.776]. Source: MlasComputeExp for FMA3 and AVX512, the kernel of Exp. Checked: 0 of
    1,500,032 numbers differ.
    """
    value, m = _reduced(np.clip(x, np.float32(-103.9720840454), np.float32(88.7762626647950)))
    p = _horner_fused(value, [float.fromhex(c) for c in _EXPONENTIAL])
    return _times_power_of_two(p, m)


def _reduced(x: Float32s) -> tuple[Float32s, Float32s]:
    """x - m ln 2 and m, the integer next to x / ln 2."""
    rounding = np.float32(1.5 * 2**23)  # what is added to it is rounded to an integer, half to even
    m = fused(x, np.asarray(LOG2_E), np.asarray(rounding)) - rounding
    for part in (-6.93145752e-1, -1.42860677e-6):  # -ln 2 in two parts
        x = fused(m, np.asarray(np.float32(part)), x)
    return x, m


_EXPONENTIAL = ("0x1.694p-10", "0x1.125edcp-7", "0x1.555b5ap-5", "0x1.55545p-3", "0x1.fffff6p-2", "0x1p0", "0x1p0")


def elu(x: Float32s, alpha: float) -> Float32s:
    """Equation (27): x where it is at least 0, else alpha * (e^x - 1), e^x by Eigen's approximation.

    Source: Elu. Checked: 0 of 1,500,032 numbers differ. Where a tensor, or a thread's part of it, is not a multiple
    of 4 long, onnxruntime computes the last numbers by the C library, which gives some of them another last bit.
    """
    result: Float32s = np.where(x >= 0, x, np.float32(alpha) * (_eigen_exponential(x) - np.float32(1)))
    return result


def softplus(x: Float32s) -> Float32s:
    """Equation (28): ln(1 + e^x), x + ln(1 + e^-x) for x > 0, both functions by Eigen's approximations.

    Source: Softplus. Checked: 0 of 1,500,032 numbers differ; the last numbers of a tensor may, as in ``elu``.
    """
    result: Float32s = np.where(x > 0, x, np.float32(0)) + _eigen_log1p(_eigen_exponential(-np.abs(x)))
    return result


def leaky_relu(x: Float32s, alpha: float) -> Float32s:
    """Equation (20): x where it is at least 0, else fl32(alpha * x).

    Source: QLinearLeakyRelu and LeakyRelu. Checked: 0 of 76,800 outputs differ, 300 whole tables.
    """
    result: Float32s = np.where(x >= 0, x, np.float32(alpha) * x)
    return result


def hard_sigmoid(x: Float32s, alpha: float, beta: float) -> Float32s:
    """Equation (29): clamp(fl32(fl32(alpha * x) + beta), 0, 1).

    Source: HardSigmoid. Checked: 0 of 1,500,032 numbers differ.
    """
    result: Float32s = np.clip(np.float32(alpha) * x + np.float32(beta), np.float32(0), np.float32(1))
    return result


def hard_swish(x: Float32s) -> Float32s:
    """Equation (30): x * hard_sigmoid(x) with alpha = fl32(1 / 6) and beta = 1/2: onnxruntime takes it apart so.

    Checked: 0 of 1,500,032 numbers differ.
    """
    return x * hard_sigmoid(x, 1 / 6, 0.5)


def selu(x: Float32s, alpha: float, gamma: float) -> Float32s:
    """Equation (60): gamma * x where x > 0, else fl32(gamma * alpha) * (e^x - 1), e^x by Eigen's approximation.

    Source: Selu. Checked: 0 of 1,000,000 numbers differ; the last numbers of a tensor may, as in ``elu``.
    """
    below = np.float32(gamma) * np.float32(alpha) * (_eigen_exponential(x) - np.float32(1))
    result: Float32s = np.where(x > 0, np.float32(gamma) * x, below)
    return result


def celu(x: Float32s, alpha: float) -> Float32s:
    """Equation (61): max(x, 0) + min(alpha * (e^(x / alpha) - 1), 0), e^x by Eigen's approximation.

    Source: Celu. Checked: 0 of 1,000,000 numbers differ; the last numbers of a tensor may, as in ``elu``.
    """
    scaled = np.float32(alpha) * (_eigen_exponential(x / np.float32(alpha)) - np.float32(1))
    return np.asarray(np.maximum(x, np.float32(0)) + np.minimum(scaled, np.float32(0)), np.float32)


def softsign(x: Float32s) -> Float32s:
    """Equation (62): x * fl32(1 / fl32(1 + |x|)). Source: Softsign. Checked: 0 of 1,000,000 numbers differ."""
    return np.asarray(x * (np.float32(1) / (np.float32(1) + np.abs(x))), np.float32)


def logarithm(x: Float32s) -> Float32s:
    """Equation (63): ln x by Eigen's approximation; minus infinity at 0, NaN below.

    Source: Log. Checked: 0 of 1,000,000 numbers differ; the last numbers of a tensor may, as in ``elu``.
    """
    is_usual = (x > 0) & (x < np.float32(inf))
    result = np.where(x == 0, np.float32(-inf), np.where(x > 0, x, np.float32(nan)))
    result[is_usual] = _eigen_log(x[is_usual])
    return np.asarray(result, np.float32)


_RECIPROCALS = (
    *(1.398907162146528, 1.3403141896637998, 1.286432210124115, 1.2367150214269895, 1.1906977166711752),
    *(1.1479821020556429, 1.1082251448272158, 1.0711297413057381, 1.036437278977283, 1.0, 0.9492859795739057),
    *(0.8951049428609004, 0.8476821620351103, 0.8050314851692001, 0.7664671008843108, 0.731428603316328),
)


def log_from_one(x: Float32s) -> Float32s:
    """ln x of x >= 1 as glibc's logf has it, in float64: x = 2^m z, z about 1 / r of a table, ln z by z r - 1.

    Source: glibc's logf, which onnxruntime calls. Checked: 0 of 201,326,592 numbers below 2^24 differ from that of
    version 2.36; from ln x rounded once 1 in 900 does.
    """
    places = np.ascontiguousarray(x).view(np.int32) - np.int32(0x3F330000)
    power, reciprocal = places >> 23, np.array(_RECIPROCALS)[places >> 19 & 15]
    rest = np.ldexp(x.astype(np.float64), -power) * reciprocal - 1
    square = rest * rest
    p = 0.333456765744066 * rest - 0.4999997485802103 - 0.25089342214237154 * square
    result: Float32s = (p * square + (power * log(2) - np.log(reciprocal) + rest)).astype(np.float32)
    return result


_ERF_SMALL = (-5.99104969e-4, 4.99339588e-3, -2.67667342e-2, 1.12818025e-1, -3.76124859e-1, 1.28379151e-1)
_ERF_BIG = (
    *(1.72948930e-5, -3.83208680e-4, 3.88393435e-3, -2.42545605e-2),
    *(1.06777847e-1, 6.34846687e-1, 1.28717512e-1),
)
_ERF_EXPONENTIAL = (1.38319808e-3, 8.37550033e-3, 4.16689515e-2, 1.66664466e-1, 4.99999851e-1, 1.0, 1.0)


def erf(x: Float32s) -> Float32s:
    """Equation (64): with a = min(|x|, 3.925), a + a p(a^2) where a <= 0.921875, else 1 - e^-(a + a q(a)), x's sign.

    All by Horner's rule with fma. Source: MlasErfKernel for FMA3. Checked: 0 of 1,000,000 numbers differ.
    """
    a = np.minimum(np.abs(x), np.float32(3.925))
    small = fused(_horner_fused(a * a, _ERF_SMALL), a, a)
    power, m = _reduced(-fused(_horner_fused(a, _ERF_BIG), a, a))
    big = np.float32(1) - _times_power_of_two(_horner_fused(power, _ERF_EXPONENTIAL), m)
    return np.copysign(np.where(a > np.float32(0.921875), big, small), x)


def gelu(x: Float32s) -> Float32s:
    """Equation (65): fl32(x / 2) * fl32(1 + erf(fl32(x * fl32(sqrt(1/2))))).

    Source: Gelu of ai.onnx and of com.microsoft. Checked: 0 of 1,000,000 numbers differ.
    """
    return np.asarray(np.float32(0.5) * x * (erf(x * np.float32(0.7071067811865476)) + np.float32(1)), np.float32)


def gelu_tanh(x: Float32s) -> Float32s:
    """Equation (66): fl32(x / 2) * fl32(1 + tanh(x * (b + c x x))), b = fl32(sqrt(2/pi)), c = fl32(0.044715 b).

    Source: Gelu with approximate = "tanh". Checked: 0 of 1,000,000 numbers differ.
    """
    b = np.float32(0.7978845608028654)
    inner = x * (b + np.float32(0.044715) * b * x * x)
    return np.asarray(np.float32(0.5) * x * (tanh(inner) + np.float32(1)), np.float32)


def power(x: Float32s, y: Float32s) -> Float32s:
    """Equation (67): x^y, for a single y of 2 and 3 by multiplications, else the real power rounded once.

    Source: Pow, which calls the C library's powf. Checked: with glibc 2.36, of 1,000,000 numbers each 590 to 677 differ
    in the last bit for each of 6 exponents, because powf rounds 0.06 % of its results the other way.
    """
    if y.size == 1 and float(y.reshape(())) in (2, 3):
        return np.asarray(x * x if y == 2 else x * x * x, np.float32)
    pairs = np.broadcast(x, y)
    return np.array([_power(float(a), float(b)) for a, b in pairs], np.float32).reshape(pairs.shape)


_REAL = Context(prec=60, traps=[])


def _power(x: float, y: float) -> float:
    """A number that float32 rounds as it does x^y, as IEEE 754 defines pow; to odd, as in ``fused``."""
    if x == 1 or y == 0:
        return 1.0
    if isnan(x) or isnan(y):
        return nan
    is_whole = isinf(y) or y.is_integer()
    if x < 0 and not isinf(x) and not is_whole:
        return nan
    magnitude = _magnitude(abs(x), y)
    return copysign(magnitude, x) if is_whole and not isinf(y) and y % 2 == 1 else magnitude


def _magnitude(x: float, y: float) -> float:
    """x^y for x >= 0, y no 0."""
    if x in (0, 1, inf) or isinf(y):
        return 1.0 if x == 1 else inf if (x > 1) == (y > 0) else 0.0
    exact = _REAL.power(Decimal(x), Decimal(y))
    nearest = float(exact)
    if nearest in (0, inf) or Decimal(nearest) == exact or np.float64(nearest).view(np.int64) & 1:
        return nearest
    return float(np.nextafter(nearest, inf if Decimal(nearest) < exact else -inf))


def _horner_fused(x: Float32s, coefficients: Sequence[float]) -> Float32s:
    """A polynomial, highest power first, each step rounded once."""
    total = np.full(x.shape, coefficients[0], np.float32)
    for coefficient in coefficients[1:]:
        total = fused(total, x, np.asarray(np.float32(coefficient)))
    return total


def _horner(x: Float32s, coefficients: Sequence[float]) -> Float32s:
    """A polynomial, highest power first, products and sums rounded."""
    total = np.full(x.shape, coefficients[0], np.float32)
    for coefficient in coefficients[1:]:
        total = total * x + np.float32(coefficient)
    return total


def _times_power_of_two(x: Float32s, exponent: Float32s) -> Float32s:
    """x * 2^exponent for integer exponents, rounded once where it is subnormal."""
    return np.ldexp(x.astype(np.float64), exponent.astype(np.int64)).astype(np.float32)


def _eigen_exponential(x: Float32s) -> Float32s:
    """e^x for x that is not a NaN. Source: Eigen's pexp_float without fma, in the version of onnxruntime."""
    value = np.clip(x, np.float32(-105), np.float32(88.723))
    m = np.floor(value * LOG2_E + np.float32(0.5))
    for part in (-0.693359375, 2.12194440e-4):
        value = m * np.float32(part) + value
    square = value * value
    even = _horner(square, (1.37449637986719608306884765625e-3, 4.166965186595916748046875e-2, 0.499999880790710449))
    odd = _horner(square, (8.36894474923610687255859375e-3, 0.16666518151760101318359375))
    p = square * (value * odd + even) + (value + np.float32(1))
    result: Float32s = np.where(x < np.float32(-104), np.float32(0), np.maximum(_times_power_of_two(p, m), x))
    return result


def _eigen_log1p(x: Float32s) -> Float32s:
    """ln(1 + x) for 0 <= x <= 1. Source: Eigen's generic_plog1p without fma."""
    above = x + np.float32(1)
    logarithm = _eigen_log(above)
    is_small = above == 1
    ratio = np.divide(logarithm, above - np.float32(1), where=~is_small, out=np.ones_like(x))
    result: Float32s = np.where(is_small, x, x * ratio)
    return result


def _eigen_log(x: Float32s) -> Float32s:
    """ln x for finite x > 0. Source: Eigen's plog_float without fma."""
    mantissa, exponent = np.frexp(x)
    is_low = mantissa < np.float32(0.707106781186547524)
    e = exponent.astype(np.float32) - np.where(is_low, np.float32(1), np.float32(0))
    value = (mantissa - np.float32(1)) + np.where(is_low, mantissa, np.float32(0))
    p = value * _horner(value, (0.18256296349849254, 1.0000000190281063, 1.0000000190281136))
    q = _horner(value, (0.049616247954120038, 0.59923249590823520, 1.4999999999999927, 1.0))
    result: Float32s = e * np.float32(0.69314718055994531) + p / q
    return result
