"""Random networks, compiled with random options and held against onnxruntime: ``make fuzz-networks``."""
