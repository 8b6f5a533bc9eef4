"""Kernels for cores with Arm's DSP extension (Cortex-M4, M7, M33): two 16-bit products added at once."""
