"""Whoever runs a model file: onnxruntime, whose numbers depend on the processor, and onnx's reference evaluator."""

from __future__ import annotations

import platform
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from onnx import ModelProto

from qcgen.arithmetic import SESSION
from qcgen.errors import printable
from qcgen.ir.types import Array
from qcgen.verification.judge.part import OWN

OPTIONS: Mapping[str, str] = {**SESSION, "session.qdq_matmulnbits_accuracy_level": "0"}
"""Of the session: what is meant; and numbers in front of products that stay float are not quantized."""

MOST_CHARACTERS = 200
"""How much is told of why an engine cannot run a model."""


class CannotRun(Exception):
    """An engine cannot run a model, or not with these inputs; the text says why, in its words."""


class Engine(Protocol):
    """Runs a model."""

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs by name, without the ending OWN, for inputs by name; CannotRun."""


@contextmanager
def refusals() -> Iterator[None]:
    """Whatever an engine raises, in one line."""
    try:
        yield
    except Exception as error:
        text = printable(" ".join(str(error).split())) or type(error).__name__
        raise CannotRun(text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]} ...") from error


class OnnxRuntime:
    """onnxruntime with the options of the session that is meant, on the CPU, in one thread."""

    def __init__(self, model: ModelProto) -> None:
        runtime = _onnxruntime()
        options = runtime.SessionOptions()
        for key, value in OPTIONS.items():
            options.add_session_config_entry(key, value)
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4  # what fails is an exception, too
        providers = ["CPUExecutionProvider"]
        with refusals():
            self._session = runtime.InferenceSession(model.SerializeToString(), options, providers=providers)
        self._inputs = {each.name for each in self._session.get_inputs()}
        self._outputs = [each.name for each in model.graph.output]

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """What the session gives."""
        given = {name: array for name, array in feeds.items() if name in self._inputs}
        with refusals():
            return _named(self._outputs, self._session.run(self._outputs, given))


class Reference:
    """onnx.reference: the specification's operators one after the other, as they are written in the file."""

    def __init__(self, model: ModelProto) -> None:
        from onnx.reference import ReferenceEvaluator

        from qcgen.verification.judge.definitions import evaluators

        opset = next((each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), 1)
        with refusals():
            self._evaluator = ReferenceEvaluator(model, new_ops=evaluators(opset))
        self._outputs = [each.name for each in model.graph.output]

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """What the evaluator gives."""
        with refusals(), np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _named(self._outputs, self._evaluator.run(None, dict(feeds)))


def _named(names: list[str], arrays: Any) -> dict[str, Array]:
    return {name.removesuffix(OWN): array for name, array in zip(names, arrays, strict=True)}


def _onnxruntime() -> Any:
    """The module; ImportError where it is not installed."""
    import onnxruntime as module

    return module


def installed() -> str | None:
    """The version of onnxruntime; None where it is not installed."""
    try:
        return str(_onnxruntime().__version__)
    except ImportError:
        return None


# The instruction set of this processor, as far as onnxruntime's numbers depend on it.

CPUINFO = Path("/proc/cpuinfo")
"""Where Linux lists what a processor can do."""


@dataclass(frozen=True)
class Processor:
    """``machine`` as platform.machine() calls it, ``flags`` as Linux does; no flags where they are unknown."""

    machine: str
    flags: frozenset[str]

    @property
    def is_x86(self) -> bool:
        """Whether this is x86-64, with whose onnxruntime outputs are meant to be equal."""
        return self.machine.lower() in ("x86_64", "amd64")

    @property
    def has_fma(self) -> bool:
        """Whether it multiplies and adds with one rounding."""
        return "fma" in self.flags

    @property
    def has_dot_products(self) -> bool:
        """Whether it adds products of 8-bit numbers to 32 bits: VNNI on x86-64, SDOT on AArch64."""
        return not self.flags.isdisjoint(("avx512_vnni", "avx_vnni", "asimddp"))

    def __str__(self) -> str:
        if not self.flags:
            return f"{self.machine}, instruction set unknown"
        if not self.is_x86:
            return f"{self.machine} {'with' if self.has_dot_products else 'without'} SDOT"
        vector = next((name for flag, name in _VECTORS if flag in self.flags), "no AVX")
        fma = "" if self.has_fma else " without FMA"
        return f"{vector}{fma} {'with' if self.has_dot_products else 'without'} VNNI"


_VECTORS = (("avx512f", "AVX512"), ("avx2", "AVX2"), ("avx", "AVX"))


def this_processor() -> Processor:
    """The processor that this runs on."""
    try:
        text = CPUINFO.read_text("utf-8")
    except OSError:
        return Processor(platform.machine(), frozenset())
    lines = (line.partition(":") for line in text.splitlines())
    words = next((value for key, _, value in lines if key.strip() in ("flags", "Features")), "")
    return Processor(platform.machine(), frozenset(words.split()))
