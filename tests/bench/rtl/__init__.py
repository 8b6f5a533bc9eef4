"""Cycles of real cores: their RTL, simulated by Verilator, runs what ``qcgen bench`` counts under QEMU."""
