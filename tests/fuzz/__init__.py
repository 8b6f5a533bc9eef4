"""A structure-aware mutation fuzzer over ONNX models: the only outcomes are right C and ``ModelRejected``."""
