"""The whole networks of the benchmarks: those of MLPerf Tiny where their models are there, else this repository's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "models"
OWN = ROOT / "tests" / "data" / "digits"

RECORD = "MLPerf Tiny, closed division, measured on boards: ST, v1.2; the autoencoder on a Cortex-M4 Plumerai, v1.1"


@dataclass(frozen=True)
class Network:
    """A model; ``records``: by target how many million cycles the fastest published inference takes."""

    title: str
    path: Path
    records: Mapping[str, float] = field(default_factory=dict)


RECORD_CORES = ("cortex-m0", "cortex-m4", "cortex-m7", "cortex-m33", "cortex-m85")
"""The targets that records were published for; Cortex-M0 stands for M0+."""


def _mlperf(title: str, file: str, *records: float) -> Network:
    return Network(title, SHARED / file, dict(zip(RECORD_CORES, records, strict=True)))


MLPERF = (
    _mlperf("ResNet8", "ic_resnet8_tfl_qop.onnx", 97.41, 19.82, 11.44, 16.69, 4.07),
    _mlperf("keyword spotting", "kws_dscnn_tfl_qop.onnx", 30.38, 5.18, 3.17, 4.64, 1.66),
    _mlperf("visual wake words", "vww_mbv1_tfl_qop.onnx", 90.52, 10.67, 6.67, 9.48, 6.43),
    _mlperf("autoencoder", "ad_fc_tfl_qop.onnx", 2.617, 0.486, 0.303, 0.495, 0.255),
)

UINT8 = (
    Network("ResNet8, uint8", SHARED / "ic_resnet8_ort_qop_u8s8.onnx"),
    Network("ResNet8, uint8, QDQ", SHARED / "ic_resnet8_ort_qdq_default.onnx"),
    Network("keyword spotting, uint8", SHARED / "kws_dscnn_ort_qop_u8s8.onnx"),
    Network("visual wake words, uint8, QDQ", SHARED / "vww_mbv1_ort_qdq_default.onnx"),
    Network("autoencoder, uint8, QDQ", SHARED / "ad_fc_ort_qdq_default.onnx"),
)
"""The same networks as onnxruntime.quantization makes them, with activations of uint8 and weights of int8."""

DIGITS = (
    Network("digits, int8", OWN / "digits_qop_s8.onnx"),
    Network("digits, uint8", OWN / "digits_qop_u8.onnx"),
)


def networks() -> tuple[Network, ...]:
    """The networks whose models are there."""
    return MLPERF if all(each.path.is_file() for each in MLPERF) else DIGITS
