"""What ONNX's own schemas say of the operators of ai.onnx, of every opset."""

from __future__ import annotations

from functools import cache

from onnx import defs

OLDEST = 7
"""The first opset whose models onnxruntime promises to run; before it operators broadcast by an attribute, or not."""

NEWEST_READ = 28
"""The newest opset whose schemas the rules of check were compared with; what a later one adds is refused as unknown."""

Schema = defs.OpSchema
AttrType = Schema.AttrType


@cache
def versions(op_type: str) -> tuple[Schema, ...]:
    """The schemas of an operator, the newest one first; none if there is no such operator."""
    found: list[Schema] = []
    version = defs.onnx_opset_version()
    while version > 0 and defs.has(op_type, version, ""):
        found.append(defs.get_schema(op_type, version, ""))
        version = found[-1].since_version - 1
    return tuple(found)


def version_at(op_type: str, opset: int) -> Schema | None:
    """The schema of an operator in an opset, None if it does not have the operator."""
    return next((schema for schema in versions(op_type) if schema.since_version <= opset), None)


def numbers_of(op_type: str, opset: int) -> dict[str, float]:
    """An operator's attributes that are numbers, with what they are by default."""
    schema = version_at(op_type, opset)
    attributes = () if schema is None else schema.attributes.values()
    return {each.name: each.default_value.f for each in attributes if each.type == AttrType.FLOAT}
