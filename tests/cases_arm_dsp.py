"""More convolutions for the kernels of Arm's DSP extension: weights and sums at their ends, every kind of rest."""

from __future__ import annotations

import numpy as np
from cases import S8, U8, U8S8, integer, quantized


def full(shape, value):
    """Weights that are all the same."""
    return np.full(shape, value, np.int8)


def edge(shape, seed):
    """Weights at the ends of int8 only, -128 among them."""
    return np.random.default_rng(seed).choice(np.int8([-128, 127]), shape)


EXTREMES = (
    quantized("dsp_all_minus_128", (1, 9, 6, 6), (6, 9, 3, 3), S8, w=full((6, 9, 3, 3), -128), pads=[1, 1, 1, 1]),
    quantized("dsp_all_minus_128_u8", (1, 9, 6, 6), (6, 9, 3, 3), U8S8, w=full((6, 9, 3, 3), -128)),
    quantized("dsp_all_minus_127", (1, 8, 6, 6), (8, 8, 3, 3), S8, w=full((8, 8, 3, 3), -127), pads=[1, 1, 1, 1]),
    quantized("dsp_all_127_u8", (1, 12, 6, 6), (7, 12, 3, 3), U8S8, w=full((7, 12, 3, 3), 127), pads=[1, 1, 1, 1]),
    quantized("dsp_ends_of_int8", (1, 16, 7, 6), (12, 16, 3, 3), U8S8, w=edge((12, 16, 3, 3), 5), pads=[1, 0, 1, 1]),
    quantized("dsp_ends_pointwise", (1, 33, 3, 3), (9, 33, 1, 1), S8, w=edge((9, 33, 1, 1), 6)),
    quantized("dsp_depthwise_minus_128", (1, 8, 6, 7), (8, 1, 3, 3), S8, w=full((8, 1, 3, 3), -128)),
    quantized("dsp_depthwise_ends", (1, 9, 7, 7), (9, 1, 3, 3), U8S8, w=edge((9, 1, 3, 3), 7), pads=[1] * 4),
    quantized("dsp_dense_ends", (1, 67, 1, 1), (13, 67, 1, 1), U8S8, w=edge((13, 67, 1, 1), 8)),
    quantized("dsp_sums_beyond_24_bits", (1, 700, 2, 2), (5, 700, 1, 1), S8, w=full((5, 700, 1, 1), 127)),
    quantized("dsp_dense_all_minus_127", (1, 66, 1, 1), (14, 66, 1, 1), S8, w=full((14, 66, 1, 1), -127)),
    quantized("dsp_dense_all_127_u8", (1, 63, 1, 1), (9, 63, 1, 1), U8S8, w=full((9, 63, 1, 1), 127)),
    quantized("dsp_dense_all_minus_128", (1, 21, 1, 1), (7, 21, 1, 1), S8, w=full((7, 21, 1, 1), -128)),
    quantized("dsp_dense_beyond_24_bits", (1, 700, 1, 1), (6, 700, 1, 1), U8S8, w=full((6, 700, 1, 1), 127)),
)


def small(shape, low, high, seed):
    """Weights from ``low`` to ``high``, both among them: few enough for 4 bits."""
    return np.random.default_rng(seed).choice(np.r_[low, high, low : high + 1], shape)


def of_4_bits(name, x_shape, w, types=S8, **options):
    """A layer whose weights are packed for --optimize size, if its sums fit."""
    return quantized(f"dsp_nibbles_{name}", x_shape, w.shape, types, w=w.astype(types[1]), **{"scale": 0.003} | options)


OF_4_BITS = (
    *(
        of_4_bits(f"dense_{c}_in_{m}_out", (1, c, 1, 1), small((m, c, 1, 1), -8, 7, c))
        for c, m in ((17, 8), (18, 9), (19, 10), (20, 11), (33, 4), (66, 5), (40, 16), (61, 31), (130, 20))
    ),
    *(
        of_4_bits(f"pointwise_{c}_in_{m}_out", (1, c, 3, 2), small((m, c, 1, 1), -8, 7, c), U8S8)
        for c, m in ((17, 8), (18, 13), (35, 6), (32, 19))
    ),
    *(
        of_4_bits(f"all_{label}_{types[0]}", (1, 37, 2, 2), full((10, 37, 1, 1), value), types)
        for label, value in (("minus_8", -8), ("7", 7))
        for types in (S8, U8S8)
    ),
    *(
        of_4_bits(f"conv_{c}_in_{m}_out", (1, c, 5, 5), small((m, c, 3, 3), -8, 7, m), S8, pads=[1] * 4)
        for c, m in ((4, 4), (5, 9), (9, 6), (16, 7), (20, 11), (32, 12))
    ),
    *(
        of_4_bits(f"conv_all_{label}_{types[0]}", (1, 9, 6, 6), full((6, 9, 3, 3), value), types, pads=[1, 0, 1, 1])
        for label, value in (("minus_8", -8), ("7", 7))
        for types in (S8, U8S8)
    ),
    of_4_bits("conv_of_uint4", (1, 8, 5, 4), small((8, 8, 3, 3), 0, 15, 1), U8, w_zero_point=3, pads=[1] * 4),
    of_4_bits("conv_of_two_images", (2, 6, 5, 7), small((8, 6, 2, 3), -8, 7, 2), U8S8, strides=[2, 1]),
    of_4_bits("conv_of_one_pixel", (1, 12, 4, 4), small((6, 12, 3, 3), -8, 7, 3), strides=[2, 2]),
    of_4_bits("conv_on_a_line", (1, 16, 9), small((5, 16, 4), -8, 7, 4), U8S8, pads=[2, 1]),
    of_4_bits("conv_ties", (1, 8, 5, 5), small((12, 8, 3, 3), -8, 7, 5), scale=2.0**-8),
    of_4_bits("conv_ties_of_some", (1, 8, 5, 5), small((9, 8, 3, 3), -8, 7, 6), scale=[2.0**-8] + [0.003] * 8),
    of_4_bits("conv_of_short_windows", (1, 2, 5, 5), small((40, 2, 2, 2), -8, 7, 7), U8S8),
    of_4_bits("all_15", (1, 37, 2, 2), full((10, 37, 1, 1), 15), U8S8),
    of_4_bits("all_minus_15", (1, 37, 2, 2), full((10, 37, 1, 1), -15)),
    of_4_bits("of_uint4", (1, 30, 2, 2), small((14, 30, 1, 1), 0, 15, 1), U8, w_zero_point=0),
    of_4_bits("of_uint4_in_the_middle", (1, 30, 1, 1), small((14, 30, 1, 1), 0, 15, 2), U8, w_zero_point=7),
    of_4_bits("up_to_2", (1, 30, 1, 1), small((14, 30, 1, 1), -13, 2, 3)),
    of_4_bits("from_3", (1, 30, 1, 1), small((14, 30, 1, 1), 3, 15, 3)),
    of_4_bits("of_two_images", (2, 30, 1, 1), small((9, 30, 1, 1), -8, 7, 4)),
    of_4_bits("strided", (1, 30, 5, 3), small((9, 30, 1, 1), -8, 7, 5), strides=[2, 2]),
    of_4_bits("ties", (1, 40, 3, 3), small((12, 40, 1, 1), -8, 7, 6), scale=2.0**-8),
    of_4_bits("ties_of_some", (1, 40, 1, 1), small((12, 40, 1, 1), -8, 7, 7), scale=[2.0**-8] + [0.003] * 11),
    integer(
        "dsp_nibbles_integer",
        (1, 40, 2, 2),
        (9, 40, 1, 1),
        ("uint8", "int8"),
        w=small((9, 40, 1, 1), -8, 7, 8).astype(np.int8),
    ),
    # The sum of channels 0 and 4 fits 20 bits, just: 255 * 8 * 257 elements and a bias up to 2^19 on one side.
    *(
        of_4_bits(
            f"sums_of_{bits}_bits",
            (1, 257, 1, 1),
            full((5, 257, 1, 1), 7),
            U8S8,
            scale=2e-4,
            x_zero_point=0,
            bias=[2**19 - 1 - 255 * 7 * 257 + (bits == 21), 0, 1000, -1000, 0],
        )
        for bits in (20, 21)
    ),
)


def even(shape, seed):
    """Weights within -127..127, as quantizers make them: two channels may share a word."""
    return np.random.default_rng(seed).integers(-127, 128, shape, np.int8)


SHAPES = (
    *(
        quantized(f"dsp_even_{c}_in_{m}_out", (1, c, 5, 5), (m, c, 3, 3), S8, w=even((m, c, 3, 3), m), pads=[1] * 4)
        for c, m in ((1, 2), (2, 3), (4, 4), (5, 9), (9, 6), (16, 7), (20, 11))
    ),
    quantized("dsp_even_pointwise_76_in_4_out", (1, 76, 3, 3), (4, 76, 1, 1), S8, w=even((4, 76, 1, 1), 4)),
    *(
        quantized(f"dsp_even_dense_{c}_in_{m}_out", (1, c, 1, 1), (m, c, 1, 1), U8S8, w=even((m, c, 1, 1), m))
        for c, m in ((1, 8), (2, 10), (3, 15), (40, 12), (61, 31), (130, 20), (301, 9))
    ),
    *(
        quantized(f"dsp_{c}_channels_in_{m}_out", (1, c, 4, 5), (m, c, 3, 3), U8S8, pads=[1, 1, 1, 1])
        for c, m in ((1, 1), (2, 3), (4, 4), (5, 9), (6, 7), (8, 8), (11, 5), (15, 6), (16, 16), (20, 11), (32, 8))
    ),
    *(
        quantized(f"dsp_pointwise_{c}_in_{m}_out", (1, c, 3, 3), (m, c, 1, 1), S8)
        for c, m in (
            (1, 5),
            (2, 2),
            (3, 8),
            (4, 6),
            (5, 3),
            (6, 9),
            (7, 1),
            (8, 7),
            (9, 2),
            (34, 10),
            (64, 4),
            (173, 7),
        )
    ),
    *(quantized(f"dsp_short_{m}_out", (1, 5, 3, 4), (m, 5, 1, 1), S8) for m in (9, 17, 23, 31)),
    quantized("dsp_short_strided", (2, 5, 7, 6), (20, 5, 1, 1), U8S8, strides=[2, 2]),
    quantized("dsp_pointwise_strided", (2, 40, 5, 3), (13, 40, 1, 1), U8S8, w=even((13, 40, 1, 1), 3), strides=[2, 1]),
    quantized("dsp_pointwise_strided_row", (1, 13, 8), (6, 13, 1), S8, strides=[3]),
    quantized("dsp_short_row_of_8", (1, 2, 19), (37, 2, 4), S8),
    quantized("dsp_short_row_of_7", (1, 1, 20), (16, 1, 7), S8, strides=[3]),
    quantized(
        "dsp_ties_in_some_blocks",
        (1, 8, 9, 9),
        (10, 8, 3, 3),
        S8,
        strides=[2, 2],
        scale=[0.002] * 5 + [2.0**-9] + [0.003] * 4,
    ),
    *(quantized(f"dsp_{m}_channels_in_blocks", (1, 12, 3, 2), (m, 12, 1, 1), S8) for m in (24, 29, 45, 64)),
    quantized("dsp_ties_of_many_channels", (1, 40, 6, 6), (9, 40, 1, 1), S8, scale=[0.002] * 8 + [2.0**-10]),
    *(
        quantized(f"dsp_dense_{c}_in_{m}_out", (2, c, 1, 1), (m, c, 1, 1), S8)
        for c, m in ((1, 1), (2, 9), (3, 15), (4, 8), (5, 12), (46, 10), (80, 11), (150, 8), (34, 4), (29, 2))
    ),
    quantized(
        "dsp_dense_ties_in_some_blocks",
        (1, 48, 1, 1),
        (17, 48, 1, 1),
        S8,
        w=even((17, 48, 1, 1), 17),
        scale=[0.002] * 5 + [2.0**-9] + [0.003] * 9 + [2.0**-8] * 2,
    ),
    *(quantized(f"dsp_line_{k}_taps", (1, 12, 9), (5, 12, k), U8, pads=[k // 2, k // 2]) for k in (2, 5, 8)),
    *(
        quantized(
            f"dsp_depthwise_{k}_by_{k}_stride_{s}",
            (1, 10, 13, 11),
            (10, 1, k, k),
            S8,
            strides=[s, s],
            pads=[k // 2] * 4,
        )
        for k in (1, 2, 3, 4, 5, 7)
        for s in (1, 2, 3)
    ),
    *(
        quantized(f"dsp_depthwise_row_of_{w}", (1, 4, 3, w), (4, 1, 3, 3), U8, pads=[1, 1, 1, 1])
        for w in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13)
    ),
    quantized("dsp_depthwise_in_bands", (1, 5, 40, 50), (5, 1, 3, 3), U8S8, pads=[1, 1, 1, 1]),
    quantized("dsp_depthwise_dilated", (1, 8, 11, 12), (8, 1, 3, 3), S8, pads=[2, 3, 2, 3], dilations=[2, 3]),
    quantized("dsp_dilated_in_tiles", (1, 8, 9, 13), (8, 8, 3, 3), S8, pads=[2, 3, 2, 3], dilations=[2, 3]),
    *(
        quantized(f"dsp_tiles_{h}_by_{w}", (1, 8, h, w), (6, 8, 3, 3), U8S8, pads=[1, 1, 1, 1])
        for h, w in ((2, 4), (3, 5), (2, 7), (8, 9), (1, 8), (5, 3))
    ),
    quantized("dsp_tiles_without_padding", (2, 16, 7, 9), (9, 16, 3, 3), U8),
    quantized("dsp_kernel_10_by_4", (1, 1, 25, 10), (8, 1, 10, 4), S8, pads=[4, 1, 5, 1], strides=[2, 2]),
    quantized("dsp_kernel_7_by_7", (1, 3, 14, 12), (9, 3, 7, 7), U8, pads=[3, 3, 3, 3], strides=[2, 2]),
    quantized("dsp_relu_tighter_than_the_type", (1, 8, 5, 5), (8, 8, 3, 3), U8, y_zero_point=0, pads=[1, 1, 1, 1]),
    integer("dsp_integer", (1, 9, 5, 4), (7, 9, 3, 3), ("int8", "int8"), pads=[1, 1, 1, 1]),
    integer("dsp_integer_dense", (1, 21, 1, 1), (11, 21, 1, 1), ("uint8", "int8")),
)


DEPTHWISE = (
    *(
        quantized(f"dsp_depthwise_{h}_by_{w}", (1, 4, h, w), (4, 1, 3, 3), x, pads=[1, 1, 1, 1])
        for h, w, x in ((2, 24, S8), (5, 19, U8), (7, 40, U8S8), (3, 49, S8), (25, 5, S8))
    ),
    *(
        quantized(
            f"dsp_depthwise_{h}_by_{w}_taps_stride_{v}_by_{u}",
            (2, 7, 9, 18),
            (7, 1, h, w),
            U8S8,
            strides=[v, u],
            pads=[h // 2, w // 2, h // 2, w // 2],
        )
        for h, w in ((1, 3), (2, 3), (3, 1), (3, 2), (3, 3), (3, 5))
        for v, u in ((1, 1), (1, 2), (2, 1), (2, 2))
        if v == u or h == w
    ),
    *(
        quantized(f"dsp_depthwise_{k}_by_{k}_on_30", (1, 5, 6, 30), (5, 1, k, k), S8, pads=[k // 2] * 4)
        for k in (4, 5, 7)
    ),
    *(
        quantized(
            f"dsp_depthwise_dilated_{d}_by_{e}", (1, 6, 9, 14), (6, 1, 3, 3), U8, pads=[d, e, d, e], dilations=[d, e]
        )
        for d, e in ((1, 2), (2, 1))
    ),
    quantized(
        "dsp_depthwise_ties",
        (1, 6, 15, 26),
        (6, 1, 3, 3),
        S8,
        scale=[2.0**-7, 0.003, 2.0**-8, 0.002, 0.004, 2.0**-9],
        pads=[1, 1, 1, 1],
    ),
    quantized("dsp_depthwise_one_scale", (1, 8, 9, 12), (8, 1, 3, 3), U8, scale=0.003, pads=[1, 1, 1, 1]),
    quantized("dsp_depthwise_relu", (1, 5, 8, 9), (5, 1, 3, 3), U8, y_zero_point=0, pads=[1, 1, 1, 1]),
    quantized("dsp_depthwise_minus_128_of_6_rows", (1, 4, 6, 14), (4, 1, 3, 3), S8, w=full((4, 1, 3, 3), -128)),
    quantized("dsp_depthwise_ends_strided", (1, 4, 9, 17), (4, 1, 3, 3), U8S8, w=edge((4, 1, 3, 3), 8), strides=[2, 2]),
    integer("dsp_depthwise_integer", (1, 6, 7, 11), (6, 1, 3, 3), ("int8", "int8"), pads=[1, 1, 1, 1]),
)
"""Depthwise convolutions of many shapes."""


DEPTHWISE_PLANES = (
    *(
        quantized(
            f"dsp_parted_{h}_by_{w}{'_ties' if scale else ''}",
            (1, 4, h, w),
            (4, 1, 3, 3),
            x,
            dilations=[1, 3],
            pads=[1, 3, 1, 3],
            **({"scale": scale} if scale else {}),
        )
        for h, w, x, scale in (
            (2, 24, S8, None),
            (5, 19, U8, None),
            (7, 40, U8S8, None),
            (3, 49, S8, 2.0**-8),
            (6, 12, S8, 2.0**-8),
            (25, 5, S8, None),
            (12, 50, S8, 2.0**-8),
            (15, 50, U8, None),
        )
    ),
    quantized("dsp_parted_minus_128", (1, 4, 6, 20), (4, 1, 3, 3), S8, w=full((4, 1, 3, 3), -128), dilations=[1, 3]),
    quantized(
        "dsp_parted_ends_strided",
        (1, 5, 9, 23),
        (5, 1, 3, 3),
        U8S8,
        w=edge((5, 1, 3, 3), 8),
        strides=[2, 1],
        dilations=[2, 3],
    ),
    integer("dsp_parted_integer", (1, 6, 7, 16), (6, 1, 3, 3), ("int8", "int8"), dilations=[1, 3], pads=[1, 1, 1, 1]),
    quantized("dsp_parted_5_by_5_on_90", (1, 4, 6, 90), (4, 1, 5, 5), S8, pads=[2, 2, 2, 2]),
)
"""Depthwise convolutions for planes: a column of the image is part of seven sums, or taps need more registers."""


DIRECT = (
    *(
        quantized(f"dsp_planes_of_{h}_rows", (1, 4, h, 50), (4, 1, 3, 3), S8, pads=[1] * 4, scale=scale)
        for h, scale in ((12, 2.0**-8), (15, 0.003))
    ),
    integer("dsp_planes_raw_of_15_rows", (1, 4, 15, 50), (4, 1, 3, 3), ("int8", "int8"), pads=[1, 1, 1, 1]),
    *(
        quantized(f"dsp_direct_{c}_channels", (1, c, 5, 9), (c, 1, 3, 3), x, pads=[1, 1, 1, 1])
        for c, x in ((2, U8S8), (3, S8))
    ),
    *(
        quantized(
            f"dsp_direct_{k}_taps_stride_{s}_dilated_{d}",
            (1, 5, 41),
            (5, 1, k),
            S8,
            strides=[s],
            dilations=[d],
            pads=[k // 2 * d, k // 2 * d],
        )
        for k, s, d in ((3, 1, 1), (5, 1, 1), (5, 2, 1), (3, 1, 2), (3, 2, 3), (4, 1, 1), (9, 1, 1))
    ),
    *(
        quantized(f"dsp_direct_{k}_rows", (1, 5, 21, 3), (5, 1, k, 1), U8S8, pads=[k // 2, 0, k // 2, 0])
        for k in (3, 4, 5, 9)
    ),
    quantized("dsp_direct_5_by_5_strided", (1, 6, 14, 15), (6, 1, 5, 5), S8, pads=[2] * 4, strides=[2, 2]),
    quantized("dsp_direct_7_by_7_on_4_by_3", (1, 4, 4, 3), (4, 1, 7, 7), U8S8, pads=[3, 3, 3, 3]),
    quantized("dsp_direct_pads_exceed_kernel", (1, 4, 2, 3), (4, 1, 2, 2), U8, pads=[4, 3, 3, 5]),
    quantized("dsp_direct_zero_point_0", (1, 5, 6, 21), (5, 1, 3, 3), S8, pads=[1] * 4, x_zero_point=0),
    quantized("dsp_direct_rows_zero_point_0", (1, 5, 8, 9), (5, 1, 5, 5), S8, pads=[2] * 4, x_zero_point=0),
    quantized("dsp_direct_rows_ends", (1, 4, 9, 9), (4, 1, 5, 5), S8, w=full((4, 1, 5, 5), -128)),
    *(
        quantized(
            f"dsp_direct_ties_{w}_pad_{top}_{bottom}",
            (1, 4, 7, w),
            (4, 1, 3, 3),
            S8,
            scale=2.0**-8,
            pads=[top, 1, bottom, 1],
        )
        for w in (4, 26)
        for top, bottom in ((0, 0), (1, 0), (1, 1))
    ),
    *(quantized(f"dsp_direct_rows_ties_{w}_uncut", (1, 4, 8, w), (4, 1, 5, 5), S8, scale=2.0**-8) for w in (9, 17)),
    quantized("dsp_direct_rows_ties", (1, 6, 9, 11), (6, 1, 5, 5), S8, scale=2.0**-8, pads=[2, 2, 2, 2]),
)
"""Depthwise convolutions that the kernels without scratch meet at their edges: few channels, long rows, all cut."""


PLANES = (
    quantized("dsp_planes_of_3_channels", (1, 3, 9, 8), (8, 3, 3, 3), S8, pads=[0, 0, 1, 1], strides=[2, 2]),
    quantized("dsp_planes_in_2_images", (2, 3, 5, 7), (5, 3, 3, 3), U8, pads=[1, 1, 1, 1]),
    quantized("dsp_planes_5_by_5", (1, 3, 8, 9), (6, 3, 5, 5), U8S8, pads=[2, 2, 2, 2]),
    quantized("dsp_planes_7_by_7", (1, 2, 15, 13), (9, 2, 7, 7), S8, pads=[3, 3, 3, 3], strides=[2, 2]),
    quantized("dsp_planes_without_padding", (1, 4, 6, 6), (7, 4, 2, 3), S8),
    quantized("dsp_planes_dilated", (1, 3, 9, 9), (4, 3, 3, 3), U8S8, pads=[2, 2, 2, 2], dilations=[2, 2]),
    quantized("dsp_planes_pointwise", (1, 9, 3, 5), (5, 9, 1, 1), S8),
    quantized("dsp_planes_of_one_pixel", (1, 3, 4, 4), (6, 3, 3, 3), S8, strides=[2, 2]),
    quantized("dsp_planes_on_a_line", (1, 5, 11), (3, 5, 4), U8, pads=[1, 2]),
    quantized("dsp_planes_of_the_whole_image", (2, 6, 3, 5), (9, 6, 3, 5), S8),
    quantized("dsp_planes_far_beyond_the_image", (1, 3, 2, 2), (4, 3, 3, 3), S8, pads=[4, 4, 4, 4]),
    quantized("dsp_planes_at_the_ends", (1, 3, 6, 6), (4, 3, 3, 3), S8, w=edge((4, 3, 3, 3), 9), pads=[1, 1, 1, 1]),
    integer("dsp_planes_integer", (1, 3, 5, 4), (7, 3, 3, 3), ("uint8", "int8"), pads=[1, 1, 1, 1]),
)
"""Images with channels first."""
