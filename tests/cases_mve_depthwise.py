"""More depthwise convolutions, for the Helium kernel: every rest of channels, pixels and rows; sums at their ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cases import S8, U8, U8S8, Case, integer, quantized
from cases_arm_dsp import edge, full


def depthwise(
    name: str,
    channels: int,
    image: Sequence[int],
    kernel: Sequence[int],
    types: tuple[str, str, str] = S8,
    batch: int = 1,
    **options: Any,
) -> Case:
    """A depthwise QLinearConv."""
    shapes = (batch, channels, *image), (channels, 1, *kernel)
    return quantized(f"mve_depthwise_{name}", *shapes, types, **options)


def same(kernel: Sequence[int]) -> list[int]:
    """Pads that keep the size of an image at stride 1, one more at the end where the kernel is even."""
    return [(k - 1) // 2 for k in kernel] + [k // 2 for k in kernel]


DEPTHWISE = (
    *(
        depthwise(f"{c}_channels", c, (5, 6), (3, 3), types, pads=[1] * 4)
        for c, types in zip(
            (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 15, 16, 17, 18, 19, 20, 24, 28, 31, 32, 33, 35, 48, 52),
            (S8, U8, U8S8) * 9,
            strict=False,
        )
    ),
    *(
        depthwise(
            f"{k}_by_{w}_stride_{s}", 10, (13, 11), (k, w), U8S8 if k % 2 else S8, strides=[s, s], pads=same((k, w))
        )
        for k, w in ((1, 1), (1, 2), (2, 2), (2, 3), (3, 4), (4, 4), (4, 1), (1, 5), (5, 3), (5, 5), (7, 7), (9, 2))
        for s in (1, 2, 3)
    ),
    *(
        depthwise(f"{k}_by_{k}_of_20_channels", 20, (11, 10), (k, k), U8 if k % 2 else S8, pads=same((k, k)))
        for k in (2, 3, 4, 5, 6, 8)
    ),
    *(depthwise(f"row_of_{w}", 6, (3, w), (3, 3), U8, pads=[1] * 4) for w in (1, 2, 3, 4, 5, 7)),
    *(depthwise(f"{h}_rows", 16, (h, 3), (3, 3), S8, pads=[1] * 4) for h in (1, 2, 3, 4, 5)),
    depthwise("rows_of_17_bytes", 1, (4, 17), (3, 3), S8, pads=[1] * 4),
    depthwise("rows_of_33_bytes", 3, (4, 11), (3, 3), U8, pads=[1] * 4),
    depthwise("batch", 20, (4, 3), (3, 3), U8S8, batch=3, pads=[1] * 4),
    depthwise("batch_of_few_channels", 3, (4, 3), (3, 3), S8, batch=2, pads=[1] * 4),
    depthwise("dilated", 18, (11, 12), (3, 3), S8, pads=[2, 3, 2, 3], dilations=[2, 3]),
    depthwise("dilated_wide", 7, (6, 30), (2, 5), U8, pads=[1, 5, 0, 9], dilations=[1, 5]),
    depthwise("dilated_5_by_5", 5, (17, 15), (5, 5), U8S8, pads=[4, 6, 4, 6], dilations=[2, 3], strides=[2, 1]),
    depthwise("stride_beyond_one_load", 33, (3, 40), (3, 3), S8, strides=[1, 9], pads=[1] * 4),
    depthwise("pads_exceed_kernel", 17, (2, 3), (2, 2), U8, pads=[4, 3, 3, 5]),
    depthwise("rest_unread", 16, (9, 10), (2, 2), S8, strides=[4, 5], pads=[1, 1, 0, 0]),
    depthwise("line", 21, (40,), (9,), S8, pads=[4, 4]),
    *(
        depthwise(f"line_of_{k}_taps", c, (50,), (k,), U8, pads=[k - 1, 2])
        for k, c in ((5, 3), (7, 16), (20, 24), (33, 8))
    ),
    depthwise("line_of_5_strided", 35, (23,), (5,), U8S8, strides=[3], pads=[2, 2], batch=2),
    depthwise("line_of_6_dilated", 9, (61,), (6,), S8, dilations=[7], pads=[35, 0]),
    depthwise("line_of_8_valid", 32, (12,), (8,), S8),
    depthwise("line_of_9_in_padding", 5, (2,), (9,), U8, pads=[9, 9], strides=[2]),
    depthwise("row_of_11_taps", 18, (1, 20), (1, 11), S8, pads=[0, 5, 0, 5]),
    depthwise("line_dilated", 4, (40,), (3,), U8, pads=[8, 0], dilations=[4]),
    depthwise("without_padding", 16, (6, 7), (3, 3), U8),
    depthwise("relu", 12, (6, 6), (3, 3), U8, pads=[1] * 4, y_zero_point=0),
    depthwise("all_minus_128", 20, (6, 6), (3, 3), S8, pads=[1] * 4, w=full((20, 1, 3, 3), -128)),
    depthwise("all_minus_128_u8", 5, (6, 6), (3, 3), U8S8, w=full((5, 1, 3, 3), -128), x_zero_point=0),
    depthwise("all_127", 16, (8, 8), (7, 7), S8, w=full((16, 1, 7, 7), 127), x_zero_point=127, pads=[3] * 4),
    depthwise("ends", 19, (7, 6), (4, 4), S8, w=edge((19, 1, 4, 4), 9), x_zero_point=-128, pads=[1] * 4),
    depthwise("ends_u8", 16, (7, 6), (5, 5), U8S8, w=edge((16, 1, 5, 5), 10), x_zero_point=255, pads=[2] * 4),
    depthwise("ties", 8, (5, 5), (3, 3), S8, scale=2.0**-7, pads=[1] * 4),
    depthwise("ties_in_some_channels", 20, (5, 5), (3, 3), U8S8, scale=[2.0**-7, *[0.0041] * 19], pads=[1] * 4),
    depthwise("ties_of_three_channels", 3, (5, 5), (3, 3), S8, scale=2.0**-8, pads=[1] * 4),
    depthwise("wide", 9, (5, 5), (3, 3), S8, scale=0.75, pads=[1] * 4),
    depthwise("huge_scale", 6, (5, 5), (3, 3), U8, scale=1e10, pads=[1] * 4),
    integer("mve_depthwise_integer", (1, 18, 5, 4), (18, 1, 3, 3), ("int8", "int8"), pads=[1] * 4),
    integer("mve_depthwise_integer_u8", (2, 3, 5, 4), (3, 1, 3, 3), ("uint8", "int8"), pads=[1] * 4),
)
