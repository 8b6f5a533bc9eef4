"""The JSON report has the shape that docs/report.schema.json tells; the schema follows qcgen.report."""

import json
import types
import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest
from gallery_networks import float_tail, in_rows, network_qop

import qcgen
from qcgen.report import MEASURED, SCHEMA_VERSION, Measured, Report

SCHEMA = Path(__file__).parents[1] / "docs" / "report.schema.json"
PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def schema_of(kind):
    """The JSON Schema of a type of the report."""
    if kind in PLAIN:
        return {"type": PLAIN[kind]}
    if is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        names = [field.name for field in fields(kind) if field.name != "measure"]
        if kind is Report:
            hints |= {"code_bytes": Mapping[str, int] | None, "flash_bytes": int | None}
            hints |= {"stack_bytes": Mapping[str, int | None] | None, "compiler": str | None}
            hints |= {"function_bytes": Mapping[str, int] | None}
            names += MEASURED
        properties = {name: schema_of(hints[name]) for name in names}
        return {
            "type": "object", "properties": properties, "required": [*properties], "additionalProperties": False,
        }  # fmt: skip
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [schema_of(each) for each in arguments]}
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    if origin is tuple and arguments[-1] is Ellipsis:
        return {"type": "array", "items": schema_of(arguments[0])}
    if origin is tuple:
        return {"type": "array", "items": schema_of(arguments[0]), "minItems": 2, "maxItems": 2}
    assert origin is Mapping, kind
    return {"type": "object"} if arguments[1] is object else {
        "type": "object", "additionalProperties": schema_of(arguments[1]),
    }  # fmt: skip


def whole_schema():
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "The report of qcgen compile"}
    schema = head | schema_of(Report)
    schema["properties"]["schema_version"] = {"const": SCHEMA_VERSION}
    return schema


def misfits(value, schema, where="report"):
    """Where a JSON value is not as a schema of the kinds above says."""
    if "const" in schema:
        return [] if value == schema["const"] else [where]
    if "anyOf" in schema:
        return [] if any(not misfits(value, each, where) for each in schema["anyOf"]) else [where]
    if "enum" in schema:
        return [] if value in schema["enum"] else [where]
    kinds = {"string": str, "integer": int, "number": int | float, "boolean": bool, "null": type(None)}
    kinds |= {"object": dict, "array": list}
    if not isinstance(value, kinds[schema["type"]]) or (schema["type"] == "integer" and isinstance(value, bool)):
        return [where]
    if schema["type"] == "array":
        found = [misfit for item in value for misfit in misfits(item, schema["items"], f"{where}[]")]
        return found + [where] * (not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)))
    if schema["type"] == "object":
        properties, others = schema.get("properties", {}), schema.get("additionalProperties", {"anyOf": ANY})
        found = [f"{where}.{name}" for name in schema.get("required", ()) if name not in value]
        for name, item in value.items():
            own = properties.get(name, others)
            found += [f"{where}.{name}"] if own is False else misfits(item, own, f"{where}.{name}")
        return found
    return []


ANY = [{"type": kind} for kind in ("string", "integer", "number", "boolean", "null", "object")]
ANY += [{"type": "array", "items": {"anyOf": ANY}}]


def test_the_committed_schema_is_that_of_the_report():
    """A field that means another thing, or is gone, needs a new SCHEMA_VERSION."""
    assert json.loads(SCHEMA.read_text()) == whole_schema()


BY_GCC = Measured({"-Os": 1, "-O2": 2}, {"-Os": 3, "-O2": None}, "gcc")
REPORTS = {
    "network": lambda: qcgen.compile(network_qop()).report,
    "in rows": lambda: qcgen.compile(in_rows(), arena="least", layout="nhwc").report,
    "float": lambda: qcgen.compile(float_tail()).report,
    "measured": lambda: qcgen.compile(network_qop()).report.with_code(BY_GCC),
}


@pytest.mark.parametrize("name", REPORTS)
def test_reports_are_as_the_schema_says(name):
    assert misfits(json.loads(REPORTS[name]().to_json()), json.loads(SCHEMA.read_text())) == []


def test_a_report_that_is_not_as_the_schema_says_is_found():
    report = json.loads(qcgen.compile(network_qop()).report.to_json())
    schema = json.loads(SCHEMA.read_text())
    del report["inputs"][0]["scale"]
    report["more"], report["macs"], report["nodes"][0]["accumulator"] = 1, "many", [1]
    wrong = ["report.inputs[].scale", "report.macs", "report.more", "report.nodes[].accumulator"]
    assert sorted(misfits(report, schema)) == wrong
