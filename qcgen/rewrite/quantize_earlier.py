"""Quantization moves in front of operators that commute with it."""

from __future__ import annotations

from dataclasses import replace

from qcgen.ir.graph import Node
from qcgen.rewrite.clamps import clamp_of
from qcgen.rewrite.kept_in_float import stops_quantization
from qcgen.rewrite.movement import CHOICES, data_inputs, is_movement, on_codes
from qcgen.rewrite.quantization import activation_of_codes, named, quantizer_to_codes
from qcgen.rewrite.wiring import Change, Wiring


def quantize_earlier(wiring: Wiring, node: Node) -> Change | None:
    """A movement, MaxPool, Relu or Clip that QuantizeLinear alone reads works on the codes instead.

    Split is left out: it has several readers. What chooses one of many elements that are dequantized stays: there is
    less to quantize behind it.
    """
    if not (is_movement(node) or clamp_of(wiring, node) is not None) or len(node.outputs) != 1:
        return None
    found = quantizer_to_codes(wiring, node.outputs[0])
    if found is None or (node.op_type in CHOICES and activation_of_codes(wiring, node.input(0)) is not None):
        return None
    sources = data_inputs(node)
    codes = tuple(wiring.fresh(f"{source}_quantized") for source in dict.fromkeys(sources))
    by_source = dict(zip(dict.fromkeys(sources), codes, strict=True))
    inputs = tuple(by_source[source] for source in sources)
    moved = on_codes(wiring, node, inputs, (found.output,), found.quantization)
    if moved is None:
        return None
    meaning, constants = named(wiring, found.quantization, found.output)
    clamp = clamp_of(wiring, node)
    bounds = None if clamp is None else clamp.codes(found.quantization)
    stops = stops_quantization(node, bounds, found.quantization.dtype)
    earlier = tuple(
        replace(
            found.node,
            name=found.node.name if index == 0 else wiring.fresh(f"{found.node.name}_of_{source}"),
            inputs=(source, *meaning.names),
            outputs=(by_source[source],),
            in_float=found.node.in_float or stops,
        )
        for index, source in enumerate(by_source)
    )
    # On through all movements at once; a clamp may become part of what is in front of it, and waits for that.
    before = (wiring.producers.get(source) for source in by_source)
    again = tuple(maker.name for maker in before if maker is not None and is_movement(maker))
    return Change(node, (*earlier, moved[0]), remove=(found.node,), constants={**constants, **moved[1]}, again=again)
