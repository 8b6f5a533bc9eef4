"""What to do about operators that cannot be compiled."""

from __future__ import annotations

from qcgen.options import spelt

UNROLL = "export the step of one time frame, with its state as input and output, and unrolled to supported operators"
FOLD = "if it only computes shapes or constants, export with fixed shapes and do_constant_folding, or run onnxsim"


def advice(op_type: str) -> str:
    """What the user can do about an operator that cannot be compiled."""
    cut = f"with {spelt(outputs='TENSOR')}"
    match op_type:
        case "And" | "Greater" | "GreaterOrEqual" | "Less" | "LessOrEqual" | "Not" | "Or":
            return (
                "between a DequantizeLinear and a QuantizeLinear, with constants as its other operands, it becomes a"
                f" table: quantize its input and its output, or compile the model up to it {cut}"
            )
        case "NonMaxSuppression" | "NonZero" | "TopK" | "Unique":
            return f"compile the model up to its inputs, {cut}, and compute it in the firmware"
        case "If" | "Loop" | "Scan":
            return (
                "if its condition is constant, export with do_constant_folding, or run onnxsim; else compile the model"
                f" up to it, {cut}, and choose in the firmware"
            )
        case "Equal" | "Where":
            return f"{FOLD}; else compile the model up to it {cut}"
        case _:
            return ADVICE.get(op_type) or (
                "the operators that can be compiled are listed by: qcgen ops; export the model with these, or compile"
                f" it up to there {cut}, or single nodes with {spelt('node')}"
            )


ADVICE = {
    **dict.fromkeys(
        (
            *("GatherElements", "GatherND", "Range", "Shape", "Size", "ConstantOfShape"),
            *("ScatterElements", "ScatterND"),
        ),
        FOLD,
    ),
    "RNN": UNROLL,
    "MatMulNBits": "quantize with quant_format=QuantFormat.QDQ (onnxruntime: MatMulNBitsQuantizer): weights behind a"
    " DequantizeLinear with block_size are compiled",
    "DynamicQuantizeLSTM": "quantize the model statically, which leaves the LSTM in float (onnxruntime:"
    " quantize_static)",
    "BatchNormalization": "fuse it into the convolution before it: export in inference mode, or preprocess the model"
    " (python -m onnxruntime.quantization.preprocess), or quantize its input and its output",
    "ConvTranspose": "quantize its input and its output, and its weights to constants of 8 bits (onnxruntime:"
    " quantize_static); it may have one or two spatial axes, and explicit pads",
}
"""By the operator's name: what names no option."""
