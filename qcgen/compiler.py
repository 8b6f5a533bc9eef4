"""The pipeline: a model goes through Graph, Program and Plan to C text."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from qcgen.artifact import Artifact
from qcgen.check import check, well_formed
from qcgen.chips import chip_of, target_of, target_on
from qcgen.cross import compiled_bytes
from qcgen.errors import ModelRejected, Problem
from qcgen.estimate import code_bytes
from qcgen.fallbacks import refuse_float, refuse_varying, require_target
from qcgen.infer import infer
from qcgen.intervals import annotate
from qcgen.ir.graph import Graph
from qcgen.ir.plan import Options, Plan
from qcgen.ir.program import Program
from qcgen.ir.types import Array
from qcgen.load import load
from qcgen.lower import lower
from qcgen.options import (
    Aim,
    ChipName,
    InputForm,
    IOTypes,
    LayoutName,
    NumericsName,
    PlaceOfIO,
    PlaceOfState,
    TargetName,
    block_name,
    contradiction,
    in_python,
    parse_size,
    require,
    spelt,
)
from qcgen.parts import bake, cut, fix_batch, select_node
from qcgen.plan import Planner
from qcgen.plan.flash import within
from qcgen.plan.functions import FreeStep
from qcgen.plan.names import is_prefix, prefix_of
from qcgen.progress import report_progress
from qcgen.render import render
from qcgen.rewrite import rewrite
from qcgen.simplify import fold_operators, simplify
from qcgen.simplify.join_tables import join_tables
from qcgen.simplify.wiring import quantized_io
from qcgen.tflite import TfliteGraph, lower_tflite, read_tflite, tflite_bytes

if TYPE_CHECKING:
    from onnx import ModelProto


QUIETLY = np.errstate(all="ignore")
"""Whatever numbers a model holds, numpy does not warn of them on standard error: rules and proofs decide about them."""


def compile(
    model: str | os.PathLike[str] | bytes | ModelProto,
    *,
    name: str | None = None,
    target: TargetName = "portable",
    layout: LayoutName = "model",
    numerics: NumericsName = "onnxruntime",
    optimize: Aim = "size",
    io: IOTypes = "model",
    simplify: bool = True,
    node: str | None = None,
    outputs: str | Sequence[str] = (),
    dims: Mapping[str, int] | None = None,
    constants: Mapping[str, Array] | None = None,
    arena: int | str | None = None,
    flash: int | None = None,
    io_memory: PlaceOfIO = "caller",
    state: PlaceOfState = "arena",
    input: InputForm = "whole",
    status: bool = False,
    strict: bool = False,
    batch: int | None = None,
    rename: Mapping[str, str] | None = None,
    weights: str | None = None,
    constant_time: bool = False,
    board: ChipName | None = None,
) -> Artifact:
    """Compiles a model, given as a path, bytes or ModelProto, to C; the options are those of ``qcgen compile``.

    ``io`` is "model" or "quantized" (without the conversions from and to float at the boundary); ``simplify=False``
    keeps what is proved to be without effect, for comparison. ``arena`` is the number of bytes that the arena may have
    at most, "least", or such
    numbers of a fast and of a slow memory: "64k+256k"; ``flash`` that which constants and code may take, of which
    each layer gets what gains most.
    ``io_memory`` is "caller" or "arena": inputs and outputs lie in the arena, too. ``state`` is "arena" or "caller":
    what a network keeps from call to call lies in memory of its own. ``input`` is
    "whole" or "rows": the caller pushes one row after the other. ``status=True``: NAME_HOOK may end a run, and the C
    function returns whether it did.
    ``weights`` names the file of a block in which tables and numbers of the model lie apart from the code: blocks of
    other models may take its place (``qcgen.weights``).
    ``constant_time=True`` makes code that takes as many instructions for every input, on cores that can, and refuses
    operators that have none.
    ``constants`` are inputs, by name, that become constants of the model, with their elements.
    ``dims`` are sizes of symbolic dimensions, by their names.
    ``outputs`` are tensors, or one, up to which the model is compiled, in place of its own outputs.
    ``batch`` is what leading dimensions of inputs become that the model leaves open: 1 unless it is given.
    ``rename`` says what inputs and outputs, by their names, are called in C; Python calls them as the model does.
    ``target`` may be a chip or a series, too, which stands for its core. ``board`` is a chip, such as "stm32f407": the
    report then says whether the network fits, and the target is the chip's core unless ``target`` names one.
    ``strict=True`` refuses operators that compute with floats; conversions from and to float are none of them.
    Raises ModelRejected with every problem found if the model cannot be compiled, ValueError for an option that does
    not exist.
    """
    given = {option: value for option, value in locals().items() if option != "model"}
    for option, value in given.items():
        require(option, value)
    with in_python():
        if why := contradiction(given):
            raise ValueError(why)
    if name is not None and not is_prefix(name):
        raise ValueError(f"name must be a C identifier that can start symbols, not {name!r}")
    if weights is not None:
        block_name(weights)
    chip = None if board is None else chip_of(board)
    given["target"] = target_of(target) if chip is None else target_on(chip, target_of(target))
    given["outputs"] = (outputs,) if isinstance(outputs, str) else tuple(outputs)
    given["rename"] = tuple((rename or {}).items())
    given["arena"] = parse_size(arena, or_more=True) if isinstance(arena, str) else arena
    options = Options(**{each.name: given[each.name] for each in fields(Options) if each.name in given})
    with in_python():
        graph = read(model, dims, constants, options.outputs, batch)
        source = Path(model).name if isinstance(model, str | os.PathLike) else f"{graph.name}.onnx"
        prefix = prefix_of(Path(source).stem) if name is None else name
        artifact = compile_graph(graph, options, prefix, source, node, strict=strict)
    return replace(artifact, board=chip)


@QUIETLY
@np.errstate(over="ignore")
def read(
    model: str | os.PathLike[str] | bytes | ModelProto,
    dims: Mapping[str, int] | None = None,
    constants: Mapping[str, Array] | None = None,
    outputs: Sequence[str] = (),
    batch: int | None = None,
) -> Graph:
    """A model's graph with every type and shape that can be known, its constant parts folded.

    ``constants``: inputs by name that are constant, and their elements; ``outputs``: the tensors up to which the graph
    goes, none: its own outputs; ``batch``: what leading dimensions of inputs become that are open, None: 1.
    """
    report_progress("reading the model")
    if (data := tflite_bytes(model)) is not None:
        return cut(_tflite(data, model, dims, constants, batch), outputs)
    graph = cut(bake(fix_batch(load(model, dims=dims), batch), constants or {}), outputs)
    return infer(rewrite(infer(well_formed(graph))))


def _tflite(
    data: bytes,
    model: object,
    dims: Mapping[str, int] | None,
    constants: Mapping[str, Array] | None,
    batch: int | None,
) -> Graph:
    """The graph of a .tflite file, whose shapes are fixed and whose inputs stay inputs."""
    given = {"dims": dims, "constants": constants, "batch": batch is not None}
    if wrong := [option for option, value in given.items() if value]:
        what = f"{spelt(wrong[0])} is not for .tflite files"
        raise ModelRejected([Problem("model", what, "convert the model with the shapes and constants that you want")])
    return read_tflite(data, Path(model).stem if isinstance(model, str | os.PathLike) else "model")


@QUIETLY
@np.errstate(over="ignore")  # what overflows float32 is infinite, as in onnxruntime
def compile_graph(
    graph: Graph,
    options: Options,
    prefix: str,
    source: str,
    node: str | None = None,
    strict: bool = False,
    fitting: Mapping[str, FreeStep] | None = None,
) -> Artifact:
    """Compiles a graph that ``read`` gave, or one of its nodes; ``source`` is the model's name in comments.

    ``strict``: operators that compute with floats are refused. ``fitting``: how operators are computed, by their names,
    in code that the weights shall fit.
    """
    if options.weights is not None:
        options = replace(options, simplify=False)  # other weights need not have what it is proved by
    if node is not None:
        graph = select_node(graph, node, with_codes=True)
    if isinstance(graph, TfliteGraph):
        options = replace(options, numerics=_tflite_numerics(options.numerics))
        program = lower_tflite(graph if node is None else replace(graph, states=()))
    else:
        if node is None and options.numerics == "onnxruntime":
            graph = fold_operators(graph)
        graph = check(graph)
        program = join_tables(lower(graph, numerics=options.numerics))
    inputs = tuple(graph.value(name) for name in graph.inputs)
    origin = graph.origin and replace(graph.origin, inputs=inputs, outputs=graph.outputs)
    if options.io == "quantized":
        before, program = program, quantized_io(program)
        options = replace(options, rename=_renamed(options.rename, before, program))
    report_progress("computing intervals")
    simplified = simplify(program) if options.simplify else program
    planned = annotate(simplified) if options.simplify else program
    if strict:
        refuse_float(planned)
    if options.constant_time:
        require_target(options.target)
    planner = Planner(planned, options, prefix, source, node, fitting)
    own = planner.whole() if options.flash is None else within(planner, options.flash, code_bytes, _flash_bytes)
    if options.constant_time:
        refuse_varying(own)
    return Artifact(program, planned, own, render(own), simplified is not program, origin, graph.notes)


def _flash_bytes(plan: Plan) -> int | None:
    """Code at -O2 and constants, as the target's compiler makes them; None if it is not installed."""
    found = compiled_bytes(plan, render(plan))
    return None if found is None else plan.constant_bytes + found


def _tflite_numerics(numerics: str) -> str:
    """The arithmetic of .tflite files, in place of the default; Orion's is not for them."""
    if numerics in ("onnxruntime", "tflm"):
        return "tflm"
    what = f"{spelt(numerics=numerics)} is not for .tflite files"
    raise ModelRejected([Problem("model", what, "leave it out: they are computed as TensorFlow Lite Micro does")])


def _renamed(rename: tuple[tuple[str, str], ...], before: Program, after: Program) -> tuple[tuple[str, str], ...]:
    """The names that are chosen, by those of the tensors that are now at the boundary."""
    tensors = zip((*before.inputs, *before.outputs), (*after.inputs, *after.outputs), strict=True)
    now = {old.name: new.name for old, new in tensors}
    return tuple((now.get(name, name), new) for name, new in rename)
