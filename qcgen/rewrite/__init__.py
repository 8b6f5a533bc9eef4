"""The model's graph made simpler without a change of meaning: the patterns by subject."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

from qcgen.infer import computed, infer
from qcgen.infer.facts import contradict, shape_text
from qcgen.ir.graph import Graph
from qcgen.rewrite import channels_last, join, movement, products, quantization, weights
from qcgen.rewrite.fold_constants import FOLDS, Budget, Fold, fold_constants
from qcgen.rewrite.in_float32 import in_float32
from qcgen.rewrite.wiring import Pattern, apply, without_unused

FIRST: tuple[Pattern, ...] = (
    join.remove_identities,
    join.merge_duplicates,
    weights.fold_into_weights,
    products.join_matmul_add,
    weights.quantize_weights,
)
"""What is looked for while quantization is where the model has it: which weights become codes depends on that."""

PATTERNS: tuple[Pattern, ...] = (
    join.remove_identities,
    join.merge_duplicates,
    join.name_means,
    join.name_casts,
    movement.gather_places,
    products.write_out_einsum,
    join.join_layer_norm,
    products.join_matmul_add,
    products.widen_vectors,
    weights.lower_conv_transpose,
    weights.scale_weights_by_output,
    weights.scale_weights_by_input,
    join.join_gelu,
    join.join_pairs,
    quantization.drop_clamps,
    quantization.clamp_earlier,
    quantization.quantize_earlier,
    quantization.dequantize_later,
)
"""What is looked for, in this order: after each change the search starts again from the top.

Quantization moves forward before dequantization moves back, so that a Relu between two quantizations becomes part of
one table.
"""

LAST: tuple[Pattern, ...] = (
    weights.fold_into_weights,
    join.compare_as_floats,
    movement.gather_places,
    movement.move_to_places,
    products.write_out_einsum,
    join.join_gelu,
    join.write_out_gelus,
    products.add_behind_gemm,
    products.write_out_gemm,
    products.sum_up_codes,
    products.scale_behind_product,
    join.join_dynamic_quantize,
    quantization.write_out_scales,
    weights.lower_conv_transpose,
    movement.linear_resize,
    products.write_out_products,
    products.write_out_blocks,
    products.widen_vectors,
    weights.write_out_batch_normalization,
    join.write_out_logarithms,
    join.write_out_sums,
    join.write_out_running_sums,
    join.write_out_one_hot,
)
"""What is looked for at the end, in models without quantization, too: operators that several others compute."""

FOLDS_AT_FIRST: Mapping[tuple[str, str], Fold] = {
    key: fold for key, fold in FOLDS.items() if key[1] != "DequantizeLinear"
}
"""Weights and biases stay behind their DequantizeLinear until quantization has moved to where it stays."""


def rewrite(graph: Graph) -> Graph:
    """The graph with quantization around the operators that compute, and with everything computed that does not depend
    on an input; its types and shapes inferred.
    """
    own_domains = frozenset(node.domain for node in graph.nodes)
    budget = Budget.of(graph.constants)
    graph = _folded(_without_stale(graph), FOLDS_AT_FIRST, budget)
    while (chosen := join.choose_branches(graph)) is not graph:
        graph = _folded(without_unused(chosen), FOLDS_AT_FIRST, budget)
    named = apply(apply(graph, movement.name_upsamples), join.name_normalizations)
    graph = graph if named is graph else _folded(named, FOLDS_AT_FIRST, budget)
    resizes, reductions = channels_last.resizes(graph), channels_last.reductions(graph)
    halves = in_float32(apply(apply(graph, join.remove_identities), join.join_reciprocal_product))
    graph = graph if halves is graph else _folded(halves, FOLDS_AT_FIRST, budget)
    if any(node.op_type in ("QuantizeLinear", "DequantizeLinear") for node in graph.nodes):
        first = apply(_fused(_with_pairs_joined(graph), FIRST, budget), quantization.name_clamped)
        graph = without_unused(_fused(first, PATTERNS, budget))
    graph = _folded(graph, FOLDS, budget)
    last: tuple[Pattern, ...] = (
        partial(movement.resize_channels_last, resizes),
        partial(channels_last.reduce_before, reductions),
        *LAST,
    )
    for pattern in last:
        changed = apply(graph, pattern)
        graph = graph if changed is graph else _folded(without_unused(changed), FOLDS, budget)
    return _importing(graph, own_domains)


def _without_stale(graph: Graph) -> Graph:
    """The graph with the operators' own shapes of inner tensors that are declared with others.

    onnxruntime warns of such a shape, and runs the model.
    """
    (found, _), declared = computed(graph), graph.values
    inner = {name for node in graph.nodes for name in node.outputs if name} - {*graph.inputs, *graph.outputs}
    values, notes = dict(declared), []
    for name in sorted(inner.intersection(declared)):
        said, own = declared[name].shape, found[name].fixed_shape
        if said is not None and own is not None and min(own, default=1) > 0 and contradict(said, own):
            values[name] = replace(declared[name], shape=own)
            notes.append(f"the shape of {name!r} is {shape_text(own)}, not {shape_text(said)} as declared")
    return replace(graph, values=values, notes=(*graph.notes, *notes)) if notes else graph


def _folded(graph: Graph, folds: Mapping[tuple[str, str], Fold], budget: Budget) -> Graph:
    """Folding and inference help each other (the shape of a Reshape may be computed, Shape needs shapes), so they take
    turns until no node is folded.
    """
    while True:
        folded = fold_constants(infer(graph), folds, budget)
        if len(folded.nodes) == len(graph.nodes):
            return folded
        graph = folded


def _with_pairs_joined(graph: Graph) -> Graph:
    """The graph with pairs of QuantizeLinear and DequantizeLinear in a row joined.

    Before all else: a second node that reads between them keeps both, even if it does what the first one does, or if
    nothing reads what it makes.
    """
    while (changed := apply(apply(graph, join.remove_identities), join.join_double_pairs)) is not graph:
        graph = changed
    return graph


def _fused(graph: Graph, patterns: Sequence[Pattern], budget: Budget) -> Graph:
    """The graph in which none of the patterns is left."""
    while (changed := apply(graph, *patterns)) is not graph:
        graph = _folded(without_unused(changed), FOLDS_AT_FIRST, budget)
    return graph


def _importing(graph: Graph, own_domains: Collection[str]) -> Graph:
    """The graph with version 1 of every domain that rewriting brought in; those of the model it must import itself."""
    new = {node.domain: 1 for node in graph.nodes if node.domain not in {*graph.opsets, *own_domains}}
    return replace(graph, opsets={**graph.opsets, **new})
