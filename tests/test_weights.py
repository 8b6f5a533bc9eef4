"""Blocks of weights: one code for several models, each proved anew; what does not fit is refused with its operator."""

from __future__ import annotations

import ctypes
import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from emulated import require_core
from judged import judge
from marks import some_at_first
from packages import DIGITS
from retrained import retrained
from row_networks import residual, separable
from tools import require_modules

import qcgen
from qcgen.artifact import Artifact
from qcgen.build import LoadedModel, build
from qcgen.cli import main
from qcgen.compiler import read
from qcgen.exchange import CodeInPlace, WrongRecord
from qcgen.tflite import read_tflite
from qcgen.verification import verify

MODELS = {
    "qdq": lambda: onnx.load(DIGITS.with_name("digits_qdq_s8.onnx")),
    "qop": lambda: onnx.load(DIGITS),
    "residual": residual,
    "separable": separable,
}
TARGETS = ("portable", "cortex-m0", "cortex-m3", "cortex-m4", "cortex-m55", "rv32imc", "host")
each_target = pytest.mark.parametrize("target", some_at_first(TARGETS, "portable", "cortex-m4"))


def compiled(model, target="portable", **options):
    """A model whose weights are in a block, and the record of its code."""
    artifact = qcgen.compile(model, name="net", target=target, weights="net.bin", **options)
    text = artifact.weights_files["net_weights.json"]
    assert isinstance(text, str)
    return artifact, CodeInPlace(text)


def library(artifact: Artifact, folder: Path) -> Path:
    """The code, built to find its weights through a pointer."""
    return build(artifact.files, ("-O2", "-DNET_WEIGHTS_LOADED"), folder)


def with_block(artifact: Artifact, path: Path, block: bytes) -> LoadedModel:
    """The built code of an artifact, with the weights of a block."""
    code, memory = ctypes.CDLL(str(path)), ctypes.create_string_buffer(block, len(block))
    assert code.net_weights_check(memory, len(block)) == 0
    ctypes.c_void_p.in_dll(code, "net_block").value = ctypes.addressof(memory)
    loaded = LoadedModel(artifact.plan, path)
    loaded.kept = memory  # as long as the code may read it
    return loaded


def feeds_of(model, rng):
    [x] = [each for each in model.graph.input if each.name not in {i.name for i in model.graph.initializer}]
    shape = [each.dim_value or 1 for each in x.type.tensor_type.shape.dim]
    kind = onnx.helper.tensor_dtype_to_np_dtype(x.type.tensor_type.elem_type)
    values = rng.uniform(-1, 1, shape) if kind == np.float32 else rng.integers(*_ends(kind), shape)
    return {x.name: values.astype(kind)}


def _ends(kind):
    info = np.iinfo(kind)
    return info.min, info.max + 1


@pytest.mark.parametrize("name", some_at_first(MODELS))
@each_target
def test_one_code_gives_the_outputs_of_every_model_whose_block_it_has(name, target, tmp_path):
    first = MODELS[name]()
    artifact, code = compiled(first, target)
    path = library(artifact, tmp_path)
    rng = np.random.default_rng(5)
    seen = []
    for model in (first, retrained(first, 1), retrained(first, 2), first):
        fitting = artifact if model is first else code.block_of(read(model), "other.onnx")
        assert fitting.code_essence == artifact.code_essence
        loaded = with_block(artifact, path, fitting.block)
        for _ in range(3):
            feeds = feeds_of(model, rng)
            found, expected = loaded.run(None, feeds), judge(model, feeds)
            assert all(np.array_equal(*each) for each in zip(found, expected, strict=True))
        seen.append(loaded.run(None, feeds_of(first, np.random.default_rng(9))))
    assert np.array_equal(seen[0][0], seen[3][0])
    assert not np.array_equal(seen[0][0], seen[1][0])  # or the blocks would not have mattered


@pytest.mark.parametrize("target", some_at_first(TARGETS))
def test_weights_that_are_included_give_the_same_as_those_of_the_block(target):
    model = MODELS["qdq"]()
    artifact, code = compiled(model, target)
    other = retrained(model, 1)
    fitting = code.block_of(read(other), "other.onnx")
    mixed = {**artifact.files, "net_weights.h": fitting.files["net_weights.h"]}
    feeds = feeds_of(model, np.random.default_rng(5))
    assert np.array_equal(qcgen.build.load(artifact.plan, mixed).run(None, feeds)[0], judge(other, feeds)[0])


def test_a_block_is_told_from_others_and_from_what_is_damaged(tmp_path):
    artifact, _ = compiled(MODELS["qop"]())
    code = ctypes.CDLL(str(library(artifact, tmp_path)))

    def check(data, size=None):
        return code.net_weights_check(ctypes.create_string_buffer(bytes(data), len(data)), size or len(data))

    block = artifact.block
    assert check(block) == 0
    assert check(b"x" + block[1:]) == 1
    assert check(block, 63) == 1
    assert check(block[:16] + b"\2" + block[17:]) == 1  # of another version
    assert check(block[:20] + bytes([block[20] ^ 1]) + block[21:]) == 2
    assert check(block, len(block) - 1) == 3
    for place in (64, len(block) // 2, len(block) - 1):
        damaged = bytearray(block)
        damaged[place] ^= 4
        assert check(damaged) == 3, place


def test_the_block_says_of_which_model_it_is():
    artifact, _ = compiled(MODELS["qop"]())
    assert artifact.block[32:64].hex() == artifact.plan.sha256
    assert int.from_bytes(artifact.block[24:28], "little") == len(artifact.block)


@pytest.mark.parametrize("name", MODELS)
def test_what_does_not_fit_is_refused_with_its_operator(name):
    model = MODELS[name]()
    artifact, code = compiled(model, "cortex-m4")
    grown = retrained(model, 1, times=8)
    with pytest.raises(qcgen.ModelRejected) as raised:
        code.block_of(read(grown), "grown.onnx")
    names = {call.op.name for call in artifact.plan.calls}
    for problem in raised.value.problems:
        assert problem.where in names
        assert re.search("needs a shift of|come nearer to a step|needs? the arithmetic", problem.what)


def test_another_network_does_not_fit():
    _, code = compiled(MODELS["residual"]())
    with pytest.raises(qcgen.ModelRejected, match="blocks fit code of the same network"):
        code.block_of(read(MODELS["separable"]()), "separable.onnx")


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"qcgen": "0.0.1", "schema": 1, "weights": {}}'])
def test_a_file_that_is_no_record_is_refused(text):
    with pytest.raises(WrongRecord):
        CodeInPlace(text)


def test_a_block_is_made_on_the_command_line(tmp_path, capsys):
    other = tmp_path / "second.onnx"
    onnx.save(retrained(MODELS["qdq"](), 3), other)
    out = ["-o", str(tmp_path)]
    qdq = str(DIGITS.with_name("digits_qdq_s8.onnx"))
    assert main(["compile", qdq, "--name", "net", "--target", "cortex-m4", "--weights", "net.bin", *out]) == 0
    assert {"net.c", "net.h", "net_weights.h", "net.bin", "net_weights.json"} <= {p.name for p in tmp_path.iterdir()}
    capsys.readouterr()
    record = str(tmp_path / "net_weights.json")
    assert main(["weights", str(other), "--for", record, "--certificate", *out]) == 0
    size = (tmp_path / "net.bin").stat().st_size
    assert f"{size} bytes of weights for net.c" in capsys.readouterr().out
    assert (tmp_path / "second.bin").stat().st_size == size
    assert json.loads((tmp_path / "second.cert.json").read_text())["nodes"]
    assert main(["weights", str(other), "--for", qdq, *out]) == 1
    assert "it is not text" in capsys.readouterr().err
    assert main(["weights", str(DIGITS), "--for", record, *out]) == 1
    assert re.search(r"cannot be a block for net\.c: \d+ problem", capsys.readouterr().err)


@pytest.mark.parametrize("name", ["net", "out/net.bin", ".bin", ""])
def test_a_block_has_the_name_of_a_file_that_is_nothing_else(name, capsys):
    with pytest.raises(ValueError, match=r"ends with \.bin"):
        qcgen.compile(MODELS["qop"](), weights=name)
    assert main(["compile", str(DIGITS), "--weights", name]) == 2
    assert "ends with .bin" in capsys.readouterr().err


def test_python_makes_what_the_command_line_does(tmp_path):
    artifact, code = compiled(MODELS["qdq"]())
    artifact.write(tmp_path)
    other = retrained(MODELS["qdq"](), 4)
    found = qcgen.weights(other, tmp_path / "net_weights.json")
    assert found.block == code.block_of(read(other), "model.onnx").block
    assert (tmp_path / "net.bin").read_bytes() == artifact.block
    with pytest.raises(ValueError, match=r"it is not a file NAME_weights\.json"):
        qcgen.weights(other, tmp_path / "net.c")


def test_blocks_are_written_over_blocks_alone(tmp_path):
    artifact, _ = compiled(MODELS["qop"]())
    artifact.write(tmp_path)
    artifact.write(tmp_path)
    (tmp_path / "net.bin").write_bytes(b"something else")
    with pytest.raises(FileExistsError):
        artifact.write(tmp_path)


WAKE_WORD = Path(__file__).parents[2] / "shared" / "models" / "tflite" / "mww_v2_okay_nabu.tflite"
CORES = ("cortex-m4", "cortex-m0", "rv32imc", "cortex-m55")


@pytest.mark.parametrize("core", some_at_first(CORES, "cortex-m4"))
def test_weights_in_a_block_are_right_on_emulated_cores(core):
    require_core(core, counting=False)
    _, code = compiled(MODELS["qdq"](), core)
    fitting = code.block_of(read(retrained(MODELS["qdq"](), 1)), "other.onnx")
    assert verify(fitting, cases=2, sums=False, emulated=True).is_right


@pytest.mark.parametrize("target", ["portable", "cortex-m4"])
def test_a_wake_word_gets_the_weights_of_another(target):
    """A .tflite file with other weights, as TensorFlow Lite Micro computes it, by the code of the first one."""
    require_modules("tflite_micro")
    if not WAKE_WORD.is_file():
        pytest.skip("the real models are not there: no directory shared/models/tflite beside the repository")
    content = WAKE_WORD.read_bytes()
    _, code = compiled(content, target)
    fitting = code.block_of(read(mixed(content, 1)), "other.tflite")
    judge = qcgen.verify(fitting, cases=1, flags="-O0", sums=False, oracle="tflm", host=True).judge
    assert (judge.oracle, judge.differing) == ("tflm", 0)


def mixed(content, seed):
    """The file with the weights of each layer in another order."""
    rng = np.random.default_rng(seed)
    found = bytearray(content)
    for values in read_tflite(content, "m").constants.values():
        data = values.tobytes()
        if values.dtype == np.int8 and values.size >= 16 and content.count(data) == 1:
            at = content.index(data)
            found[at : at + len(data)] = rng.permutation(values.reshape(-1)).tobytes()
    assert found != content
    return bytes(found)


@pytest.mark.parametrize("node", ["block", "weights", "weights_check", "linked_weights"])
def test_nodes_may_be_called_like_what_belongs_to_the_block(node, tmp_path):
    model = residual()
    model.graph.node[1].name = node
    artifact, _ = compiled(model)
    feeds = feeds_of(model, np.random.default_rng(5))
    loaded = with_block(artifact, library(artifact, tmp_path), artifact.block)
    assert np.array_equal(loaded.run(None, feeds)[0], judge(model, feeds)[0])


def test_a_self_test_is_not_for_weights_that_change():
    artifact, _ = compiled(MODELS["qop"]())
    with pytest.raises(qcgen.ModelRejected, match="NAME_weights_check"):
        artifact.with_self_test()
