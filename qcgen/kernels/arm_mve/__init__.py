"""Kernels for cores with Helium, Arm's M-profile vector extension (Cortex-M55): sixteen bytes at once."""
