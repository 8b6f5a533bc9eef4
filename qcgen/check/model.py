"""Rules for the model as a whole: inputs, outputs, operators, declarations, floats in a quantized network."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import prod

from qcgen.errors import Problem
from qcgen.geometry import NHWC_DOMAIN, transposed_axes
from qcgen.infer.facts import Shape, contradict, listed, shape_text
from qcgen.ir.graph import MOST_ELEMENTS, Graph, Node, Value
from qcgen.ir.types import DType
from qcgen.options import spelt

# What to do about operators that cannot be compiled.

FOLD = "if it only computes shapes or constants, export with fixed shapes and do_constant_folding, or run onnxsim"
PLACES = f"{FOLD}; else it is compiled where its places are constant and it has no reduction"
COMPARE = (
    f"{FOLD}; else cast its inputs to float: such numbers are compared and chosen, and integers of 8 and 16 bits"
    " compared; or compile the model up to it {cut}"
)
LEAVE = "compile the model up to its inputs, {cut}, and compute it in the firmware"
UNROLL_LOOP = "unroll it when you export the model; or compile the model up to it, {cut}"
OTHERS = (
    "the operators that can be compiled are listed by: qcgen ops; export the model with these, or compile it up to"
    " there {cut}, or single nodes with {node}"
)

ADVICE = {
    **dict.fromkeys(("ConstantOfShape", "Range", "Shape", "Size"), FOLD),
    **dict.fromkeys(("Compress", "GatherND", "ReverseSequence", "ScatterElements", "ScatterND", "Trilu"), PLACES),
    **dict.fromkeys(("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Where"), COMPARE),
    **dict.fromkeys(("Loop", "Scan"), UNROLL_LOOP),
    **dict.fromkeys(("NonMaxSuppression", "NonZero", "Unique"), LEAVE),
    "BatchNormalization": "fuse it into the convolution before it: export in inference mode, or preprocess the model"
    " (python -m onnxruntime.quantization.preprocess), or quantize its input and its output",
    "ConvTranspose": "quantize its input and its output, and its weights to constants of 8 bits (onnxruntime:"
    " quantize_static); it may have one or two spatial axes",
    "CumSum": "it is compiled along a constant axis of at most 64 float32 numbers",
    "If": "it is compiled if its condition is constant, or if both branches give float32 tensors of one shape; else"
    " compile the model up to it, {cut}, and choose in the firmware",
    "MatMulNBits": "with constant weights and accuracy_level 0 or 1, without g_idx, it is compiled, as a float product",
    "OneHot": "it is compiled where its input is int32 or int64, and depth and values are constant",
    "RNN": "export the step of one time frame, with its state as input and output, and unrolled to supported operators",
    "Upsample": "with constant scales of at least 1 it is compiled, nearest or linear; export with opset 11 or newer",
}
"""By the operator's name, with places for options."""


def advice(op_type: str) -> str:
    """What the user can do about an operator that cannot be compiled."""
    return ADVICE.get(op_type, OTHERS).format(cut=f"with {spelt(outputs='TENSOR')}", node=spelt("node"))


DOMAINS = ("", "com.microsoft", NHWC_DOMAIN)
"""The domains that have operators we know."""

MAX_AXES = 32
"""The most dimensions of a tensor: as many as arrays of numpy 1 have."""


def node_place(node: Node) -> str:
    """How a problem names a node."""
    return f"node {node.name!r} ({node.operator})"


MOST_NAMES = 3
"""How many nodes a problem names; the others are counted."""


def named_nodes(nodes: Sequence[Node]) -> str:
    """How a problem names nodes of one operator: the first ones, and how many more there are."""
    if len(nodes) == 1:
        return node_place(nodes[0])
    names = ", ".join(repr(node.name) for node in nodes[:MOST_NAMES])
    more = f" and {len(nodes) - MOST_NAMES} more" if len(nodes) > MOST_NAMES else ""
    return f"nodes {names}{more} ({nodes[0].operator})"


def shape_nodes(graph: Graph) -> frozenset[str]:
    """The nodes that compute with the shapes of tensors; where these are known, they have been folded."""
    found: set[str] = set()
    known = {"", *graph.constants}
    for node in graph.nodes:
        inputs = set(node.inputs) - known
        if node.is_a("Shape") or (inputs and inputs <= found):
            found |= set(node.outputs)
    return frozenset(node.name for node in graph.nodes if set(node.outputs) & found)


def boundary_problems(graph: Graph) -> Iterator[Problem]:
    """Inputs without a type or a fixed shape, and outputs that no node computes."""
    for name in graph.inputs:
        yield from _input_problems(graph.value(name))
    if not graph.nodes:
        what = "nothing is left to compile: no output depends on an input"
        yield Problem("model", what, "check that the right model was exported")
    elif not graph.outputs:
        yield Problem("model", "it has no output", "declare the tensors that it computes as outputs of the graph")
    computed = {name for node in graph.nodes for name in node.outputs}
    for name in graph.outputs:
        if graph.nodes and name not in computed and name not in graph.constants:
            yield Problem(f"output {name!r}", "it is an input handed through", "remove it from the model's outputs")


def _input_problems(value: Value) -> Iterator[Problem]:
    where = f"input {value.name!r}"
    if value.dtype is None:
        yield Problem(where, "its element type is unknown", "declare the type of the model's inputs")
    elif value.dtype is DType.OTHER:
        what = "it is not a tensor, or its elements are of a type that is not supported"
        yield Problem(where, what, "use tensors of int8, uint8 or float")
    shape, fixed = value.shape, value.fixed_shape
    if shape is None:
        yield Problem(where, "its shape is unknown", "export the model with fixed shapes")
    elif fixed is None:
        what = f"its shape is {shape_text(shape)}; every dimension must be a known number"
        yield Problem(where, what, _dim_hint(shape))
    elif min(fixed, default=1) < 1:
        what = f"its shape is {shape_text(shape)}; every dimension must be at least 1"
        yield Problem(where, what, "export the model with the shape that it is used with")
    elif too := too_large(fixed):
        yield Problem(where, f"it has {too}", "use smaller tensors")


def too_large(shape: tuple[int, ...]) -> str:
    """What a tensor of this shape has too much of, "" if nothing."""
    if len(shape) > MAX_AXES:
        return f"{len(shape)} dimensions, more than {MAX_AXES}"
    return f"{prod(shape)} elements, more than {MOST_ELEMENTS}" if prod(shape) > MOST_ELEMENTS else ""


def _dim_hint(shape: Shape) -> str:
    """The options that fix the symbolic dimensions; a leading one is the batch, mostly 1."""
    options = {dim: "1" if axis == 0 else "SIZE" for axis, dim in reversed(list(enumerate(shape))) if dim is not None}
    named = {dim: size for dim, size in reversed(options.items()) if isinstance(dim, str)}
    if None in shape or not named:
        return f"export the model with fixed shapes{f' and add {spelt(dims=named)}' if named else ''}"
    return f"add {spelt(dims=named)}"


def unsupported(node: Node) -> Problem:
    """That an operator cannot be compiled."""
    what = f"the operator {node.op_type} is not supported"
    if node.domain not in DOMAINS:
        what = f"the domain {node.domain!r} is unknown"
    return Problem(node_place(node), what, advice(node.op_type))


def transposed_problems(graph: Graph, node: Node) -> Iterator[Problem]:
    """The attribute for which a ConvTranspose cannot be compiled, if it is one of those."""
    x, w = (graph.value(node.input(index)).fixed_shape for index in (0, 1))
    if node.operator != "ConvTranspose" or x is None or w is None or len(x) not in (3, 4) or len(w) != len(x):
        return
    try:
        transposed_axes(node, x, w)
    except ValueError as error:
        what, hint = error.args
        yield Problem(node_place(node), what, hint)


def import_problems(graph: Graph) -> Iterator[Problem]:
    """Domains that are used and not imported."""
    for domain in dict.fromkeys(node.domain for node in graph.nodes):
        if domain in DOMAINS and domain not in graph.opsets:
            name = domain or "ai.onnx"
            what = f"it uses operators of {name} and does not import this domain"
            yield Problem("model", what, f"add {name} to the model's opset_import")


def version_problems(old: Iterable[tuple[Node, int]]) -> Iterator[Problem]:
    """One problem for all operators of a domain that are newer than the version imported: nodes, and what they need."""
    by_domain: dict[str, list[tuple[Node, int]]] = {}
    for node, since in old:
        by_domain.setdefault(node.domain, []).append((node, since))
    for domain, found in by_domain.items():
        name, needed, imported = domain or "ai.onnx", max(since for _, since in found), found[0][0].version
        operators = list(dict.fromkeys(node.op_type for node, _ in found))
        where = named_nodes([node for node, _ in found]) if len(operators) == 1 else "model"
        verb = "needs" if len(operators) == 1 else "need"
        what = f"{listed(operators)} {verb} opset {needed} of {name}; the model imports {imported}"
        yield Problem(where, what, f"export the model with opset {needed} or newer")


def contradictions(graph: Graph, computed: Mapping[str, Value], refused: Collection[str]) -> Iterator[Problem]:
    """Tensors that the model declares with another type or shape than their node computes.

    Of the results of nodes that are ``refused`` by name nothing is said.
    """
    for node in graph.nodes:
        for name in filter(None, () if node.name in refused else node.outputs):
            differences = _differences(graph.value(name), computed[name])
            if differences is not None:
                declared, result = differences
                what = f"the model declares it as {declared}, but {node_place(node)} computes {result}"
                yield Problem(f"tensor {name!r}", what, "correct the declaration or remove it: it is not needed")


def _differences(declared: Value, computed: Value) -> tuple[str, str] | None:
    """In what a declaration differs from the computed tensor, None if it does not."""
    if computed.dtype is DType.OTHER:
        return None  # which its node's own rules report
    if declared.dtype and computed.dtype and declared.dtype is not computed.dtype:
        return declared.dtype.value, computed.dtype.value
    if declared.shape is None or computed.shape is None:
        return None
    possible = all(dim >= 1 for dim in computed.shape if isinstance(dim, int))
    if possible and contradict(declared.shape, computed.shape):
        return shape_text(declared.shape), shape_text(computed.shape)
    return None
