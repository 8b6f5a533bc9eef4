"""clang 22 makes one tail-predicated loop of a loop over halves and the loop within, and leaves it after one turn."""

import os

import pytest
from emulated import require_core, wrong_outputs
from levels import recent_clang
from network_cases import float_normalizations
from subjects import operator
from tools import require_modules


@pytest.mark.emulated
def test_float_normalizations_add_up_all_lanes(tmp_path, monkeypatch):
    require_modules("ziglang")
    require_core("cortex-m55", "clang", counting=False)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{recent_clang(tmp_path / 'bin')}{os.pathsep}{os.environ['PATH']}")
    subjects = [operator(each, "cortex-m55") for each in float_normalizations()]
    for level in ("-Os", "-O2", "-O3"):
        assert not wrong_outputs("cortex-m55", subjects, tmp_path / level, "clang", (level,))
