"""The pipeline: a model goes through Graph, Program and Plan to C text."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from qcgen.artifact import Artifact
from qcgen.check import check
from qcgen.infer import infer
from qcgen.ir.plan import Options
from qcgen.load import load
from qcgen.lower import lower
from qcgen.plan import plan
from qcgen.plan.names import prefix_of
from qcgen.render import render
from qcgen.rewrite import rewrite
from qcgen.select_node import select_node

if TYPE_CHECKING:
    from onnx import ModelProto


def compile(
    model: str | os.PathLike[str] | bytes | ModelProto,
    *,
    name: str | None = None,
    target: str = "portable",
    layout: str = "model",
    numerics: str = "onnxruntime",
    optimize: str = "size",
    node: str | None = None,
    dims: Mapping[str, int] | None = None,
) -> Artifact:
    """Compiles a model, given as a path, bytes or ModelProto, to C; the options are those of ``qcgen compile``.

    Raises ModelRejected with every problem found if the model cannot be compiled, ValueError for an option that does
    not exist.
    """
    options = Options(target=target, layout=layout, numerics=numerics, optimize=optimize)
    graph = infer(rewrite(infer(load(model, dims=dims))))
    if node is not None:
        graph = select_node(graph, node)
    program = lower(check(graph), numerics=numerics)
    source = Path(model).name if isinstance(model, str | os.PathLike) else f"{graph.name}.onnx"
    prefix = prefix_of(Path(source).stem) if name is None else name
    planned = plan(program, options, prefix, source, node)
    return Artifact(program, planned, render(planned))
