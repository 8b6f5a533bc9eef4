"""How the generated C finds the windows of a convolution: run after run of elements that lie side by side."""

from __future__ import annotations

from dataclasses import dataclass, replace

from qcgen.kernels.axes import INDENT, Axis, any_at_border, any_inside


@dataclass(frozen=True)
class Runs:
    """A window of an image with these spatial ``axes`` as runs: rows of taps (``is_rows``), else single taps.

    templates/kernels/windows.c.jinja shows them. ``depth``: of loops around the one over the runs.
    """

    axes: tuple[Axis, ...]
    is_rows: bool
    depth: int

    @property
    def looped_axes(self) -> tuple[Axis, ...]:
        """The axes that a loop over the runs has."""
        around = self.axes[:-1] if self.is_rows else self.axes
        return tuple(replace(axis, indent=INDENT * (self.depth + i)) for i, axis in enumerate(around))

    @property
    def inner(self) -> str:
        """The indent within the loops over the runs."""
        return INDENT * (self.depth + len(self.looped_axes))

    @property
    def row(self) -> Axis:
        """The last axis."""
        return self.axes[-1]

    @property
    def has_border(self) -> bool:
        """Whether some window reaches beyond the image."""
        return any_at_border(self.axes)

    @property
    def has_inside(self) -> bool:
        """Whether some window lies wholly within the image."""
        return any_inside(self.axes)
