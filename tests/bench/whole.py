"""The whole networks of the benchmarks: those of MLPerf Tiny where their models are there, else this repository's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "models"
OWN = ROOT / "tests" / "data" / "digits"

RECORD = "MLPerf Tiny v1.3, NUCLEO-L4R5ZI (Cortex-M4 at 120 MHz, flash with wait states), ST's compiler"
MEGAHERTZ = 120


@dataclass(frozen=True)
class Network:
    """A model; ``record`` is how many million cycles the fastest published inference takes, None if there is none."""

    title: str
    path: Path
    record: float | None = None


MLPERF = (
    Network("ResNet8", SHARED / "ic_resnet8_tfl_qop.onnx", 19.9),
    Network("keyword spotting", SHARED / "kws_dscnn_tfl_qop.onnx", 5.2),
    Network("visual wake words", SHARED / "vww_mbv1_tfl_qop.onnx", 10.7),
    Network("autoencoder", SHARED / "ad_fc_tfl_qop.onnx", 0.575),
)

DIGITS = (
    Network("digits, int8", OWN / "digits_qop_s8.onnx"),
    Network("digits, uint8", OWN / "digits_qop_u8.onnx"),
)


def networks() -> tuple[Network, ...]:
    """The networks whose models are there."""
    return MLPERF if all(each.path.is_file() for each in MLPERF) else DIGITS
