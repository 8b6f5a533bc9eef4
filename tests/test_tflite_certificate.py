"""The certificates of .tflite files, checked by a program that reads the file itself and knows nothing of qcgen."""

import copy
import hashlib
import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from marks import share_at_first, some_at_first
from tflite_models import MODELS
from tflite_states import STREAMS

import qcgen

DOCS = Path(__file__).parents[1] / "docs"
REAL = Path(__file__).parents[2] / "shared" / "models" / "tflite"
sys.path.insert(0, str(DOCS))

import check_certificate  # noqa: E402
import check_tflite_certificate as checker  # noqa: E402

WHOLE = """
network dense dense_without_bias dense_of_large_scales between_steps average_of_image average_of_windows
average_with_relu sum sum_with_relu sum_of_a_scalar difference product sum_of_image sum_of_rows mean mean_of_rows
absolute leaky_relu relu requantize requantize_to_uint8 softmax softmax_of_distant_codes
""".split()
"""Models of which every number is confirmed."""


@cache
def source(name):
    artifact = qcgen.compile(MODELS[name], name="m")
    return artifact.files, artifact.certificate


def written(folder, name, body):
    files, _ = source(name)
    for file, text in files.items():
        (folder / file).write_text(text)
    (folder / "m.tflite").write_bytes(MODELS[name])
    whole = {key: value for key, value in body.items() if key != "sha256"}
    text = json.dumps(whole, sort_keys=True, separators=(",", ":"))
    (folder / "m.cert.json").write_text(json.dumps({**whole, "sha256": hashlib.sha256(text.encode()).hexdigest()}))
    return folder / "m.tflite", folder / "m.cert.json"


def checked(folder, name, body):
    with np.errstate(all="ignore"):
        return checker.check(*written(folder, name, body))


@pytest.mark.parametrize("name", WHOLE)
def test_certificates_are_confirmed(name, tmp_path):
    points, others = checked(tmp_path, name, json.loads(source(name)[1]))
    assert points > 0
    assert others == []


@pytest.mark.parametrize("name", share_at_first(sorted({*MODELS} - {*WHOLE}), 8))
def test_of_others_the_nodes_that_are_not_looked_at_are_named(name, tmp_path):
    body = json.loads(source(name)[1])
    _, others = checked(tmp_path, name, body)
    joined = [name for each in body["nodes"] for name in each.get("joined", ())]
    assert {*others} <= {*(each["node"] for each in body["nodes"]), *joined, *body["float"]}


@pytest.mark.parametrize(
    "name",
    some_at_first(["kws_ref_model", "pretrainedResnet_quant", "vww_96_int8", "toycar_fullint_micro_intio"]),
)
def test_mlperf_tiny_is_confirmed_whole(name, tmp_path):
    if not REAL.is_dir():
        pytest.skip("the real models are not there: no directory shared/models/tflite beside the repository")
    path = REAL / f"{name}.tflite"
    qcgen.compile(path, name="m").write(tmp_path, certificate=True)
    command = [sys.executable, str(DOCS / "check_tflite_certificate.py"), str(path), str(tmp_path / "m.cert.json")]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert run.stdout.startswith("confirmed: ")
    assert "not looked at" not in run.stdout


def paths_of(value, path=()):
    """The places of an entry's numbers: of a list the first and the last."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from paths_of(part, (*path, key))
    elif isinstance(value, list) and value:
        for at in {0, len(value) - 1}:
            yield from paths_of(value[at], (*path, at))
    elif isinstance(value, int):
        yield path


HARMLESS = {"x_range", "accumulator", "y_range", "a_codes", "b_codes", "exception_window", "guard_band", "channels"}
"""Intervals may be wider than they need be, and guards larger; codes that do not occur may be there."""


@pytest.mark.parametrize(
    "name", ["network", "dense", "average_of_windows", "sum", "product", "mean", "softmax", "relu"]
)
def test_any_other_number_is_refused(name, tmp_path):
    whole = json.loads(source(name)[1])
    places = [path for path in paths_of(whole["nodes"]) if HARMLESS.isdisjoint(path)]
    assert len(places) > 1
    for path in places:
        body = copy.deepcopy(whole)
        at = body["nodes"]
        for key in path[:-1]:
            at = at[key]
        far = 40 if body["nodes"][path[0]].get("form") == "wide" else 20
        is_small = {"offset", "multiplier", "slopes", "fine_slopes", "fine_offset"}.isdisjoint(path)
        at[path[-1]] += 3 if is_small else -(1 << far)
        if not is_refused(tmp_path, name, body):
            assert path[1] in {"addend", "fine_shift", "shift", "window"}, path


def is_refused(folder, name, body):
    try:
        checked(folder, name, body)
    except (check_certificate.Wrong, IndexError, ValueError):
        return True
    return False


@pytest.mark.parametrize("field", ["x_range", "accumulator", "y_range"])
def test_a_narrower_interval_is_refused(field, tmp_path):
    body = json.loads(source("network")[1])
    for end, step in ((0, 1), (1, -1)):
        changed = copy.deepcopy(body)
        changed["nodes"][0][field][end][0] += step
        assert is_refused(tmp_path, "network", changed)


def test_an_entry_that_is_missing_is_refused(tmp_path):
    body = json.loads(source("network")[1])
    for index in range(len(body["nodes"])):
        changed = copy.deepcopy(body)
        del changed["nodes"][index]
        assert is_refused(tmp_path, "network", changed)


def test_a_network_with_a_memory_is_read(tmp_path):
    (tmp_path / "m.tflite").write_bytes(STREAMS["stream"])
    qcgen.compile(STREAMS["stream"], name="m").write(tmp_path, certificate=True)
    points, _ = checker.check(tmp_path / "m.tflite", tmp_path / "m.cert.json")
    assert points > 0


def test_an_onnx_model_is_sent_away(tmp_path, monkeypatch):
    model = Path(__file__).parent / "data" / "digits" / "digits_qop_s8.onnx"
    qcgen.compile(model, name="m").write(tmp_path, certificate=True)
    monkeypatch.setattr(sys, "argv", ["check", str(model), str(tmp_path / "m.cert.json")])
    with pytest.raises(SystemExit, match="not confirmed: the arithmetic is TensorFlow Lite Micro's"):
        checker.main()
