"""More convolutions for the kernels of cores without SIMD: groups at the ends of 16 bits, every kind of rest."""

from __future__ import annotations

import numpy as np
from cases import S8, U8, U8S8, integer, quantized


def full(shape, value):
    """Weights that are all the same."""
    return np.full(shape, value, np.int8)


def edge(shape, seed):
    """Weights at the ends of int8 only, -128 among them."""
    return np.random.default_rng(seed).choice(np.int8([-128, 127]), shape)


def small(shape, most, seed):
    """Weights within -most..most, of which more may be added before sums are taken apart."""
    return np.random.default_rng(seed).integers(-most, most + 1, shape, np.int8)


def sprinkled(shape, most, seed):
    """Small weights with a few at the ends of int8 among them."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(shape) < 0.02, edge(shape, seed), small(shape, most, seed)).astype(np.int8)


def repeated(shape, pattern):
    """The same few weights again and again along the elements of a window."""
    return np.resize(np.int8(pattern), shape[0] * shape[1]).reshape(shape)


EXTREMES = (
    quantized("scalar_all_minus_128", (1, 9, 6, 6), (6, 9, 3, 3), S8, w=full((6, 9, 3, 3), -128), pads=[1, 1, 1, 1]),
    quantized("scalar_all_minus_128_u8", (1, 9, 6, 6), (6, 9, 3, 3), U8S8, w=full((6, 9, 3, 3), -128)),
    quantized("scalar_all_minus_127", (1, 8, 6, 6), (8, 8, 3, 3), S8, w=full((8, 8, 3, 3), -127), pads=[1, 1, 1, 1]),
    quantized("scalar_all_127_u8", (1, 12, 6, 6), (7, 12, 3, 3), U8S8, w=full((7, 12, 3, 3), 127), pads=[1, 1, 1, 1]),
    quantized("scalar_ends_of_int8", (1, 16, 7, 6), (12, 16, 3, 3), U8S8, w=edge((12, 16, 3, 3), 5), pads=[1, 0, 1, 1]),
    quantized("scalar_ends_pointwise", (1, 33, 3, 3), (9, 33, 1, 1), S8, w=edge((9, 33, 1, 1), 6)),
    quantized("scalar_dense_ends", (1, 67, 1, 1), (13, 67, 1, 1), U8S8, w=edge((13, 67, 1, 1), 8)),
    quantized("scalar_dense_all_minus_128", (1, 24, 1, 1), (9, 24, 1, 1), S8, w=full((9, 24, 1, 1), -128)),
    quantized("scalar_dense_all_minus_127", (1, 24, 1, 1), (9, 24, 1, 1), S8, w=full((9, 24, 1, 1), -127)),
    quantized("scalar_sums_beyond_24_bits", (1, 700, 2, 2), (5, 700, 1, 1), S8, w=full((5, 700, 1, 1), 127)),
    quantized("scalar_dense_beyond_24_bits", (1, 700, 1, 1), (6, 700, 1, 1), U8S8, w=full((6, 700, 1, 1), 127)),
    *(
        quantized(f"scalar_groups_{name}", (1, 32, 4, 4), (5, 32, 1, 1), types, w=repeated((5, 32, 1, 1), pattern))
        for name, types, pattern in (
            ("of_2_at_the_low_end", S8, (127, 127)),
            ("of_2_at_the_high_end", S8, (-128, -127)),
            ("of_2_beyond_the_high_end", S8, (-128, -128)),
            ("of_4_at_the_low_end", S8, (64, 64, 64, 64)),
            ("of_4_at_the_high_end", U8S8, (-64, -63, -64, -64)),
            ("of_4_beyond_the_high_end", S8, (-64, -64, -64, -64)),
            ("of_8_at_the_low_end", U8S8, (32, 32, 32, 32, 32, 32, 32, 32)),
            ("of_8_at_the_high_end", S8, (-32, -32, -32, -32, -32, -32, -32, -31)),
            ("of_8_beyond_the_high_end", S8, (-32, -32, -32, -32, -32, -32, -32, -32)),
            ("of_8_of_both_signs", S8, (127, -127, 0, 0, 0, 0, 0, -1)),
        )
    ),
    *(
        quantized(
            f"scalar_dense_outliers_{c}_in_{m}_out", (2, c, 1, 1), (m, c, 1, 1), S8, w=sprinkled((m, c, 1, 1), most, c)
        )
        for c, m, most in ((61, 16, 28), (96, 12, 56))
    ),
)

SHAPES = (
    *(
        quantized(f"scalar_{c}_channels_in_{m}_out", (1, c, 4, 5), (m, c, 3, 3), U8S8, pads=[1, 1, 1, 1])
        for c, m in ((1, 1), (2, 3), (4, 4), (5, 9), (6, 7), (8, 8), (11, 5), (15, 6), (16, 16), (20, 11), (32, 8))
    ),
    *(
        quantized(f"scalar_pointwise_{c}_in_{m}_out", (1, c, 3, 3), (m, c, 1, 1), S8)
        for c, m in ((1, 5), (2, 2), (3, 8), (4, 6), (7, 1), (34, 10), (64, 4))
    ),
    *(
        quantized(
            f"scalar_weights_within_{most}_{c}_in", (1, c, 3, 3), (7, c, 1, 1), S8, w=small((7, c, 1, 1), most, c)
        )
        for most in (63, 31)
        for c in (1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 31, 32, 39, 64, 71)
    ),
    *(
        quantized(f"scalar_dense_{c}_in_{m}_out", (2, c, 1, 1), (m, c, 1, 1), S8)
        for c, m in ((1, 1), (2, 9), (3, 15), (4, 8), (5, 12), (11, 6), (17, 4), (35, 2), (46, 10), (51, 16), (80, 11))
    ),
    *(
        quantized(
            f"scalar_dense_within_{most}_{c}_in", (1, c, 1, 1), (9, c, 1, 1), U8S8, w=small((9, c, 1, 1), most, c)
        )
        for most in (63, 31)
        for c in (1, 2, 3, 6, 8, 15, 32, 65)
    ),
    *(
        quantized(f"scalar_{h}_by_{w}_pixels", (1, 6, h, w), (5, 6, 1, 1), U8)
        for h, w in ((1, 2), (1, 3), (2, 2), (1, 5), (2, 3), (1, 7), (2, 4))
    ),
    *(
        quantized(f"scalar_{h}_by_{w}_windows", (1, 3, h, w), (5, 3, 3, 3), S8, pads=[1, 1, 1, 1])
        for h, w in ((1, 1), (1, 2), (1, 3), (2, 2), (1, 5), (2, 3), (1, 7), (2, 4))
    ),
    *(
        quantized(f"scalar_{h}_by_{w}_windows_without_padding", (1, 5, h + 2, w + 2), (3, 5, 3, 3), U8)
        for h, w in ((1, 2), (1, 3), (3, 1), (2, 2), (1, 5))
    ),
    *(quantized(f"scalar_line_{k}_taps", (1, 12, 9), (5, 12, k), U8, pads=[k // 2, k // 2]) for k in (2, 5, 8)),
    quantized("scalar_dilated", (1, 8, 9, 13), (8, 8, 3, 3), S8, pads=[2, 3, 2, 3], dilations=[2, 3]),
    quantized("scalar_dilated_row", (1, 3, 9, 7), (4, 3, 3, 1), U8, pads=[2, 0, 2, 0], dilations=[2, 3]),
    quantized("scalar_without_padding", (2, 16, 7, 9), (9, 16, 3, 3), U8),
    quantized("scalar_kernel_10_by_4", (1, 1, 25, 10), (8, 1, 10, 4), S8, pads=[4, 1, 5, 1], strides=[2, 2]),
    quantized("scalar_kernel_7_by_7", (1, 3, 14, 12), (9, 3, 7, 7), U8, pads=[3, 3, 3, 3], strides=[2, 2]),
    quantized("scalar_volume", (2, 5, 4, 3, 5), (3, 5, 2, 2, 3), U8S8, pads=[0, 1, 1, 1, 1, 0], strides=[1, 2, 1]),
    quantized("scalar_relu_tighter_than_the_type", (1, 8, 5, 5), (8, 8, 3, 3), U8, y_zero_point=0, pads=[1, 1, 1, 1]),
    integer("scalar_integer", (1, 9, 5, 4), (7, 9, 3, 3), ("int8", "int8"), pads=[1, 1, 1, 1]),
    integer("scalar_integer_dense", (1, 21, 1, 1), (11, 21, 1, 1), ("uint8", "int8")),
)
