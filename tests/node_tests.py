"""``make node-tests``: ONNX's own node tests of every operator that is supported, in docs/node-tests.md.

The tests are those that the installed onnx makes, which takes seconds. They feed weights and scales as inputs: what
must be constant becomes so. Of the inputs as many as possible stay inputs, the first ones.
"""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx

import qcgen
from qcgen.check.specs import SPECS
from qcgen.cli.terminal import number, table
from qcgen.geometry import CONVOLUTIONS
from qcgen.ir.graph import ELEMENT_TYPES
from qcgen.ir.types import Array
from qcgen.load.nodes import IN_BYTES

if TYPE_CHECKING:
    from onnx.backend.test.case.test_case import TestCase

    from qcgen.artifact import Artifact

DOCUMENT = Path(__file__).parents[1] / "docs" / "node-tests.md"
FUNCTIONS = "functions of several nodes"
REWRITTEN = (
    "And",
    "BatchNormalization",
    "CastLike",
    "Compress",
    "CumSum",
    "Einsum",
    "Equal",
    "GatherND",
    "Greater",
    "GreaterOrEqual",
    "GroupNormalization",
    "Less",
    "LessOrEqual",
    "Not",
    "OneHot",
    "Or",
    "ReverseSequence",
    "ScatterElements",
    "ScatterND",
    "Swish",
    "Trilu",
    "Where",
    "Xor",
)
SUPPORTED = {*SPECS, *CONVOLUTIONS, *(("", name) for name in REWRITTEN)}

ONNXRUNTIME: dict[str, list[float]] = {
    # onnxruntime 1.32.0 scales by the sizes of input and output, onnx's reference by the scale before rounding.
    "test_resize_downsample_scales_linear_align_corners": [1, 4],
}
"""What onnxruntime computes where onnx's outputs are others; recorded."""


@dataclass(frozen=True)
class Verdict:
    """A node test: its operator, why there is no C (``refusal``), and what differs in its outputs (``wrong``).

    ``inputs`` of the model's inputs stayed inputs, the others became constants.
    """

    name: str
    operator: str
    inputs: int = 0
    refusal: str = ""
    wrong: str = ""


@cache
def cases() -> dict[str, TestCase]:
    """The node tests, by name, all of whose operators are supported."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # making a case may overflow
        from onnx.backend.test.case import node

        collected = node.collect_testcases(None)
    return {case.name: case for case in collected if case.model is not None and operators(case) <= SUPPORTED}


def operators(case: TestCase) -> set[tuple[str, str]]:
    """Domain and name of the operators of a test's model; onnx makes models of the nodes of functions' bodies, too."""
    return {(node.domain, node.op_type) for node in case.model.graph.node}


def operator(case: TestCase) -> str:
    """What a test is counted under: its operator."""
    [*nodes] = case.model.graph.node
    return nodes[0].op_type if len(nodes) == 1 and not case.name.endswith("_expanded") else FUNCTIONS


def verdict(name: str) -> Verdict:
    """Compiles, builds and runs a test."""
    case = cases()[name]
    feeds = [feed(case, values) for values, _ in case.data_sets]
    artifact, refusal = compiled(case, feeds[0])
    if artifact is None:
        return Verdict(name, operator(case), refusal=refusal)
    names = [port.tensor.name for port in artifact.plan.inputs]
    model = artifact.load(("-O1",))
    for given, (_, wanted) in zip(feeds, case.data_sets, strict=True):
        found = model.run(None, {each: given[each] for each in names})
        if wrong := difference(case, found, [elements(each) for each in wanted]):
            return Verdict(name, operator(case), len(names), wrong=wrong)
    return Verdict(name, operator(case), len(names))


def feed(case: TestCase, values: Sequence[object]) -> dict[str, Array]:
    """The elements of a test's inputs by name; not of types that numpy does not have."""
    inputs = [given.name for given in case.model.graph.input]
    arrays = {name: elements(value) for name, value in zip(inputs, values, strict=True)}
    return {name: array for name, array in arrays.items() if array.dtype != object}


def elements(value: object) -> Array:
    """A tensor of a test: an array, or a TensorProto, which stays one where numpy lacks its type; 4 bits in a byte."""
    if isinstance(value, onnx.TensorProto) and value.data_type in IN_BYTES:
        return onnx.numpy_helper.to_array(value).astype(IN_BYTES[value.data_type].numpy)
    is_known = isinstance(value, onnx.TensorProto) and value.data_type in ELEMENT_TYPES
    return onnx.numpy_helper.to_array(value) if is_known else np.asarray(value)


def compiled(case: TestCase, given: dict[str, Array]) -> tuple[Artifact | None, str]:
    """The test's model with as few constants as it compiles with, or why it does not with the fewest inputs."""
    why = ""
    for inputs in range(len(case.model.graph.input), 0, -1):
        names = [each.name for each in case.model.graph.input][inputs:]
        if not given.keys() >= set(names):
            continue
        try:
            return qcgen.compile(case.model, name=case.name, constants={name: given[name] for name in names}), ""
        except qcgen.ModelRejected as rejection:
            why = reason(rejection.problems[0].what)
    return None, why


def reason(what: str) -> str:
    """A problem without what is the test's own, so that equal causes read alike."""
    for pattern, text in CAUSES.items():
        if re.search(pattern, what):
            return text
    return what


CAUSES = {
    r"is u?int\d+, but must be float": "it computes with integers that are not quantized",
    r"is bool, but must be|is u?int(32|64), but must be": "its elements are neither codes nor float",
    r"is float16|to float16|is double|to double": "float16 or double",
    r"u?int16, but must be": "codes of 16 bits that nothing computes with",
    r"not a tensor, or its elements|to other$": "no tensor, or of types of 4 bits, 8-bit floats, bfloat16, strings",
    r"every dimension must be at least 1|it is empty": "an empty tensor",
    r"scale has shape": "scales by axis or block of a computed tensor",
}
"""Causes that have more than one text, by what these match."""


def difference(case: TestCase, found: Sequence[Array], wanted: Sequence[Array]) -> str:
    """What differs from the outputs of the test: floats by more than its tolerance, everything else at all."""
    for got, want in zip(found, wanted, strict=True):
        if case.name in ONNXRUNTIME:
            want = np.array(ONNXRUNTIME[case.name], want.dtype).reshape(want.shape)
        if (got.dtype, got.shape) != (want.dtype, want.shape):
            return f"it is {got.dtype}{got.shape}, not {want.dtype}{want.shape}"
        tolerance = {"rtol": case.rtol, "atol": case.atol, "equal_nan": True} if want.dtype.kind == "f" else None
        equal = np.isclose(got, want, **tolerance) if tolerance else got == want
        if not np.all(equal):
            return f"{np.sum(~equal)} of {equal.size} outputs differ"
    return ""


def verdicts(names: Iterable[str], processes: int) -> Iterator[Verdict]:
    """The verdicts of tests in their order."""
    cases()  # once, before there are processes
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(verdict, names, chunksize=8)


HEAD = ("operator", "tests", "compile", "pass", "refused because")


def rows(found: Sequence[Verdict]) -> list[tuple[str, ...]]:
    """A row for each operator: how many tests there are, compile and pass, and why others do not compile."""
    ordered = sorted(found, key=lambda each: (each.operator == FUNCTIONS, each.operator.lower()))
    lines: list[tuple[str, ...]] = []
    for name, group in groupby(ordered, key=lambda each: each.operator):
        of = list(group)
        reasons = Counter(each.refusal for each in of if each.refusal).most_common()
        first, *others = [f"{count}: {why}" for why, count in reasons] or [""]
        lines += [(name, *counts(of), first), *(("", "", "", "", other) for other in others)]
    return [*lines, ("all", *counts(found), "")]


def counts(found: Sequence[Verdict]) -> tuple[str, str, str]:
    """How many tests there are, how many compile, how many pass."""
    compile_ = [each for each in found if not each.refusal]
    return number(len(found)), number(len(compile_)), number(sum(not each.wrong for each in compile_))


def page(found: Sequence[Verdict]) -> str:
    """The document."""
    return TEXT.format(version=onnx.__version__, table=table(HEAD, rows(found), right=HEAD[1:4]))


TEXT = """\
# ONNX's node tests

`make node-tests` writes this page: the tests of single operators that onnx {version} brings, of every operator that
`qcgen ops` names, compiled, built for this machine and run. They feed weights and scales as inputs; as many inputs as
possible stay inputs, the others become constants (`--constant`). Integers must be equal, floats within the tolerance
of the test. Where onnxruntime computes something else than onnx's reference, its recorded outputs count: in one test,
Resize by align_corners to a size that is not an integer. *Functions of several nodes* are operators that onnx defines
by others, all of which are supported.

What is refused is mostly of types that a quantized network does not compute with.

```text
{table}
```
"""


def main() -> int:
    """Prints the table; with ``--write`` writes the page. 1 if an output is wrong."""
    parser = argparse.ArgumentParser(prog="make node-tests", description=__doc__)
    parser.add_argument("--only", default="", metavar="NAME", help="tests whose name contains this")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="write docs/node-tests.md")
    arguments = parser.parse_args()
    found = list(verdicts([name for name in cases() if arguments.only in name], arguments.processes))
    print(table(HEAD, rows(found), right=HEAD[1:4]))
    wrong = [each for each in found if each.wrong]
    for each in wrong:
        print(f"{each.name}: {each.wrong}")
    if arguments.write:
        DOCUMENT.write_text(page(found))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
