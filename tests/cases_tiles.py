"""Convolutions for kernels that compute tiles of outputs: every number of taps, tiles at all ends of images."""

from __future__ import annotations

from unittest import mock

import numpy as np
from batch import Unit, unit
from cases import S8, U8, U8S8, Case, integer, quantized
from cases_arm_dsp import edge, full

from qcgen.kernels import PORTABLE, SPEED, Form, Kernel
from qcgen.kernels.arm_dsp import winograd


def small(shape, seed):
    """Weights of trained layers with many taps: few are large."""
    return np.random.default_rng(seed).integers(-20, 21, shape, np.int8)


TILES = (
    *(
        quantized(
            f"tiles_of_{h}_by_{w}_taps",
            (1, 16, 9, 11),
            (9, 16, h, w),
            S8,
            w=small((9, 16, h, w), h + w),
            pads=[h // 2, w // 2, h // 2, w // 2],
        )
        for h, w in ((1, 2), (1, 3), (3, 1), (2, 2), (2, 5), (4, 4), (5, 3), (5, 5), (1, 4), (5, 1))
    ),
    *(
        quantized(
            f"tiles_of_a_line_of_{k}_taps", (1, 16, 19), (8, 16, k), U8S8, w=small((8, 16, k), k), pads=[k // 2] * 2
        )
        for k in (2, 3, 4, 5)
    ),
    *(
        quantized(f"tiles_of_{h}_by_{w}_outputs", (1, 16, h, w), (16, 16, 3, 3), U8S8, pads=[1, 1, 1, 1])
        for h, w in ((2, 4), (3, 3), (3, 5), (4, 4), (4, 8), (5, 4), (6, 7), (9, 13))
    ),
    *(
        quantized(f"tiles_of_{c}_in_{m}_out", (1, c, 8, 12), (m, c, 3, 3), S8, pads=[1, 1, 1, 1])
        for c, m in ((1, 16), (3, 16), (4, 1), (6, 2), (7, 7), (8, 3), (40, 5), (68, 4))
    ),
    quantized(
        "tiles_of_two_rows_and_two_columns",  # of two algorithms: of 5 taps from 6 products, of 3 taps from 4
        (1, 16, 9, 3),
        (8, 16, 5, 3),
        S8,
        w=small((8, 16, 5, 3), 8),
        pads=[2, 1, 2, 1],
    ),
    quantized("tiles_of_many_images", (5, 8, 3, 3), (8, 8, 3, 3), S8, pads=[1, 1, 1, 1]),
    quantized("tiles_of_short_lines", (5, 16, 3), (16, 16, 3), S8, pads=[1, 1]),
    quantized("tiles_of_short_columns", (5, 16, 3, 1), (16, 16, 3, 1), S8, pads=[1, 0, 1, 0]),
    quantized("tiles_of_a_dilated_line", (2, 8, 23), (8, 8, 3), S8, pads=[3, 3], dilations=[3]),
    quantized("tiles_of_a_dilated_image", (1, 8, 11, 17), (8, 8, 3, 3), S8, pads=[2, 3, 2, 3], dilations=[2, 3]),
    quantized("tiles_of_dilated_rows", (1, 8, 11, 9), (8, 8, 3, 3), U8, pads=[2, 1, 2, 1], dilations=[2, 1]),
    quantized("tiles_of_nine_bit_weights", (1, 12, 8, 8), (12, 12, 3, 3), U8, pads=[1, 1, 1, 1], w_zero_point=3),
    quantized("tiles_without_padding", (1, 16, 11, 10), (12, 16, 3, 3), S8),
    quantized("tiles_with_one_side_padded", (1, 16, 11, 10), (12, 16, 3, 3), U8S8, pads=[0, 0, 2, 1]),
    quantized("tiles_far_beyond_the_image", (1, 8, 3, 3), (8, 8, 3, 3), S8, pads=[5, 6, 5, 6]),
    quantized("tiles_of_minus_128", (1, 16, 9, 9), (8, 16, 3, 3), U8S8, w=full((8, 16, 3, 3), -128), pads=[1] * 4),
    quantized("tiles_of_127", (1, 16, 9, 9), (8, 16, 3, 3), S8, w=full((8, 16, 3, 3), 127), pads=[1] * 4),
    quantized("tiles_of_ends", (1, 16, 9, 9), (8, 16, 3, 3), S8, w=edge((8, 16, 3, 3), 9), pads=[1] * 4),
    quantized("tiles_with_ties", (1, 8, 8, 8), (8, 8, 3, 3), S8, scale=2.0**-9, pads=[1, 1, 1, 1]),
    quantized("tiles_with_a_tight_relu", (1, 8, 8, 8), (8, 8, 3, 3), U8, y_zero_point=0, pads=[1, 1, 1, 1]),
    integer("tiles_of_integers", (1, 9, 8, 8), (7, 9, 3, 3), ("int8", "int8"), pads=[1, 1, 1, 1]),
)

TILES_OF_BYTES = tuple(case for case in TILES if case.name != "tiles_of_nine_bit_weights")
"""Cases whose weights less their zero point fit a byte."""


def tiled(case: Case, kernel: Kernel, form: Form = SPEED) -> Unit:
    """The case in tiles, whether that pays or not."""
    with (
        mock.patch.object(winograd, "_direct_cost", return_value=float("inf")),
        mock.patch("qcgen.plan.KERNELS", (kernel, *PORTABLE)),
        mock.patch("qcgen.plan.SPEED", form),
    ):
        found = unit.__wrapped__(case, "nhwc", "speed", "cortex-m4")  # not the one that other tests compiled
    assert found.artifact.plan.calls[0].kernel == kernel.name, case.name
    return found
