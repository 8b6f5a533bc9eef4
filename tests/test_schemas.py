"""The operators of ai.onnx by ONNX's own schemas: no opset that was not looked at is believed to be known."""

from __future__ import annotations

import onnx

from qcgen.schemas import NEWEST_READ, version_at, versions


def test_the_schemas_of_every_known_opset_were_compared_with_the_rules():
    assert onnx.defs.onnx_opset_version() <= NEWEST_READ


def test_versions_go_from_the_newest_to_the_first():
    since = [schema.since_version for schema in versions("Clip")]
    assert since == sorted(since, reverse=True)
    assert since[-5:] == [13, 12, 11, 6, 1]
    assert versions("Mystery") == ()


def test_an_opset_has_the_version_that_came_last():
    assert version_at("Clip", 10).since_version == 6
    assert version_at("Clip", 11).since_version == 11
    assert version_at("Gelu", 19) is None
