"""More convolutions for the Helium kernels: every rest of 16 elements, of channels, of pixels; sums at their ends."""

from __future__ import annotations

from cases import S8, U8, U8S8, integer, quantized
from cases_arm_dsp import edge, full

CONVOLUTIONS = (
    *(
        quantized(f"mve_{c}_channels_in_{m}_out", (1, c, 5, 4), (m, c, 3, 3), types, pads=[1, 1, 1, 1])
        for (c, m), types in zip(
            ((1, 2), (2, 3), (3, 8), (5, 5), (8, 4), (15, 6), (16, 7), (17, 9), (24, 12), (33, 2), (40, 5), (64, 3)),
            (S8, U8S8, U8) * 4,
            strict=True,
        )
    ),
    *(
        quantized(f"mve_pointwise_{c}_in_{m}_out_{h}_by_{w}", (1, c, h, w), (m, c, 1, 1), types)
        for (c, m, h, w), types in zip(
            (
                (1, 5, 3, 3),
                (3, 8, 4, 4),
                (8, 16, 5, 7),
                (16, 4, 1, 2),
                (17, 6, 3, 5),
                (32, 7, 4, 3),
                (48, 1, 2, 2),
                (64, 64, 5, 5),
                (150, 5, 3, 3),
                (160, 8, 3, 3),
                (300, 6, 2, 2),
            ),
            (S8, U8, S8, S8, U8S8, S8, S8, S8, S8, U8, S8),
            strict=True,
        )
    ),
    *(
        quantized(f"mve_line_{c}_channels_{k}_taps", (1, c, 11), (5, c, k), types, pads=[k // 2, (k - 1) // 2])
        for c, k, types in ((4, 4, S8), (5, 3, S8), (16, 5, S8), (32, 5, U8), (7, 2, U8S8), (1, 16, S8))
    ),
    quantized("mve_line_without_padding", (1, 6, 20), (3, 6, 3), S8),
    quantized("mve_line_strided", (1, 6, 23), (4, 6, 4), S8, strides=[3]),
    quantized("mve_line_strided_with_padding", (2, 6, 23), (4, 6, 4), S8, strides=[3], pads=[2, 3]),
    quantized("mve_line_of_one_channel", (1, 1, 12), (5, 1, 3), S8, pads=[1, 1]),
    quantized("mve_line_of_one_channel_u8", (1, 1, 13), (5, 1, 3), U8, pads=[1, 1]),
    quantized("mve_line_of_two_outputs", (1, 20, 2), (6, 20, 5), U8S8, pads=[2, 2]),
    quantized("mve_line_beyond_its_image", (1, 16, 3), (4, 16, 2), S8, pads=[4, 5]),
    quantized("mve_row_of_an_image", (1, 32, 1, 19), (6, 32, 1, 5), S8, pads=[0, 2, 0, 2]),
    quantized("mve_row_between_rows", (1, 32, 3, 9), (6, 32, 1, 5), S8, pads=[0, 2, 0, 2], strides=[3, 1]),
    quantized("mve_line_dilated", (1, 9, 20), (4, 9, 3), S8, dilations=[4], pads=[4, 4]),
    quantized("mve_dilated", (1, 16, 9, 8), (6, 16, 3, 3), S8, dilations=[2, 3], pads=[2, 3, 2, 3]),
    quantized("mve_dilated_without_padding", (1, 5, 9, 8), (6, 5, 3, 3), U8, dilations=[2, 3]),
    quantized("mve_dilated_in_height", (1, 7, 9, 8), (6, 7, 3, 3), S8, dilations=[2, 1], pads=[1, 1, 1, 1]),
    quantized("mve_column", (1, 16, 9, 4), (4, 16, 5, 1), S8, pads=[2, 0, 2, 0]),
    quantized("mve_5_by_5_stride_2", (1, 12, 11, 13), (10, 12, 5, 5), S8, pads=[2, 2, 2, 2], strides=[2, 2]),
    quantized("mve_7_by_7", (1, 3, 14, 12), (9, 3, 7, 7), U8, pads=[3, 3, 3, 3], strides=[2, 2]),
    quantized("mve_rows_copied_in_a_loop", (1, 75, 6, 5), (4, 75, 3, 3), S8, pads=[1, 1, 1, 1]),
    quantized("mve_stride_beyond_the_kernel", (1, 20, 9, 9), (4, 20, 1, 1), S8, strides=[3, 2]),
    quantized("mve_one_by_one_padded", (1, 16, 3, 4), (6, 16, 1, 1), S8, pads=[1, 0, 1, 2]),
    quantized("mve_windows_in_padding_only", (1, 16, 1, 1), (3, 16, 1, 1), U8, pads=[2, 2, 2, 2], strides=[2, 2]),
    quantized("mve_batch", (3, 17, 4, 3), (6, 17, 3, 3), U8S8, pads=[1, 0, 0, 1]),
    quantized("mve_batch_of_one_pixel", (4, 16, 2, 2), (6, 16, 2, 2), S8, pads=[0, 0, 0, 1]),
    quantized("mve_volume", (1, 5, 3, 4, 5), (6, 5, 2, 2, 3), S8, pads=[0, 1, 1, 1, 0, 1]),
    quantized("mve_ends", (1, 16, 7, 6), (12, 16, 3, 3), U8S8, w=edge((12, 16, 3, 3), 5), pads=[1, 0, 1, 1]),
    quantized("mve_ends_pointwise", (1, 33, 3, 3), (9, 33, 1, 1), S8, w=edge((9, 33, 1, 1), 6)),
    quantized("mve_all_minus_128", (1, 9, 6, 6), (6, 9, 3, 3), S8, w=full((6, 9, 3, 3), -128), pads=[1, 1, 1, 1]),
    quantized("mve_all_minus_128_u8", (1, 9, 6, 6), (6, 9, 3, 3), U8S8, w=full((6, 9, 3, 3), -128)),
    quantized("mve_ties", (1, 32, 5, 5), (7, 32, 1, 1), S8, scale=2.0**-9),
    quantized("mve_ties_in_some_blocks", (1, 8, 6, 6), (10, 8, 3, 3), S8, scale=[0.002] * 5 + [2.0**-9] + [0.003] * 4),
    quantized("mve_relu", (1, 16, 5, 5), (9, 16, 3, 3), S8, y_zero_point=-128, pads=[1, 1, 1, 1]),
    quantized("mve_small_scale", (1, 16, 5, 5), (9, 16, 3, 3), S8, scale=2.0**-20 * 1.1),
    quantized("mve_wide", (1, 16, 3, 3), (5, 16, 1, 1), S8, scale=0.6),
    integer("mve_integer", (1, 17, 5, 4), (7, 17, 3, 3), ("int8", "int8"), pads=[1, 1, 1, 1]),
    integer("mve_integer_u8", (1, 16, 3, 3), (6, 16, 1, 1), ("uint8", "int8")),
)

DENSES = (
    *(
        quantized(f"mve_dense_{c}_in_{m}_out", (n, c, 1, 1), (m, c, 1, 1), types)
        for (n, c, m), types in zip(
            ((1, 2, 1), (1, 15, 9), (2, 16, 8), (3, 17, 7), (1, 64, 10), (1, 150, 12), (5, 160, 6), (1, 640, 16)),
            (S8, U8S8, U8, S8) * 2,
            strict=True,
        )
    ),
    quantized("mve_dense_image", (1, 4, 5, 6), (10, 4, 5, 6), U8S8),
    quantized("mve_dense_image_in_place", (2, 16, 3, 2), (5, 16, 3, 2), S8),
    quantized("mve_dense_ends", (1, 67, 1, 1), (13, 67, 1, 1), U8S8, w=edge((13, 67, 1, 1), 8)),
    integer("mve_dense_integer", (1, 21, 1, 1), (11, 21, 1, 1), ("uint8", "int8")),
)
