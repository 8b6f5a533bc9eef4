"""Pages that are written from the code: operators, command line, Python; the charts and figures of README.md.

Run as a program, this rewrites them.
"""

from __future__ import annotations

import argparse
import inspect
import os
import re
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, get_args, get_origin

import charts
import figures
import front_page

import qcgen
from qcgen import options
from qcgen.api import Supported
from qcgen.artifact import Artifact
from qcgen.build import LoadedModel, NodeArg
from qcgen.check.specs import SPECS, signature_of
from qcgen.chips import Chip, Fit
from qcgen.cli import COMMANDS
from qcgen.cli.lists import TYPES, operators
from qcgen.cli.options import add_compile_options
from qcgen.emulate import Measurement, NodeCost
from qcgen.geometry import CONVOLUTIONS
from qcgen.lower import LOWERINGS, Lowering
from qcgen.report import Report
from qcgen.rewrite.fold_constants import FOLDS
from qcgen.tflite import LOWERINGS as TFLITE
from qcgen.tflite.graph import WIDE
from qcgen.verification import Verification

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"

FAMILIES = {
    "Convolutions": "lower_conv lower_conv_integer",
    "Products of matrices": "lower_gemm lower_matmul lower_matmul_integer",
    "Sums, products, borders": """lower_binary lower_cast lower_dequantize lower_dynamic_quantize lower_quantize
    lower_same""",
    "Pooling": "lower_average_pool lower_global_average_pool lower_global_max_pool lower_max_pool",
    "Reductions, softmax, normalization": """lower_arg_max lower_instance_norm lower_layer_norm lower_reduce
    lower_softmax lower_top_k""",
    "Recurrent layers": "recurrent",
    "Movement": "movement",
    "Functions": "lower_choice lower_function lower_power lower_prelu lower_qlinear_function",
    "Comparisons and choices": "lower_comparison lower_logic lower_where",
}
"""Sections of docs/operators.md, and what lowers their operators: functions of ``qcgen.lower``, or a whole module."""

REWRITTEN = {
    "BatchNormalization": "part of a convolution, a line or table for each channel, or float sums and products",
    "DynamicQuantizeMatMul, MatMulIntegerToFloat (com.microsoft)": "the first with a constant matrix: the operators"
    " of ai.onnx that onnxruntime's optimizer makes them of",
    "BiasGelu, FastGelu (com.microsoft)": "an Add, and Gelu",
    "ConvTranspose": "one or two spatial axes, constant weights: an interleaved convolution",
    "Einsum": "one tensor: a sum; two: a MatMul, each letter in the result or in both",
    "CastLike, GroupNormalization, functions of the model": "the operators of which they consist",
    "Gemm": "where B or C is computed: a MatMul, alpha, an Add; alpha and C together are not supported",
    "If": "the branch that a constant condition takes, else both, and a Where of float32 numbers",
    "Mean, Sum": "float32 additions from left to right",
    "CumSum": "along a constant axis of at most 64 float32 numbers: additions one after the other",
    "OneHot": "integers, constant depth and values: Equal and Where",
    "SimplifiedLayerNormalization; SkipLayerNormalization, SkipSimplifiedLayerNormalization (com.microsoft)": "the"
    " first is RMSNormalization; of a sum, it or LayerNormalization",
    "ReduceLogSum, ReduceLogSumExp": "reductions and functions in float, within a tolerance",
    "Swish": "x * sigmoid(alpha * x), as QuickGelu",
    "Upsample": "a Resize",
    "Compress, GatherND, ReverseSequence, ScatterElements, ScatterND, Trilu": "at constant places, without a"
    " reduction: a Gather, of the data and the updates in a row",
    "Constant, ConstantOfShape, Range, Shape": "computed when the model is compiled",
}
"""Operators that the tables do not have, because rewriting makes others of them."""


def pages() -> dict[Path, str]:
    """Every page and chart by its path, and README.md with its figures."""
    found = figures.read()
    readme = ROOT / "README.md"
    return {
        DOCS / "operators.md": _operators(),
        DOCS / "command-line.md": _command_line(),
        DOCS / "python.md": _python(),
        **{DOCS / "charts" / name: make(found) for name, make in charts.CHARTS.items()},
        readme: with_figures(readme.read_text(), found),
    }


def _operators() -> str:
    sections = [
        "# Operators",
        "Written by `make generated` from the tables in the code. `qcgen inspect MODEL.onnx` says what becomes of each"
        " node of your model, and what is wrong with those that cannot be compiled.",
        "ai.onnx is read from opset 7 on. Between DequantizeLinear and QuantizeLinear (QDQ form), Conv, Gemm, MatMul,"
        " Add, Sub, Mul, pools, ReduceMean, ReduceSum, Softmax and normalizations become integer operators, and"
        " functions of one tensor become tables. What only moves, clamps or compares works on the codes themselves."
        " Elsewhere operators are float C, as onnxruntime computes them.",
        TYPES.replace("\n", " ").replace("types: codes", "Types: codes"),
        "Inputs under *constant* must be known when the model is compiled.",
    ]
    rows = {(("" if domain == "ai.onnx" else domain), op_type): facts for domain, op_type, *facts in operators()}
    for title, lowered_by in FAMILIES.items():
        keys = [key for key in rows if key in LOWERINGS and not _names(LOWERINGS[key]).isdisjoint(lowered_by.split())]
        sections += [f"## {title}", _table(("operator", "constant", "computes"), _rows(keys, rows))]
    sections += [
        "## Operators that become others",
        _table(("operator", "what becomes of it"), REWRITTEN.items()),
        "## Operators of constants",
        "Computed when the model is compiled, where all their inputs are constant: "
        + ", ".join(sorted({op_type for _, op_type in FOLDS}))
        + ", and every operator above.",
    ]
    read = [(name, (lowering.__doc__ or "").split("\n")[0].partition(": ")[2]) for name, lowering in TFLITE.items()]
    sections += [
        "## .tflite files",
        "Computed as the reference kernels of TensorFlow Lite Micro do, bit for bit: int8, at the"
        " borders uint8 or float32, too; int16 codes with int8 weights for"
        f" {', '.join(sorted({*WIDE, 'QUANTIZE', 'SOFTMAX'}))} and the memory of SVDF; fused"
        " activations NONE, RELU, RELU6 and RELU_N1_TO_1, weights"
        " and biases constant. A model with other operators is refused, unless `--output` or `--node` leaves those"
        " out. [tflite.md](tflite.md) has a line for each of 64 files.",
        _table(("operator", "computes"), read),
    ]
    return "\n\n".join(sections) + "\n"


def _names(lowering: Lowering) -> set[str]:
    """Of the function, and of its module."""
    return {lowering.__name__, lowering.__module__.rpartition(".")[2]}


def _rows(keys: Iterable[tuple[str, str]], facts: dict[tuple[str, str], list[str]]) -> list[tuple[str, ...]]:
    """A row for all operators that share their rules and what they compute."""
    shared: dict[tuple[str, ...], list[str]] = {}
    for key in sorted(keys, key=lambda key: (key[1], key[0])):
        domain, op_type = key
        _, layout, note = facts[key]
        constant = _constant(key)
        text = "; ".join(part for part in (note.rstrip("."), layout) if part)
        name = f"{op_type} ({domain})" if domain else op_type
        shared.setdefault((constant, text), []).append(name)
    return [(", ".join(names), *cells) for cells, names in shared.items()]


def _constant(key: tuple[str, str]) -> str:
    """The inputs that must be constant: of a convolution all but the image."""
    spelling, constant = CONVOLUTIONS.get(key), SPECS[key].constant
    refused = spelling.refused if spelling else ()
    free = [name for name in signature_of(*key).inputs if name not in constant and name not in refused]
    return ", ".join(constant) if len(constant) <= 2 and not spelling else f"all but {' and '.join(free)}"


def _command_line() -> str:
    common = argparse.ArgumentParser(add_help=False)
    add_compile_options(common)
    shared = {action.dest for action in common._actions}
    parts = [
        "# Command line",
        "Written by `make generated` from the options in the code; `qcgen COMMAND --help` prints the same. The exit"
        " status is 0, 1 for a rejected model or a failed verification, 2 for wrong usage. On a terminal no line is"
        " wider than it: long names lose their middles. In a pipe or a file every name and line is whole.",
        "For completion by Tab: `pip install 'qcgen[complete]'`, and in the shell's start-up file"
        ' `eval "$(register-python-argcomplete qcgen)"`.',
        _table(("command", "what it does"), ((f"[`{n}`](#qcgen-{n})", each.SUMMARY) for n, each in COMMANDS.items())),
    ]
    for name, command in COMMANDS.items():
        parser = argparse.ArgumentParser(prog=f"qcgen {name}", add_help=False)
        command.add_arguments(parser)
        own = [action for action in parser._actions if action.dest not in shared]
        parts += [f"## qcgen {name}", " ".join((command.__doc__ or "").split())]
        parts += [_options(own)] if own else []
        if shared <= {action.dest for action in parser._actions}:
            parts.append("All [options of every command that compiles](#options-of-every-command-that-compiles), too.")
    parts.append("## Options of every command that compiles")
    for group in common._action_groups:
        if group._group_actions:
            parts += [
                f"### {_title(group)}",
                f"{group.description}".replace("as ", "as `") + "`.",
                _options(group._group_actions),
            ]
    return "\n\n".join(parts) + "\n"


def _title(group: argparse._ArgumentGroup) -> str:
    title = str(group.title)
    return title[0].upper() + title[1:]


def _options(actions: Iterable[argparse.Action]) -> str:
    """Each option with its meaning, in columns."""
    lines: list[str] = []
    for action in actions:
        spelt = _spelt(action)
        column = 26
        meaning = textwrap.wrap(_meaning(action), 110 - column) or [""]
        lines += [spelt] if len(spelt) > column - 2 else [f"{spelt:{column}}{meaning.pop(0)}".rstrip()]
        lines += [" " * column + line for line in meaning if line]
    return "\n".join(["```text", *lines, "```"])


def _spelt(action: argparse.Action) -> str:
    value = "" if action.nargs == 0 else str(action.metavar or action.dest.upper())
    if action.option_strings:
        return f"{', '.join(action.option_strings)} {value}".strip()
    return f"{value} ..." if action.nargs == "+" else value


def _meaning(action: argparse.Action) -> str:
    text = (action.help or "") % {"default": action.default}
    choices = f"one of {', '.join(map(str, action.choices))}" if action.choices else ""
    return "; ".join(part for part in (text, choices) if part)


FUNCTIONS = (qcgen.compile, qcgen.verify, qcgen.bench, qcgen.targets)
PUBLIC = (Artifact, LoadedModel, NodeArg, Report, Fit, Verification, Measurement, NodeCost, Supported, Chip)
PUBLIC += (qcgen.ModelRejected, qcgen.Problem, qcgen.ToolMissing, qcgen.EmulationFailed)
"""The classes that a caller of these functions meets."""


def _python() -> str:
    parts = [
        "# Python",
        "Written by `make generated` from signatures and docstrings; `help(qcgen)` prints the same. `import qcgen` has"
        f" {', '.join(f'`{name}`' for name in qcgen.__all__)}; the other classes here are what these give."
        " [report.schema.json](report.schema.json) describes the fields of a report; [sweeps.md](sweeps.md) compiles"
        " thousands of networks.",
        _example(qcgen),
    ]
    for function in FUNCTIONS:
        name = f"qcgen.{function.__name__}"
        parts += [f"## {name}", _signature(name, function), _prose(function)]
    for cls in PUBLIC:
        parts += [f"## {cls.__name__}", _prose(cls)]
        for name, member in vars(cls).items():
            if name.startswith("_"):
                continue
            if inspect.isfunction(member):
                parts += [_signature(f"{cls.__name__}.{name}", member), _prose(member)]
            elif isinstance(member, property) or hasattr(member, "func"):
                parts += [f"`{cls.__name__}.{name}`: {_prose(member)}"]
    words = {name: kind for name, kind in vars(options).items() if get_origin(kind) is Literal}
    parts += [
        "## Words",
        "What options take, as types for a type checker; the first of each is the default. `TargetName` is any of"
        " the first three.",
        _table(("type", "values"), ((f"`{name}`", ", ".join(get_args(kind))) for name, kind in words.items())),
    ]
    return "\n\n".join(parts) + "\n"


def _signature(name: str, function: object) -> str:
    """As Python spells it, an argument a line where it is long."""
    assert callable(function)
    signature = inspect.signature(function)
    text = f"{name}{signature}".replace("(self, ", "(").replace("(self)", "()")
    if len(text) > 100:
        arguments = [str(each) for each in signature.parameters.values() if each.name != "self"]
        star = next((i for i, each in enumerate(signature.parameters.values()) if each.kind is each.KEYWORD_ONLY), None)
        if star is not None:
            arguments.insert(star - ("self" in signature.parameters), "*")
        result = signature.return_annotation
        text = f"{name}(\n" + "".join(f"    {each},\n" for each in arguments) + f") -> {result}"
    text = re.sub(r"""(: |-> )(['"])(.*?)\2(?= = |,\n|, |\)|$)""", r"\1\3", text)  # annotations are strings
    return f"```python\n{text}\n```"


def _example(module: object) -> str:
    """The lines of a module's docstring that are code."""
    lines = inspect.cleandoc(getattr(module, "__doc__", None) or "").splitlines()
    code = textwrap.dedent("\n".join(line for line in lines[1:] if not line or line.startswith("    ")))
    return f"```python\n{code.strip()}\n```"


def _prose(documented: object) -> str:
    """A docstring as Markdown."""
    text = inspect.cleandoc(getattr(documented, "__doc__", None) or "")
    return re.sub(r"``([^`]*)``", r"`\1`", "\n\n".join(" ".join(part.split()) for part in text.split("\n\n")))


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [tuple(head), *(tuple(cell.replace("|", "\\|") for cell in row) for row in rows)]
    lines.insert(1, ("---",) * len(lines[0]))
    return "\n".join(f"|{'|'.join(line)}|" if line[0] == "---" else f"| {' | '.join(line)} |" for line in lines)


MARKED = re.compile(r"(<!-- figures: (\w+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def with_figures(text: str, found: figures.Figures) -> str:
    """The text with what stands between its marks written anew."""
    return MARKED.sub(lambda mark: f"{mark[1]}{front_page.PARTS[mark[2]](found)}\n{mark[4]}", text)


def main() -> int:
    """Rewrites what changed."""
    for path, text in pages().items():
        if not path.exists() or path.read_text() != text:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
            print(os.path.relpath(path, ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
