"""A node called `less` had the symbol of a function of the library with --constant-time on RV32IMC."""

import onnx
from packages import DIGITS

import qcgen


def test_a_node_called_less_has_a_symbol_of_its_own():
    model = onnx.load(DIGITS)
    for node in model.graph.node:
        if node.op_type == "MaxPool":
            node.name = "less"
    artifact = qcgen.compile(model, name="net", target="rv32imc", layout="nhwc", io="quantized", constant_time=True)
    text = artifact.files["net.c"]
    assert "int32_t net_less(int32_t a, int32_t b)" in text
    assert "net_n6_less(" in text
