"""What to do about operators that cannot be compiled."""

from __future__ import annotations

CUT = "compile the model up to its inputs, with --output TENSOR, and compute it in the firmware"
FOLD = "if it only computes shapes or constants, export with fixed shapes and do_constant_folding, or run onnxsim"
CHOOSE = (
    "if its condition is constant, export with do_constant_folding, or run onnxsim; else compile the model up to it,"
    " with --output TENSOR, and choose in the firmware"
)
FOLD_OR_CUT = f"{FOLD}; else compile the model up to it with --output TENSOR"
UNROLL = "export the step of one time frame, with its state as input and output, and unrolled to supported operators"
TABLE = (
    "between a DequantizeLinear and a QuantizeLinear, with constants as its other operands, it becomes a table:"
    " quantize its input and its output, or compile the model up to it with --output TENSOR"
)
ADVICE = {
    **dict.fromkeys(("And", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Not", "Or"), TABLE),
    **dict.fromkeys(("NonMaxSuppression", "NonZero", "TopK", "Unique"), CUT),
    **dict.fromkeys(("If", "Loop", "Scan"), CHOOSE),
    **dict.fromkeys(("GatherElements", "GatherND", "Range", "Shape", "Size"), FOLD),
    **dict.fromkeys(("Equal", "Where"), FOLD_OR_CUT),
    **dict.fromkeys(("ConstantOfShape", "ScatterElements", "ScatterND"), FOLD),
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
"""By the operator's name."""

DEFAULT = (
    "the operators that can be compiled are listed by: qcgen ops; export the model with these, or compile it up to"
    " there with --output TENSOR, or single nodes with --node"
)


def advice(op_type: str) -> str:
    """What the user can do about an operator that cannot be compiled."""
    return ADVICE.get(op_type, DEFAULT)
