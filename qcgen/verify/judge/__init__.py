"""Somebody else's opinion: the user's model file, run by onnxruntime or by onnx.reference, on the same inputs."""
