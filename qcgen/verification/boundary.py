"""Arrays in the model's own shapes to those of the C function's boundary, and back."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from qcgen.build import LoadedModel
from qcgen.ir.plan import Plan, Port
from qcgen.ir.types import Array, Layout
from qcgen.plan.layout import boundary_layout


def run(plan: Plan, loaded: LoadedModel, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """What a call of the generated code gives by name, for inputs by name; all of them in the model's own shapes.

    States that the call finds are inputs here, those that it leaves are outputs.
    """
    return from_boundary(plan, loaded.run_from(to_boundary(plan, feeds)))


def to_boundary(plan: Plan, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """The inputs by name as the C function takes them."""
    states = {state.before.tensor.name: feeds[state.before.tensor.name] for state in plan.states}
    inputs = {p.tensor.name: _to_boundary(p, feeds[p.tensor.name], plan.options.layout) for p in plan.inputs}
    return inputs | states


def from_boundary(plan: Plan, outputs: Mapping[str, Array]) -> dict[str, Array]:
    """What the C function gave, by name, in the model's own shapes."""
    states = {state.after.tensor.name: outputs[state.after.tensor.name] for state in plan.states}
    found = {p.tensor.name: _from_boundary(p, outputs[p.tensor.name], plan.options.layout) for p in plan.outputs}
    return found | states


def _to_boundary(port: Port, array: Array, option: str) -> Array:
    """An array in the model's own shape as the C function takes it."""
    wanted = boundary_layout(port.tensor, option)
    if wanted is port.tensor.layout:
        return array
    return np.ascontiguousarray(
        np.moveaxis(array, 1, -1) if wanted is Layout.CHANNELS_LAST else np.moveaxis(array, -1, 1)
    )


def _from_boundary(port: Port, array: Array, option: str) -> Array:
    """An array that the C function gave in the model's own shape."""
    held = boundary_layout(port.tensor, option)
    if held is port.tensor.layout:
        return array
    return np.moveaxis(array, -1, 1) if held is Layout.CHANNELS_LAST else np.moveaxis(array, 1, -1)
