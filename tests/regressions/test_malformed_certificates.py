"""Certificates that qcgen did not write: the checker refuses them on one line with status 1, never by a traceback."""

import copy
import json
import random

import pytest
from marks import some_at_first
from test_certificate import M4, NARROW, ORION, QDQ, QOP, at, checker, numbers, sealed, source

UNREAD = ("symbol",)  # names a C function
SHIFTS = ("shift", "fine_shift", "k", "word", "prescale")
OTHERS = {
    "none": lambda _: None,
    "text": lambda _: "\x1b[2J\n",
    "list": lambda _: [],
    "nested": lambda value: [[value]],
    "dict": lambda _: {"a": 1},
    "float": lambda value: value + 0.5 if isinstance(value, int) else 0.5,
    "whole float": lambda value: float(value) if isinstance(value, int) else 2.0,
    "bool": lambda _: True,
    "nan": lambda _: float("nan"),
    "2^63": lambda _: 2**63,
    "-2^64": lambda _: -(2**64),
    "10^40": lambda _: 10**40,
    "10^4000": lambda _: 10**4000,
}
"""What no field may become."""


@pytest.fixture
def refused(tmp_path, monkeypatch, capsys):
    """Whether the checker refuses this text for a network, as a program should."""

    def run(name, text):
        model, files, _ = source(name)
        (tmp_path / "model.onnx").write_bytes(model)
        for file, content in files.items():
            (tmp_path / file).write_text(content)
        (tmp_path / "m.cert.json").write_text(text)
        monkeypatch.setattr("sys.argv", ["check", str(tmp_path / "model.onnx"), str(tmp_path / "m.cert.json")])
        said = ""
        try:
            checker.main()
        except SystemExit as end:
            said = end.code
        said = said or capsys.readouterr().out.splitlines()[0]
        assert said.startswith(("confirmed: ", "not confirmed: "))
        assert said.isprintable()
        return said.startswith("not ")

    return run


def paths(name):
    """The path of a number of every field of every kind of entry, each once."""
    found = {}
    for i, node in enumerate(json.loads(source(name)[2])["nodes"]):
        for path in numbers(node):
            if path[0] not in UNREAD:
                found.setdefault((node["kind"], node.get("form"), *path), ("nodes", i, *path))
    return list(found.values())


@pytest.mark.parametrize("name", some_at_first([M4, QOP, QDQ, NARROW, ORION], QDQ))
@pytest.mark.parametrize("other", OTHERS)
def test_what_is_no_number_of_c_is_refused(name, other, refused):
    whole = json.loads(source(name)[2])
    for path in random.Random(other).sample(paths(name), min(10, len(paths(name)))):
        body = copy.deepcopy(whole)
        at(body, path, OTHERS[other])
        if json.dumps(body) != json.dumps(whole):
            assert refused(name, json.dumps(sealed(body))), path


@pytest.mark.parametrize("name", some_at_first([M4, QOP, QDQ, NARROW], M4, QDQ))
@pytest.mark.parametrize("amount", some_at_first([1024, 32, 64, -64, 2**32, 2**64], 1024, 64))
def test_shifts_beyond_the_width_of_a_type_are_refused(name, amount, refused):
    whole = json.loads(source(name)[2])
    shifts = [path for path in paths(name) if path[-1] in SHIFTS]
    assert shifts
    for path in shifts:
        body = copy.deepcopy(whole)
        at(body, path, lambda value: value + amount)
        assert refused(name, json.dumps(sealed(body))), path


@pytest.mark.parametrize("name", [QOP, ORION])
def test_a_field_that_is_missing_is_refused(name, refused):
    whole = json.loads(source(name)[2])
    fields = [path[:3] for path in paths(name)]
    for *outer, last in dict.fromkeys([*((key,) for key in whole), *fields]):
        body = copy.deepcopy(whole)
        place = body
        for key in outer:
            place = place[key]
        del place[last]
        text = json.dumps(body if last == "sha256" else sealed(body))
        assert refused(name, text), (*outer, last)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "1",
        '"text"',
        "[" * 5000,
        "{}",
        '{"nodes": 1}',
        '{"sha256": NaN}',
        "1" * 5000,
        "\ud7ff\x00",
    ],
    ids=range(12),
)
def test_what_is_no_certificate_is_refused(text, refused):
    assert refused(QOP, text)
    body = {**json.loads(source(QOP)[2])}
    for key in body:
        assert refused(QOP, json.dumps({**body, key: text}))
