"""Nodes whose C function only calls a function of templates/library/, which a generated file has once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from qcgen.ir.context import Context, Struct
from qcgen.ir.program import Operator


@dataclass(frozen=True)
class LibraryCall(Context):
    """The node's C function and the call in it."""

    template: ClassVar[str] = "kernels/library_call.c.jinja"

    comment: str  # above the function
    parameters: str  # of C
    function: str  # its name in the library, without qcgen_
    arguments: tuple[str, ...]  # of C
    layer: Struct | None  # whose address is the first argument, if there is one


def library_call(
    op: Operator,
    what: str,
    parameters: str,
    function: str,
    *arguments: str | int,
    layer: Struct | None = None,
) -> LibraryCall:
    """The context of an operator; ``what``: a sentence on what its function computes."""
    comment = f"{op.name}: {op.op_type}. {what}".rstrip()
    return LibraryCall(comment, parameters, function, tuple(map(str, arguments)), layer)
