"""Kernels for cores without SIMD (Cortex-M0, Cortex-M3, RISC-V): everything is written out, registers are filled."""
