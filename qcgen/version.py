"""The version of qcgen, stated once."""

__version__ = "0.1.0"
