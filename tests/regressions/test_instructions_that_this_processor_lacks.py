"""verify with flags for instructions that the processor lacks was killed without a word."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from models import qlinear_conv, random_weights

import qcgen

TRAP = """
#define HOOK __attribute__((no_instrument_function, visibility("hidden"))) void
HOOK __cyg_profile_func_enter(void *function, void *caller);
HOOK __cyg_profile_func_exit(void *function, void *caller);
HOOK __cyg_profile_func_enter(void *function, void *caller) { (void)function; (void)caller; __builtin_trap(); }
HOOK __cyg_profile_func_exit(void *function, void *caller) { (void)function; (void)caller; }
"""
"""Lets every function begin with an instruction that no processor has: what one lacks differs between machines."""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="elsewhere no builtin of gcc is an unknown instruction")
def test_verify_says_so(tmp_path):
    model = qlinear_conv((1, 2, 6, 6), random_weights((4, 2, 3, 3)), x_type="int8", y_type="int8")
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    (tmp_path / "trap.h").write_text(TRAP)
    flags = f"--cflags=-mavx -finstrument-functions -include {tmp_path / 'trap.h'}"
    environment = {**os.environ, "PYTHONPATH": str(Path(qcgen.__file__).parents[1]), "PYTHONFAULTHANDLER": ""}
    command = [sys.executable, "-m", "qcgen", "verify", str(tmp_path / "m.onnx"), flags]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    [line] = result.stderr.splitlines()
    assert line.startswith("qcgen: built with -mavx ")
    assert "has instructions that this processor lacks: leave out of --cflags what names them" in line
