"""Nodes of ai.onnx must be spelt as the opset that the model imports spells them, and yes and no as 1 and 0."""

from __future__ import annotations

from collections.abc import Iterator

from qcgen.errors import Problem
from qcgen.ir.graph import Node
from qcgen.schemas import version_at, versions

FLAGS = frozenset(
    "allowzero antialias ceil_mode count_include_pad exclude_outside input_forget keepdims layout"
    " linear_before_reset noop_with_empty_axes output_sequence saturate select_last_index storage_order training_mode"
    " transA transB".split()
)
"""Attributes that are 1 or 0; of other numbers operators of onnxruntime think differently."""

AGAIN = "export the model again, all of it with one opset"


def spelling_problems(node: Node) -> Iterator[Problem]:
    """Attributes and inputs that the node's operator has in other opsets alone; onnxruntime refuses such a node.

    Of what no opset has ``check`` says more.
    """
    yield from _flag_problems(node)
    own = None if node.domain else version_at(node.op_type, node.version)
    if own is None:
        return
    where, imported = f"node {node.name!r} ({node.operator})", f"opset {node.version}, which the model imports"
    for name in node.attributes:
        if name not in own.attributes and any(name in other.attributes for other in versions(node.op_type)):
            yield Problem(where, f"{node.op_type} has no attribute {name!r} in {imported}", AGAIN)
    count = len(node.inputs)
    if count > own.max_input and any(count <= other.max_input for other in versions(node.op_type)):
        what = f"it has {count} inputs; {node.op_type} has at most {own.max_input} in {imported}"
        yield Problem(where, what, AGAIN)


def _flag_problems(node: Node) -> Iterator[Problem]:
    for name, value in node.attributes.items():
        if name in FLAGS and isinstance(value, int) and value not in (0, 1):
            what = f"{name} is {value}, but must be 0 or 1"
            yield Problem(f"node {node.name!r} ({node.operator})", what, f"correct {name}")
