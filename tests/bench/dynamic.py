"""``python -m tests.bench.dynamic``: networks quantized dynamically beside the same ones quantized statically."""

from __future__ import annotations

from architectures.networks import NETWORKS
from architectures.oracle import quantized
from onnx import ModelProto

import qcgen
from qcgen.cli.table import number, table
from qcgen.emulate import measure, random_feeds

NAMES = (
    *("mlp_batchnorm_tabular", "ds_cnn_stride_padsame", "preact_resnet_32", "mobilenet_v2_035_96"),
    *("kwt_keyword_transformer", "lstm_kws"),
)
CORES = ("cortex-m4", "cortex-m0")
HEAD = ("network", "core", "quantized", "cycles", "flash", "arena")


def forms(model: ModelProto) -> dict[str, ModelProto]:
    """The network as the two quantizers write it."""
    return {"dynamically": quantized(model, "dynamic"), "statically": quantized(model, "QDQ")}


def row(name: str, form: str, model: ModelProto, core: str) -> tuple[str, ...]:
    """What one call takes."""
    artifact = qcgen.compile(model, name="network", target=core, layout="nhwc")
    found = measure(artifact, random_feeds(artifact.plan, 0), flags=("-O2",))
    return name, core, form, number(found.cycles), number(found.flash_bytes), number(found.arena_bytes)


if __name__ == "__main__":
    rows = [
        row(name, form, model, core)
        for name in NAMES
        for form, model in forms(NETWORKS[name]()).items()
        for core in CORES
    ]
    print(table(HEAD, rows, HEAD[3:]))
