"""Arrays in the model's own shapes to those of the C function's boundary, and back."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from qcgen.build import LoadedModel
from qcgen.ir.plan import Plan, Port
from qcgen.ir.types import Array, Layout
from qcgen.plan.layout import boundary_layout


def run(plan: Plan, loaded: LoadedModel, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs of the generated code by name, for inputs by name; all of them in the model's own shapes."""
    option = plan.options.layout
    given = {port.tensor.name: _to_boundary(port, feeds[port.tensor.name], option) for port in plan.inputs}
    results = loaded.run(None, given)
    return {
        port.tensor.name: _from_boundary(port, result, option)
        for port, result in zip(plan.outputs, results, strict=True)
    }


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
