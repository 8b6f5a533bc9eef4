"""The Graph of a .tflite file, with what the codes of its tensors mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from qcgen.ir.graph import Graph
from qcgen.ir.program import State
from qcgen.ir.types import Array

AGAIN = "convert the model again"


@dataclass(frozen=True)
class TfliteCodes:
    """What codes mean: real value = (q - zero_points) * scales, both (1,), or (C,) along ``axis``; scales float32.

    Several scales are as the file has them: they need not fit the axis.
    """

    scales: Array
    zero_points: Array
    axis: int


@dataclass(frozen=True)
class TfliteGraph(Graph):
    """The graph of a .tflite file; ``codes`` has the tensors that are quantized, by name.

    The tensors of ``states``, which variables hold from call to call, are the last inputs and outputs. ``unchanged``
    are the constants that variables hold to which nothing is assigned.
    """

    codes: Mapping[str, TfliteCodes] = field(default_factory=dict)
    states: tuple[State, ...] = ()
    unchanged: tuple[str, ...] = ()

    def unused(self, name: str) -> str:
        """The name, or a longer one, that no tensor has."""
        while name in self.values:
            name += "_"
        return name
