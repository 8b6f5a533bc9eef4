"""Kernels in plain C99 for every target."""
