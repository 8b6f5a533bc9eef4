"""TensorFlow Lite's models: a .tflite file is read, and lowered to the Program, which does not know of the format."""

from qcgen.tflite.graph import TfliteGraph
from qcgen.tflite.lower import LOWERINGS, lower_tflite
from qcgen.tflite.read import FlatTable, in_file, in_program, kept_by, read_tflite, tflite_bytes

__all__ = [
    "LOWERINGS",
    "FlatTable",
    "TfliteGraph",
    "in_file",
    "in_program",
    "kept_by",
    "lower_tflite",
    "read_tflite",
    "tflite_bytes",
]
