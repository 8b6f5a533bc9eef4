"""Orion's sign-magnitude fixed-point arithmetic: its operations, its intervals, its staircase."""
