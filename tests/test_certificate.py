"""The certificate as a file, and the program in docs/ that confirms it without anything of qcgen."""

import ast
import copy
import importlib.util
import json
import operator
import subprocess
import sys
from functools import cache, reduce
from hashlib import sha256
from pathlib import Path

import functions_recorded
import numpy as np
import pytest
from gallery import ENTRIES
from marks import share_at_first, some_at_first
from qdq import A, B, Chain

import qcgen
from qcgen.certificate import digest
from qcgen.cli import main

ROOT = Path(__file__).parents[1]
CHECKER = ROOT / "docs/check_certificate.py"
DIGITS = ROOT / "tests/data/digits"
MODELS = ROOT.parent / "shared/models"

specification = importlib.util.spec_from_file_location("check_certificate", CHECKER)
checker = importlib.util.module_from_spec(specification)
specification.loader.exec_module(checker)


def confirm(folder, model: bytes, **options) -> int:
    """Compiles a model with its certificate, and the points that the checker confirms."""
    path = folder / "model.onnx"
    path.write_bytes(model)
    qcgen.compile(model, name="m", **options).write(folder, certificate=True)
    return checker.check(path, folder / "m.cert.json")[0]


def test_the_checker_needs_nothing_of_qcgen():
    tree = ast.parse(CHECKER.read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {alias.name for node in imports if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in imports if isinstance(node, ast.ImportFrom)}
    standard = {"argparse", "decimal", "functools", "hashlib", "json", "pathlib", "sys"}
    assert names == standard | {"numpy", "onnx", "onnx.reference"}


@pytest.mark.parametrize("target", ["portable", "cortex-m0", "cortex-m4", "cortex-m55"])
@pytest.mark.parametrize("name", some_at_first(["digits_qdq_s8", "digits_qdq_u8", "digits_qop_s8", "digits_qop_u8"]))
def test_the_certificates_of_the_digits_networks_are_confirmed(name, target, tmp_path):
    assert confirm(tmp_path, (DIGITS / f"{name}.onnx").read_bytes(), target=target, layout="nhwc") > 100_000


OF_ONNX = [entry for entry in ENTRIES if not isinstance(entry.model(), bytes)]
"""What the checker reads; it does not read .tflite files (docs/certificate.md)."""


@pytest.mark.parametrize("entry", share_at_first(OF_ONNX), ids=lambda entry: entry.name)
def test_the_certificates_of_the_gallery_are_confirmed(entry, tmp_path):
    model = entry.content()
    rounds = bool(json.loads(entry.compile().certificate)["nodes"])
    assert (confirm(tmp_path, model, **entry.options) > 0) == rounds


@pytest.mark.parametrize(
    "path", share_at_first(sorted(MODELS.glob("*.onnx")) or [MODELS / "none"]), ids=lambda path: path.stem
)
def test_the_certificates_of_real_networks_are_confirmed(path, tmp_path):
    if not path.exists():
        pytest.skip("the real models are not there: no directory shared/models beside the repository")
    confirm(tmp_path, path.read_bytes(), target="cortex-m4", layout="nhwc")


def function(*nodes):
    """A function of x in QDQ form: ("Op", "inputs", "output") each, the last one called y; numbers are constants."""
    chain = Chain()
    chain.through("x", A, "v")
    for op_type, inputs, output in nodes:
        names = [chain.constant(f"c{i}", np.float32(i)) if i[0].isdigit() else i for i in inputs.split()]
        chain.node(op_type, names, output)
    chain.through("f", B, "y")
    return chain.model((1, 8, 4, 4)).SerializeToString(deterministic=True)


FUNCTIONS = {
    "x * sigmoid(x)": [("Sigmoid", "v", "s"), ("Mul", "v s", "f")],
    "x * tanh(softplus(x))": [("Softplus", "v", "p"), ("Tanh", "p", "t"), ("Mul", "v t", "f")],
    "v < 1.5 or v > 3 ? tanh(v) : 2": [
        *(("Less", "v 1.5", "l"), ("GreaterOrEqual", "v 3", "g"), ("Or", "l g", "c")),
        *(("Tanh", "v", "t"), ("Where", "c t 2", "f")),
    ],
    "elu": [("Elu", "v", "f")],
    "e^-x": [("Neg", "v", "n"), ("Exp", "n", "f")],
    "|x - 2.5|": [("Sub", "v 2.5", "d"), ("Abs", "d", "f")],
    "2.5 / (x + 7)": [("Add", "v 7", "a"), ("Div", "2.5 a", "f")],
    "x * clip(x + 3) / 6": [("Add", "v 3", "a"), ("Clip", "a 0 6", "c"), ("Mul", "v c", "m"), ("Div", "m 6", "f")],
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_tables_of_functions_that_are_put_together_are_confirmed(name, tmp_path):
    assert confirm(tmp_path, function(*FUNCTIONS[name])) == 256
    body = json.loads((tmp_path / "m.cert.json").read_text())
    body["nodes"][0]["values"][17] += 1
    (tmp_path / "m.cert.json").write_text(json.dumps(sealed(body)))
    with pytest.raises(checker.Wrong, match="values are those of the function"):
        checker.check(tmp_path / "model.onnx", tmp_path / "m.cert.json")


@pytest.mark.parametrize("name", functions_recorded.FUNCTIONS)
def test_tables_of_every_function_are_confirmed(name, tmp_path):
    model = functions_recorded.between_codes(name, np.float32(0.04), np.int8(-9), np.float32(0.03), np.int8(-60))
    assert confirm(tmp_path, model) == 256


def test_tables_of_bytes_that_are_cast_are_confirmed(tmp_path):
    chain = Chain()
    scaled = chain.node("Div", [chain.node("Cast", ["x"], to=1), chain.constant("k", np.float32(255))])
    chain.quantize(scaled, B, "y")
    model = chain.model((2, 3), x_type="uint8").SerializeToString(deterministic=True)
    assert confirm(tmp_path, model) == 256


@pytest.mark.parametrize("name", functions_recorded.OF_CHANNELS)
def test_tables_of_channels_are_confirmed(name, tmp_path):
    model = functions_recorded.between_codes(name, np.float32(0.04), np.int8(-9), np.float32(0.03), np.int8(-60))
    assert confirm(tmp_path, model) == 256 * functions_recorded.CHANNELS
    body = json.loads((tmp_path / "m.cert.json").read_text())
    body["nodes"][0]["values"][2][17] += 1
    (tmp_path / "m.cert.json").write_text(json.dumps(sealed(body)))
    with pytest.raises(checker.Wrong, match="values are those of the function"):
        checker.check(tmp_path / "model.onnx", tmp_path / "m.cert.json")


def run_checker(*arguments):
    return subprocess.run([sys.executable, CHECKER, *arguments], capture_output=True, text=True, timeout=120)


def test_the_checker_tells_how_it_is_called_and_what_is_wrong(tmp_path):
    asked = run_checker("--help")
    assert (asked.returncode, asked.stderr) == (0, "")
    assert "MODEL.onnx NAME.cert.json" in asked.stdout
    wrong = run_checker(DIGITS / "digits_qop_u8.onnx", tmp_path / "m.cert.json")
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert wrong.stderr.startswith("not confirmed: FileNotFoundError")


def test_no_quantized_node_can_be_called_one_of_floats(tmp_path):
    body = json.loads(source(QOP)[2])
    named = {**body, "float": [node["node"] for node in body["nodes"]], "nodes": []}
    with pytest.raises(checker.Wrong, match="is said to be computed in float32, and is quantized"):
        checked(tmp_path, QOP, sealed(named))


def test_nodes_that_are_computed_in_float_are_named(tmp_path):
    confirm(tmp_path, function(("Tanh", "v", "t"), ("Softmax", "t", "f")))
    told = run_checker(tmp_path / "model.onnx", tmp_path / "m.cert.json").stdout
    assert "computed in float32, where there is nothing to confirm: " in told
    assert "t_node, f_node" in told


def test_a_clamp_of_codes_before_an_operator_is_a_table(tmp_path):
    assert confirm(tmp_path, function(("Relu", "v", "r"), ("Softmax", "r", "f"))) == 512
    body = json.loads((tmp_path / "m.cert.json").read_text())
    body["nodes"][0]["values"][0] += 1
    (tmp_path / "m.cert.json").write_text(json.dumps(sealed(body)))
    with pytest.raises(checker.Wrong, match="r_node: values are clamped"):
        checker.check(tmp_path / "model.onnx", tmp_path / "m.cert.json")


def test_compile_writes_the_certificate_beside_the_files_that_it_names(tmp_path):
    assert main(["compile", str(DIGITS / "digits_qop_u8.onnx"), "-o", str(tmp_path), "--certificate"]) == 0
    body = json.loads((tmp_path / "digits_qop_u8.cert.json").read_text())
    assert body["schema"] == 1
    assert body["files"] == {path.name: sha256(path.read_bytes()).hexdigest() for path in tmp_path.glob("*.[ch]")}
    assert checker.check(DIGITS / "digits_qop_u8.onnx", tmp_path / "digits_qop_u8.cert.json")[0] > 100_000
    assert main(["compile", str(DIGITS / "digits_qop_u8.onnx"), "-o", str(tmp_path), "--certificate"]) == 0


# --- certificates with one number changed ---


def product():
    """A product of two tensors whose codes need a line in two parts."""
    chain = Chain()
    layer, gate = (0.031, np.uint8(0)), (1 / 255, np.uint8(0))
    chain.quantize(chain.node("Mul", [chain.through("x", layer), chain.through("x", gate)]), (0.0228, np.uint8(0)), "y")
    return chain.model((1, 8, 4, 4))


@cache
def source(name: str) -> tuple[bytes, dict[str, str], str]:
    """A model, its files and its certificate."""
    if name == PAIRS:
        model, options = product().SerializeToString(deterministic=True), {}
    elif name.startswith("digits"):
        model, options = (DIGITS / "digits_qop_s8.onnx").read_bytes(), {"target": name[7:], "layout": "nhwc"}
    else:
        entry_name, _, target = name.partition(" ")
        [entry] = [entry for entry in ENTRIES if entry.name == entry_name]
        model = entry.content()
        options = {"target": target, "layout": "nhwc"} if target else entry.options
    artifact = qcgen.compile(model, name="m", **options)
    return model, dict(artifact.files), artifact.certificate


def checked(folder, name: str, body) -> int:
    model, files, _ = source(name)
    for file, content in {"model.onnx": model, **{file: text.encode() for file, text in files.items()}}.items():
        (folder / file).write_bytes(content)
    (folder / "m.cert.json").write_text(json.dumps(body))
    return checker.check(folder / "model.onnx", folder / "m.cert.json")[0]


def sealed(body):
    """The certificate with the digest that belongs to its numbers: only the formulas can refuse it."""
    return {**body, "sha256": digest({key: value for key, value in body.items() if key != "sha256"})}


def at(container, path, change):
    """Changes what stands at a path."""
    *outer, last = path
    place = reduce(operator.getitem, outer, container)
    place[last] = change(place[last])


def plus(amount):
    return lambda value: value + amount


def times(factor):
    return lambda value: int(value * factor)


PAIRS = "product"
M4, QOP, QDQ, NARROW = "digits cortex-m4", "network_qop", "network_qdq", "narrow_cortex_m0"
WINDOWED, HELIUM, ORION = "guard_band", "guard_band cortex-m55", "orion_fp16x16"

MUTATIONS = [
    (M4, "requantize", ("node",), plus("x")),
    (M4, "requantize", ("kind",), lambda _: "mean"),
    (M4, "requantize", ("channels", 0), plus(1)),
    (M4, "requantize", ("x_range", 0, 0), plus(1)),
    (M4, "requantize", ("x_range", 1, 0), plus(-1)),
    (M4, "requantize", ("accumulator", 0, 0), plus(1)),
    (M4, "requantize", ("accumulator", 1, 0), plus(-1)),
    (M4, "requantize", ("y_range", 0, 0), plus(1)),
    (M4, "requantize", ("y_range", 1, 0), plus(-1)),
    (M4, "requantize", ("form",), lambda _: "wide"),
    (M4, "requantize", ("k",), plus(1)),
    (M4, "requantize", ("word",), plus(-1)),
    (M4, "requantize", ("prescale",), plus(1)),
    (M4, "requantize", ("shift",), plus(1)),
    (M4, "requantize", ("low",), plus(1)),
    (M4, "requantize", ("high",), plus(-1)),
    (M4, "requantize", ("addend", 0), plus(1_000_000)),
    (M4, "requantize", ("multiplier", 0), times(1.01)),
    (M4, "requantize", ("offset", 0), plus(1 << 12)),
    (NARROW, "requantize", ("limit_low", 0), plus(1000)),
    (NARROW, "requantize", ("limit_high", 0), plus(-1000)),
    (WINDOWED, "requantize", ("guard_band",), lambda windows: [0 for _ in windows]),
    (WINDOWED, "requantize", ("mantissa", 0), plus(1)),
    (WINDOWED, "requantize", ("exponent", 0), plus(1)),
    (M4, "requantize", ("fast", "offset", 0), plus(1 << 12)),
    (M4, "requantize", ("fast", "half"), plus(1 << 9)),
    (M4, "requantize", ("fast", "least"), lambda _: 0),
    (M4, "requantize", ("fast", "most"), lambda _: 0),
    (M4, "requantize", ("fast", "low"), plus(1)),
    (M4, "requantize", ("fast", "high"), plus(-1)),
    (M4, "requantize", ("fast", "guard"), times(3)),
    (M4, "requantize", ("fast", "mask"), lambda mask: mask | 255),
    (HELIUM, "requantize", ("fast", "limit"), lambda _: 2**31 + 1),
    (QOP, "mean", ("multiplier", 0), times(1.01)),
    (QOP, "mean", ("accumulator", 0, 0), plus(1)),
    ("attention", "product", ("accumulator", 0, 0), plus(200000)),
    ("attention", "product", ("multiplier", 0), times(1.01)),
    ("instance_norm", "instance norm", ("scale", 0), plus(1)),
    ("instance_norm", "instance norm", ("bias", 0), plus(1)),
    ("instance_norm", "instance norm", ("numbers", 100), plus(1)),
    ("instance_norm", "instance norm", ("epsilon",), plus(1)),
    ("layer_norm", "layer norm", ("scale", 3), plus(1)),
    ("layer_norm", "layer norm", ("bias", 3), plus(1)),
    ("layer_norm", "layer norm", ("epsilon",), plus(1)),
    (QOP, "softmax", ("exponentials", 7), plus(1)),
    (QOP, "softmax", ("factor",), plus(1)),
    (ORION, "staircase", ("accumulator", 0), plus(1)),
    (ORION, "staircase", ("accumulator", 1), plus(-1)),
    (ORION, "staircase", ("thresholds", 130), plus(1)),
    (QDQ, "table", ("values", 9), plus(1)),
    (QDQ, "table", ("joined", 0), plus("x")),
    (PAIRS, "pairs", ("a_codes",), lambda codes: codes[1:]),
    (PAIRS, "pairs", ("b_codes",), lambda codes: codes[1:]),
    (PAIRS, "pairs", ("form",), lambda _: "table"),
    (PAIRS, "pairs", ("slopes", 0), times(1.01)),
    (PAIRS, "pairs", ("offset",), times(1.01)),
    (PAIRS, "pairs", ("shift",), plus(1)),
    (PAIRS, "pairs", ("fine_slopes", 0), plus(1 << 10)),
    (PAIRS, "pairs", ("fine_offset",), plus(1 << 22)),
    (PAIRS, "pairs", ("fine_shift",), plus(-4)),
    (PAIRS, "pairs", ("window",), lambda _: 1 << 10),
    (PAIRS, "pairs", ("exceptions",), lambda _: [0]),
    (PAIRS, "pairs", ("values",), lambda _: [0]),
    (QDQ, "window mean", ("accumulator", 1), plus(-1)),
    (QDQ, "window mean", ("slope",), times(1.01)),
    (QDQ, "window mean", ("offset",), times(3)),
    (QDQ, "window mean", ("shift",), plus(1)),
]
"""What the formulas refuse: source, kind of the entry, path within it, and the change."""

FIELDS = ["-".join([name, kind, *map(str, path)]).replace(" ", "-") for name, kind, path, _ in MUTATIONS]


def chosen(body, kind, path):
    """The entry to be changed: one in which the number is there and not 0, if there is one."""
    found = []
    for node in body["nodes"]:
        if node["kind"] == kind and path[0] in node and (path[0] != "fast" or path[1] in node["fast"]):
            value = reduce(operator.getitem, [part for part in path if isinstance(part, str)], node)
            found.append((not value, node))
    return min(found, key=lambda pair: pair[0])[1]


@pytest.mark.parametrize(("name", "kind", "path", "change"), MUTATIONS, ids=FIELDS)
def test_a_certificate_with_a_wrong_number_is_refused_by_the_formulas(name, kind, path, change, tmp_path):
    body = json.loads(source(name)[2])
    assert checked(tmp_path, name, sealed(body)) > 0
    at(chosen(body, kind, path), path, change)
    with pytest.raises((checker.Wrong, KeyError, TypeError, ValueError, IndexError)):
        checked(tmp_path, name, sealed(body))


def test_the_wrong_numbers_are_of_every_field():
    """``symbol`` names the C function; which numbers stand beside an exception needs one."""
    fields = {(kind, path[0] if path[0] != "fast" else path[1]) for _, kind, path, _ in MUTATIONS}
    shared = {(kind, field) for kind in ("mean", "product") for one, field in fields if one == "requantize"}
    for name in {name for name, *_ in MUTATIONS}:
        for node in json.loads(source(name)[2])["nodes"]:
            for field in {*node, *node.get("fast", {})} - {
                "symbol",
                "node",
                "kind",
                "fast",
                "exception_window",
                "guard",
            }:
                assert (node["kind"], field) in fields | shared or (node["kind"], field) == ("window mean", "form")


def numbers(value, path=()):
    """The path of one number of every field."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from numbers(part, (*path, key))
    elif isinstance(value, list) and value:
        yield from numbers(value[0], (*path, 0))
    elif isinstance(value, int | float | str):
        yield path


@pytest.mark.parametrize("name", [M4, QOP, QDQ, NARROW, WINDOWED, ORION])
def test_a_certificate_with_any_one_value_changed_is_refused(name, tmp_path):
    whole = json.loads(source(name)[2])
    paths = list(numbers({**whole, "nodes": []}))
    paths += [("nodes", i, *path) for i, node in enumerate(whole["nodes"]) for path in numbers(node)]
    for path in paths:
        body = copy.deepcopy(whole)
        at(body, path, lambda value: value + ("x" if isinstance(value, str) else 1))
        with pytest.raises(checker.Wrong):
            checked(tmp_path, name, body)


OTHERS = [
    (("schema",), plus(1)),
    (("model", "sha256"), plus("0")),
    (("files", "m.c"), plus("0")),
    (("nodes",), lambda nodes: nodes[1:]),
]


@pytest.mark.parametrize(("path", "change"), OTHERS, ids=["schema", "model", "file", "entry"])
def test_a_certificate_of_other_files_or_without_an_entry_is_refused(path, change, tmp_path):
    body = json.loads(source(M4)[2])
    at(body, path, change)
    with pytest.raises(checker.Wrong):
        checked(tmp_path, M4, sealed(body))
