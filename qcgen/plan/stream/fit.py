"""A network in an arena of so many bytes, or of as few as can be: chains of layers, and places for what they keep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

from qcgen.errors import ModelRejected, Problem
from qcgen.kernels import Prepared
from qcgen.plan.arrange import Arranged
from qcgen.plan.storage import Boundary, InRows, Stored, store, whole_buffers
from qcgen.plan.stream.choose import Chain, Chooser
from qcgen.plan.stream.stages import COPY, Stage

TRIES = 12  # limits that are tried when the places of tensors take more than what is alive at once


def fit(
    steps: Sequence[Arranged],
    prepared: Sequence[Prepared | None],
    boundary: Boundary,
    arena: int | Literal["least"],
    prepare: Callable[[Stage], Prepared],
) -> tuple[tuple[Chain, ...], Stored]:
    """The chains that run row by row, none if the network fits as it is, and the places of all tensors.

    Raises ModelRejected if no choice fits ``arena``, with the least that was reached.
    """
    whole = store(steps, prepared, boundary)
    if arena != "least" and whole.placement.bytes <= arena:
        return (), whole
    buffers = whole_buffers(steps, prepared, boundary)
    chooser = Chooser(
        steps, buffers, frozenset(p.tensor.name for p in boundary.ports if p.direction == "output"), prepare
    )
    least = chooser.least()
    best: tuple[tuple[Chain, ...], Stored] = ((), whole)
    limit = least if arena == "least" else max(arena, least)
    for _ in range(TRIES):
        chains = chooser.choose(limit)
        if chains is None:
            break
        stored = _stored(steps, prepared, boundary, chains, prepare)
        if stored.placement.bytes < best[1].placement.bytes:
            best = chains, stored
        if arena == "least" or stored.placement.bytes <= arena or limit == least:
            break
        limit = max(least, limit - (stored.placement.bytes - arena))
    if arena != "least" and best[1].placement.bytes > arena:
        raise _too_small(arena, fit(steps, prepared, boundary, "least", prepare)[1])
    return best


def _stored(
    steps: Sequence[Arranged],
    prepared: Sequence[Prepared | None],
    boundary: Boundary,
    chains: Sequence[Chain],
    prepare: Callable[[Stage], Prepared],
) -> Stored:
    in_rows = list(prepared)
    for chain in chains:
        for stage in chain.stages:
            if stage.index != COPY:
                in_rows[stage.index] = prepare(stage)
    rows = [InRows(chain.first, chain.last, chain.kept_bytes) for chain in chains]
    return store(steps, in_rows, boundary, rows)


def alone(prepared: Prepared) -> Prepared:
    """What a stage's call needs: its output lies over no input, as rows of both are kept."""
    return replace(prepared, access=None, in_place=())


def _too_small(arena: int, least: Stored) -> ModelRejected:
    bytes_ = least.placement.bytes
    what = f"it does not fit an arena of {arena} bytes; the least that was reached is {bytes_} bytes"
    return ModelRejected([Problem("the network", what, f"use --arena {bytes_} or --arena least")])
