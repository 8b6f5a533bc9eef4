"""More convolutions for the kernels of the host: every rest of sixteen channels, of eight windows, of four taps."""

from __future__ import annotations

from cases import S8, U8, U8S8, integer, quantized
from cases_scalar import edge, full

CASES = (
    *(
        quantized(f"host_{c}_channels_in_{m}_out_{h}_by_{w}", (1, c, h, w), (m, c, 1, 1), types)
        for (c, m, h, w), types in zip(
            ((1, 1, 2, 4), (2, 15, 3, 3), (3, 16, 1, 7), (4, 17, 3, 5), (5, 31, 2, 8), (8, 32, 1, 1), (64, 33, 5, 5)),
            (S8, U8S8, U8, S8, U8S8, S8, U8S8),
            strict=True,
        )
    ),
    *(
        quantized(f"host_3_by_3_{c}_in_{m}_out", (1, c, 6, 5), (m, c, 3, 3), types, pads=[1, 1, 1, 1])
        for (c, m), types in zip(((1, 16), (3, 5), (4, 48), (6, 20)), (S8, U8S8, S8, U8S8), strict=True)
    ),
    quantized("host_strided", (1, 8, 9, 9), (17, 8, 1, 1), U8S8, strides=[2, 2]),
    quantized("host_dilated", (1, 5, 9, 8), (6, 5, 3, 3), S8, dilations=[2, 3], pads=[2, 3, 2, 3]),
    quantized("host_batch", (3, 7, 4, 3), (18, 7, 3, 3), U8S8, pads=[1, 0, 0, 1]),
    quantized("host_batch_of_pixels", (4, 16, 1, 1), (6, 16, 1, 1), S8),
    quantized("host_dense", (1, 67, 1, 1), (37, 67, 1, 1), U8S8, w=edge((37, 67, 1, 1), 8)),
    quantized("host_ends", (1, 16, 7, 6), (12, 16, 3, 3), U8S8, w=edge((12, 16, 3, 3), 5), pads=[1, 0, 1, 1]),
    quantized("host_all_minus_128", (1, 9, 6, 6), (16, 9, 3, 3), S8, w=full((16, 9, 3, 3), -128), pads=[1, 1, 1, 1]),
    quantized("host_all_minus_128_u8", (1, 9, 6, 6), (6, 9, 3, 3), U8S8, w=full((6, 9, 3, 3), -128)),
    quantized("host_all_127", (1, 700, 3, 3), (17, 700, 1, 1), U8S8, w=full((17, 700, 1, 1), 127)),
    quantized("host_ties", (1, 32, 5, 5), (20, 32, 1, 1), S8, scale=2.0**-9),
    quantized("host_ties_of_one_window", (1, 32, 1, 1), (20, 32, 1, 1), U8S8, scale=2.0**-9),
    quantized("host_ties_in_some", (1, 8, 6, 6), (20, 8, 3, 3), S8, scale=[0.002] * 17 + [2.0**-9] + [0.003] * 2),
    quantized("host_depthwise", (1, 8, 9, 7), (8, 1, 3, 3), U8S8, pads=[1, 1, 1, 1]),
    quantized("host_depthwise_of_zero_points", (1, 5, 6, 5), (10, 1, 3, 2), U8),
    quantized("host_groups", (2, 6, 5, 5), (4, 3, 3, 3), S8, pads=[1, 0, 0, 1], strides=[2, 1]),
    quantized("host_corrected", (1, 7, 6, 5), (20, 7, 3, 3), U8, w_zero_point=17, pads=[1, 1, 0, 1]),
    quantized("host_corrected_ties", (1, 12, 6, 5), (18, 12, 1, 1), U8, w_zero_point=[250] * 18, scale=2.0**-9),
    quantized("host_corrected_dense", (1, 30, 1, 1), (18, 30, 1, 1), U8, w_zero_point=[0, 255] * 9),
    quantized("host_corrected_groups", (2, 6, 5, 5), (4, 3, 3, 3), U8, w_zero_point=[0, 255, 3, 128]),
    integer("host_integer", (1, 17, 5, 4), (18, 17, 3, 3), ("int8", "int8"), pads=[1, 1, 1, 1]),
    integer("host_integer_u8", (1, 16, 3, 3), (6, 16, 1, 1), ("uint8", "int8")),
)
