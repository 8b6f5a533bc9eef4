"""What a kernel is: a precondition, a packing and a template."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from qcgen.cores import Target
from qcgen.ir.context import Context
from qcgen.ir.plan import AccessOrder, Certificate
from qcgen.ir.program import ConvGeometry, Operator
from qcgen.ir.types import Array, Layout

Order = tuple[int, ...]
"""How a tensor lies in memory: its axes, as the program numbers them, outermost first."""


class TileWeights(Enum):
    """Where weights lie that are transformed for tiles of outputs, if --optimize speed may use tiles."""

    NONE = "nowhere: there is no flash for them"
    IN_RAM = "in scratch memory: they are transformed when the layer runs"
    IN_FLASH = "in flash: they are transformed when the network is compiled"


@dataclass(frozen=True)
class CommonOutput:
    """What the output steps of layers have in common that run through the same C function.

    ``shift`` is that of all their lines. ``tables`` are the roles of parameters that have a table in each layer, even
    where its channels share the number. ``has_offset``: the function adds one, though a layer's may be 0.
    ``is_guarded``: it tests for guard bands, though a layer may have none, of up to ``guard`` units; ``subtracts``:
    what is emulated there is freed of an addend. ``is_free``: a layer's numbers may become others, so that it has every
    table that any numbers need, and ``form``, "" if any will do, is the arithmetic to be taken, with ``prescale``
    if it is *wide*.
    """

    shift: int
    tables: frozenset[str] = frozenset()
    has_offset: bool = False
    is_guarded: bool = False
    guard: int = 0
    subtracts: bool = False
    is_free: bool = False
    form: str = ""
    prescale: int = 0


@dataclass(frozen=True)
class Setting:
    """What a kernel knows besides its operator: the order of axes in memory, the aim, the target.

    ``xs`` are the orders of the operator's inputs (``inputs_of``), ``y`` that of its output; ``x_layout`` and
    ``y_layout`` say the same for images in the words of convolutions. ``constants`` holds the elements of inputs that
    are constants of the program, by the tensor's name, in the tensor's shape. ``in_rows``: the operator is a few
    rows of a layer, and what a call loads first is loaded for each of them. ``common``: what the output step has in
    common with those of other layers, None if it is the layer's alone. ``sizes``: those of all
    layers that run through the same C function, if they are several, which it reads where it can. ``tile_weights``:
    where weights may lie that are transformed for tiles of outputs, if ``optimize`` is "speed"; in RAM they and what
    waits for them take ``tile_scratch`` bytes at most. ``free_bytes``: those of the arena that are free in all
    layers of the function: arrays that the function would have on its stack may be scratch memory instead.
    """

    x_layout: Layout
    y_layout: Layout
    optimize: str
    target: Target
    xs: tuple[Order, ...] = ()
    y: Order = ()
    constants: Mapping[str, Array] = field(default_factory=dict)
    in_rows: bool = False
    common: CommonOutput | None = None
    sizes: tuple[ConvGeometry, ...] = ()
    tile_weights: TileWeights = TileWeights.IN_FLASH
    tile_scratch: int = 0
    free_bytes: int = 0

    @property
    def is_free(self) -> bool:
        """Whether the numbers of the model may become others than those that the code is made with."""
        return self.common is not None and self.common.is_free

    @property
    def features(self) -> frozenset[str]:
        """Those of the target."""
        return self.target.features


@dataclass(frozen=True)
class Constants:
    """A constant array that a kernel wants: ``role`` becomes part of the symbol, ``meaning`` the comment.

    ``packed_bits``: those of a number where several lie in one element, else None. ``is_number``: the only element
    stands for the name ``role`` of the context.
    """

    role: str
    c_type: str
    values: Array
    meaning: str
    packed_bits: int | None = None
    is_number: bool = False


def number(role: str, c_type: str, value: float, meaning: str) -> Constants:
    """A number of the model that may become another one: it stands for the name ``role`` of the context."""
    dtype = np.float32 if c_type == "float" else np.int64
    return Constants(role, c_type, np.array([value], dtype), meaning, is_number=True)


def words(values: Array) -> Array:
    """Of each float32 number the word that holds its bits, as an integer."""
    return values.astype(np.float32).view(np.uint32).astype(np.int64)


def word(value: float) -> int:
    """Of one number."""
    return int(words(np.asarray(value)))


@dataclass(frozen=True)
class Scratch:
    """A buffer in the arena for the duration of a call, ``align`` a power of two."""

    bytes: int
    align: int


@dataclass(frozen=True)
class Prepared:
    """An operator packed for a kernel.

    ``context`` holds every name that the template uses, besides those that every template gets (COMMON_NAMES). The C
    function takes the inputs that are not constants, then the output, then the ``scratch`` buffers; the output may lie
    where the inputs with the numbers in ``in_place`` do, if they have its size in bytes, and over the first input at
    the distance that ``access`` allows; None: not over it at all. ``sizes``: what the text of a function for layers of
    several sizes reads from the layer's struct.
    ``cycles``: what a call takes, about, if the kernel counts better than the numbers of qcgen.plan.prices;
    ``operations``: what its functions become, if it counts better than qcgen.estimate does in their text; ``folded``:
    what calls of the library's functions become for which compilers fold the layer's numbers, by name without the type.
    ``passes``: how often the first table is read from its begin to its end. ``copying``: what the template shows if the
    function first copies that table to one more scratch buffer, the last; None if the kernel cannot.
    ``stack_bytes``: those of arrays on the stack that ``Setting.free_bytes`` can take instead.
    ``returns_status``: the C function returns 1 where the arithmetic has no result for its input, else 0; such layers
    neither share functions nor run row by row. Others return nothing.
    """

    constants: tuple[Constants, ...]
    context: Context
    scratch: tuple[Scratch, ...]
    certificate: Certificate
    in_place: tuple[int, ...] = ()
    access: AccessOrder | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    cycles: float | None = None
    operations: float | None = None
    folded: Mapping[str, float] = field(default_factory=dict)
    passes: int = 1
    copying: Context | None = None
    stack_bytes: int = 0
    returns_status: bool = False


COMMON_NAMES = frozenset({"prefix", "symbol", "tables", "kept", "op", "layer_type"})
"""What every kernel template gets: the model's prefix, the node's symbol, its tables' symbols by role, how a struct of
them is declared, the operator and, of a function that layers share, the type in C of what a layer has for itself, else
""."""


@dataclass(frozen=True)
class SizesPrice:
    """What layers of several sizes gain and lose if they share a function, on a Cortex-M4 with gcc -O2.

    ``bytes`` says how much code a function for layers of these geometries takes, ``instructions`` how many more an
    inference takes for a layer, if all layers have the geometries that are the second argument.
    """

    bytes: Callable[[Sequence[ConvGeometry]], int]
    instructions: Callable[[ConvGeometry, Sequence[ConvGeometry]], float]


@dataclass(frozen=True)
class Kernel:
    """A way to compute one operator; ``context`` is the type of what its template shows.

    ``why_not`` answers None if the kernel can serve, else the reason in the user's words; ``needs`` are features that
    the target must have; ``prepare`` packs an operator that ``why_not`` accepted. ``sizes``: what it costs if layers of
    several sizes share its function, None if they cannot.
    """

    name: str
    context: type[Context]
    needs: frozenset[str]
    why_not: Callable[[Operator, Setting], str | None]
    prepare: Callable[[Operator, Setting], Prepared]
    sizes: SizesPrice | None = None

    @property
    def template(self) -> str:
        """The file below templates/ that is the C function's text."""
        return self.context.template
