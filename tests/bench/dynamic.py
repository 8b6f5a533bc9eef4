"""``python -m tests.bench.dynamic``: networks quantized dynamically beside the same ones quantized statically."""

from __future__ import annotations

from architectures.networks import NETWORKS
from architectures.oracle import quantized
from onnx import ModelProto

import qcgen
from qcgen.cli.terminal import number, table
from qcgen.emulate import measure, random_feeds

NAMES = (
    *("mlp_batchnorm_tabular", "ds_cnn_stride_padsame", "preact_resnet_32", "mobilenet_v2_035_96"),
    *("kwt_keyword_transformer", "lstm_kws"),
)
CORES = ("cortex-m4", "cortex-m0")
HEAD = ("network", "core", "quantized", "cycles", "flash", "arena")
FORMS = {"dynamically": ("dynamic", None), "in the least arena": ("dynamic", "least"), "statically": ("QDQ", None)}
"""The form that a quantizer writes, and --arena."""


def row(name: str, form: str, model: ModelProto, core: str) -> tuple[str, ...]:
    """What one call takes."""
    artifact = qcgen.compile(model, name="network", target=core, layout="nhwc", arena=FORMS[form][1])
    found = measure(artifact, random_feeds(artifact.plan, 0), flags=("-O2",))
    return name, core, form, number(found.cycles), number(found.flash_bytes), number(found.arena_bytes)


if __name__ == "__main__":
    rows: list[tuple[str, ...]] = []
    for name in NAMES:
        for form, (quantizer, _) in FORMS.items():
            model = quantized(NETWORKS[name](), quantizer)
            own = [row(name, form, model, core) for core in CORES]
            rows += [each for each in own if (each[0], each[1], each[-1]) not in {(*r[:2], r[-1]) for r in rows}]
    print(table(HEAD, rows, HEAD[3:]))
