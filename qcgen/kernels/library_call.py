"""Nodes whose C function only calls a function of templates/library/, which a generated file has once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from qcgen.ir.context import Context
from qcgen.ir.program import Operator


@dataclass(frozen=True)
class LibraryCall(Context):
    """The node's C function and the call in it."""

    template: ClassVar[str] = "kernels/library_call.c.jinja"

    comment: str  # above the function
    parameters: str  # of C
    function: str  # its name in the library, without qcgen_
    arguments: tuple[str, ...]  # of C


def library_call(op: Operator, what: str, parameters: str, function: str, *arguments: str | int) -> LibraryCall:
    """The context of an operator; ``what``: a sentence on what its function computes."""
    return LibraryCall(f"{op.name}: {op.op_type}. {what}", parameters, function, tuple(map(str, arguments)))
