"""More convolutions for scalar/depthwise and scalar/winograd: every group of outputs, band, rest and border."""

from __future__ import annotations

from cases import S8, U8, U8S8, integer, quantized
from cases_arm_dsp import edge, full

DEPTHWISE_EXTREMES = (
    quantized("scalar_dw_minus_128", (1, 5, 6, 7), (5, 1, 3, 3), S8, w=full((5, 1, 3, 3), -128)),
    quantized("scalar_dw_127_u8", (1, 5, 6, 7), (5, 1, 3, 3), U8S8, w=full((5, 1, 3, 3), 127), pads=[1] * 4),
    quantized("scalar_dw_ends", (1, 9, 7, 7), (9, 1, 3, 3), U8S8, w=edge((9, 1, 3, 3), 7), pads=[1] * 4),
    quantized("scalar_dw_ends_s8", (1, 6, 9, 11), (6, 1, 5, 5), S8, w=edge((6, 1, 5, 5), 9), pads=[2] * 4),
    integer("scalar_dw_integer", (2, 6, 5, 8), (6, 1, 3, 3), ("uint8", "int8"), pads=[1, 1, 1, 1]),
    integer("scalar_dw_whole_weights", (1, 4, 5, 8), (4, 1, 3, 3), ("int8", "uint8"), pads=[1, 1, 1, 1]),
)

DEPTHWISE_SHAPES = (
    *(
        quantized(
            f"scalar_dw_{k}_by_{j}_stride_{s}",
            (1, 3, 13, 11),
            (3, 1, k, j),
            S8,
            strides=[s, s],
            pads=[k // 2, j // 2] * 2,
        )
        for k, j in ((1, 1), (2, 2), (3, 3), (3, 1), (1, 3), (4, 4), (5, 5), (7, 7), (2, 5))
        for s in (1, 2, 3)
    ),
    *(
        quantized(f"scalar_dw_row_of_{w}", (1, 5, 3, w), (5, 1, 3, 3), U8, pads=[1, 1, 1, 1])
        for w in (1, 2, 3, 4, 5, 6, 7, 8, 11, 13, 17, 25)
    ),
    *(
        quantized(f"scalar_dw_column_of_{h}", (1, 4, h, 2), (4, 1, 3, 3), S8, pads=[1, 1, 1, 1], strides=[2, 1])
        for h in (1, 4, 9, 30)
    ),
    *(
        quantized(f"scalar_dw_{c}_channels", (1, c, 4, 7), (c, 1, 3, 3), S8, pads=[1] * 4)
        for c in (1, 2, 3, 4, 6, 8, 11)
    ),
    *(quantized(f"scalar_dw_line_{k}_taps", (2, 6, 29), (6, 1, k), U8S8, pads=[k // 2, k // 2]) for k in (1, 2, 5, 10)),
    quantized("scalar_dw_in_bands", (2, 5, 60, 50), (5, 1, 3, 3), U8S8, pads=[1, 1, 1, 1]),
    quantized("scalar_dw_in_bands_stride_2", (1, 3, 90, 70), (3, 1, 5, 5), S8, pads=[2] * 4, strides=[2, 2]),
    quantized("scalar_dw_dilated", (1, 8, 11, 12), (8, 1, 3, 3), S8, pads=[2, 3, 2, 3], dilations=[2, 3]),
    quantized("scalar_dw_dilated_row", (1, 4, 9, 5), (4, 1, 3, 3), U8, pads=[2] * 4, dilations=[2, 2]),
    quantized("scalar_dw_pads_beyond_the_kernel", (1, 4, 3, 4), (4, 1, 3, 3), S8, pads=[4, 5, 3, 6]),
    quantized("scalar_dw_pads_of_one_side", (1, 4, 6, 9), (4, 1, 3, 4), U8S8, pads=[0, 3, 2, 0]),
    quantized("scalar_dw_without_padding", (1, 7, 6, 9), (7, 1, 3, 3), U8),
    quantized("scalar_dw_relu", (1, 8, 5, 5), (8, 1, 3, 3), U8, y_zero_point=0, pads=[1, 1, 1, 1]),
    quantized("scalar_dw_zero_point_low", (1, 8, 5, 5), (8, 1, 3, 3), S8, x_zero_point=-128, pads=[1, 1, 1, 1]),
)

WINOGRAD = (
    quantized("scalar_tiles_minus_128", (1, 9, 6, 6), (6, 9, 3, 3), S8, w=full((6, 9, 3, 3), -128), pads=[1, 1, 1, 1]),
    quantized("scalar_tiles_127_u8", (1, 5, 6, 7), (7, 5, 3, 3), U8S8, w=full((7, 5, 3, 3), 127), pads=[1, 1, 1, 1]),
    quantized("scalar_tiles_ends", (1, 16, 7, 6), (12, 16, 3, 3), U8S8, w=edge((12, 16, 3, 3), 5), pads=[1, 0, 1, 1]),
    integer("scalar_tiles_integer", (2, 6, 5, 8), (5, 6, 3, 3), ("uint8", "int8"), pads=[1, 1, 1, 1]),
    integer("scalar_tiles_whole_weights", (1, 4, 5, 8), (4, 4, 3, 3), ("int8", "uint8"), full=True),
    *(
        quantized(f"scalar_tiles_{c}_in_{m}_out", (1, c, 5, 5), (m, c, 3, 3), S8, pads=[1] * 4)
        for c, m in ((1, 1), (2, 3), (3, 4), (4, 6), (5, 7), (17, 8), (20, 9), (33, 2))
    ),
    *(
        quantized(f"scalar_tiles_{h}_by_{w}", (1, 3, h, w), (5, 3, 3, 3), U8S8, pads=[1, 1, 1, 1])
        for h, w in ((2, 4), (3, 5), (2, 7), (8, 9), (5, 4))
    ),
    quantized("scalar_tiles_without_padding", (2, 6, 7, 9), (9, 6, 3, 3), U8),
    quantized("scalar_tiles_dilated", (1, 8, 9, 13), (8, 8, 3, 3), S8, pads=[2, 3, 2, 3], dilations=[2, 3]),
    quantized("scalar_tiles_relu", (1, 4, 6, 6), (4, 4, 3, 3), U8, y_zero_point=0, pads=[1, 1, 1, 1]),
)
