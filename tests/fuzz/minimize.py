"""A smaller model that goes wrong in the same way: parts are left out as long as it does."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from onnx import ModelProto

from fuzz.oracle import COMPILER, judged
from fuzz.trial import Accepted, Find, Outcome

Trial = Callable[[bytes], Outcome]
"""What comes of a model's bytes in a child process."""

MOST = 300  # models that are tried


def kind_of(outcome: Outcome, compiler: Sequence[str] = COMPILER) -> str:
    """The kind of find, "" if it is none."""
    if isinstance(outcome, Find):
        return outcome.kind
    if isinstance(outcome, Accepted) and outcome.feeds:
        with tempfile.TemporaryDirectory(prefix="qcgen-fuzz-") as folder:
            return next((find.kind for find in judged([outcome], Path(folder), compiler)), "")
    return ""


def minimized(content: bytes, kind: str, tried: Trial, kind_of: Callable[[Any], str] = kind_of) -> bytes:
    """The smallest model found whose find is of this kind; the same bytes if they are no model."""
    left = MOST
    smaller = True
    while smaller and left > 0:
        smaller = False
        for candidate in _reduced(content):
            left -= 1
            if len(candidate) < len(content) and kind_of(tried(candidate)) == kind:
                content, smaller = candidate, True
                break
            if left <= 0:
                break
    return content


def _reduced(content: bytes) -> Iterator[bytes]:
    """The model without one of its parts."""
    model = ModelProto()
    try:
        model.ParseFromString(content)
    except Exception:
        return
    graph = model.graph
    for index in range(len(graph.node)):
        yield _changed(model, lambda copy, index=index: _bypass(copy, index))
    for field in ("output", "value_info", "initializer", "input", "sparse_initializer"):
        for index in range(len(getattr(graph, field))):
            yield _changed(model, lambda copy, field=field, index=index: _drop(getattr(copy.graph, field), index))
    for index, node in enumerate(graph.node):
        for part in ("attribute", "input"):
            for number in range(len(getattr(node, part))):
                yield _changed(model, lambda copy, i=index, p=part, n=number: _drop(getattr(copy.graph.node[i], p), n))
    for text in ("producer_name", "producer_version", "doc_string", "metadata_props"):
        yield _changed(model, lambda copy, text=text: copy.ClearField(text))


def _changed(model: ModelProto, change: Callable[[ModelProto], object]) -> bytes:
    copy = ModelProto()
    copy.CopyFrom(model)
    change(copy)
    return copy.SerializeToString(deterministic=True)


def _drop(items: Any, index: int) -> None:
    del items[index]


def _bypass(model: ModelProto, index: int) -> None:
    """Removes a node: who reads its outputs reads its first input."""
    node = model.graph.node[index]
    names: Mapping[str, str] = dict.fromkeys(node.output, node.input[0]) if node.input else {}
    del model.graph.node[index]
    for other in model.graph.node:
        other.input[:] = [names.get(name, name) for name in other.input]
    for output in model.graph.output:
        output.name = names.get(output.name, output.name)
