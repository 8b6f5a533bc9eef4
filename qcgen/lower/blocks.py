"""Blocks of pixels that become channels, and channels that become blocks of pixels."""

from __future__ import annotations

from qcgen.ir.program import Operator, Reshape, Tensor, Transpose
from qcgen.lower.source import Source

TO_LAST, TO_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
"""What brings the channels of an image behind its pixels, where they lie in memory, and back: mostly no code."""


def lower_depth_to_space(source: Source) -> tuple[Operator, ...]:
    """DepthToSpace, DCR and CRD: the channels of a pixel become a block of pixels."""
    batch, channels, height, width = source.tensor(0).shape
    size = source.integer("blocksize", 1)
    depth = channels // size**2
    if source.text("mode", "DCR") == "DCR":
        split, perm = (batch, height, width, size, size, depth), (0, 1, 3, 2, 4, 5)
    else:
        split, perm = (batch, height, width, depth, size, size), (0, 1, 4, 2, 5, 3)
    return _rearranged(source, split, perm, (batch, height * size, width * size, depth))


def lower_space_to_depth(source: Source) -> tuple[Operator, ...]:
    """SpaceToDepth: a block of pixels becomes the channels of one."""
    batch, channels, height, width = source.tensor(0).shape
    size = source.integer("blocksize", 1)
    split = (batch, height // size, size, width // size, size, channels)
    return _rearranged(source, split, (0, 1, 3, 2, 4, 5), (batch, height // size, width // size, channels * size**2))


def _rearranged(
    source: Source, split: tuple[int, ...], perm: tuple[int, ...], joined: tuple[int, ...]
) -> tuple[Operator, ...]:
    """An image, channels last, cut into blocks, whose axes change places, and joined again."""
    node, x, y = source.node, source.tensor(0), source.result()

    def inner(suffix: str, shape: tuple[int, ...]) -> Tensor:
        return source.inner(suffix, x.dtype, shape)

    last = inner("last", tuple(x.shape[axis] for axis in TO_LAST))
    blocks, moved = inner("blocks", split), inner("moved", tuple(split[axis] for axis in perm))
    image = inner("image", joined)
    return (
        Transpose(node.name, node.op_type, x, last, TO_LAST),
        Reshape(node.name, node.op_type, last, blocks),
        Transpose(node.name, node.op_type, blocks, moved, perm),
        Reshape(node.name, node.op_type, moved, image),
        Transpose(node.name, node.op_type, image, y, TO_FIRST),
    )
