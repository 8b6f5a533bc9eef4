"""Codes of a scale near the largest float32 stand for numbers beyond it: to make inputs of them overflowed."""

import warnings

import numpy as np
from models import node_model

import qcgen
from qcgen.verification.cases import generated_cases


def test_numbers_halfway_between_codes_are_finite():
    scale = np.array(3.4e38, np.float32)
    quantize = {"X": ("float", (1, 40)), "scale": scale, "zero_point": np.array(3, np.uint8)}
    program = qcgen.compile(node_model("QuantizeLinear", quantize)).program
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cases = list(generated_cases(program, seed=0, cases=1))
    assert cases[-1].group == "halfway between codes"
    assert all(np.isfinite(x).all() for case in cases for x in case.feeds.values())
