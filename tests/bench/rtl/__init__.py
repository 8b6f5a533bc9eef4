"""Cycles of real cores: their RTL, simulated by Verilator, runs what ``qcgen bench`` counts under QEMU."""

from tests.bench.rtl.simulator import CORES, Run, missing, run

__all__ = ["CORES", "Run", "missing", "run"]
