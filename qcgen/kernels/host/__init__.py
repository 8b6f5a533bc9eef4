"""Kernels for x86-64 and AArch64, whose instructions add four products of bytes to each of many sums."""
