"""The head of a generated file: what it was made from, what each node became, what is proved of it."""

from __future__ import annotations

import textwrap

from qcgen.ir.plan import Call, Plan
from qcgen.ir.program import OrionConv, macs_of
from qcgen.render.filters import WIDTH, one_line, thousands


def summary(plan: Plan) -> list[str]:
    """The table of nodes in the head of the file."""
    titles = ("node", "operator", "kernel", "multiply-adds", "constants", "scratch")
    lines = [titles]
    for call in plan.calls:
        sizes = (
            thousands(macs_of(call.op)),
            f"{thousands(call.constant_bytes)} B",
            f"{thousands(call.scratch_bytes)} B",
        )
        lines.append((one_line(call.op.name), call.op.op_type, call.kernel, *sizes))
    widths = [max(len(line[column]) for line in lines) for column in range(len(titles))]
    return [
        "  ".join(
            cell.ljust(width) if column < 3 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def memory(plan: Plan) -> list[str]:
    """How the arena is used, for networks: its size, and where it lies between what is needed and what is wasted."""
    if len(plan.calls) < 2:
        return []
    bound = plan.arena_lower_bound
    fit = "no placement needs less"
    if bound < plan.arena_bytes:
        fit += f" than {thousands(bound)} B"
    return [f"arena    {thousands(plan.arena_bytes)} B for tensors between nodes and for scratch; {fit}"]


def certificate(call: Call) -> dict[str, object]:
    """What is proved of a node, in sentences."""
    certificate = call.certificate
    sentences = []
    if certificate.accumulator is not None:
        low, high = certificate.accumulator
        if certificate.wraps:
            sentences.append(("accumulator", "some input exceeds int32: sums wrap modulo 2^32, as onnxruntime's do"))
        else:
            sentences.append(
                ("accumulator", f"within [{low}, {high}] for every input: int32 cannot overflow"),
            )
    if certificate.requantize:
        total = sum(certificate.requantize.values())
        forms = ", ".join(f"{form} {count} of {total}" for form, count in certificate.requantize.items())
        text = (
            f"{forms} channels: equal to {_judge(call)} for every reachable accumulator"
            f" (compared at {thousands(certificate.comparisons)} points: both sides of every step)"
        )
        sentences.append(("requantize", text))
    wrapped = [(label, textwrap.wrap(text, WIDTH - 19, break_long_words=False)) for label, text in sentences]
    return {"node": one_line(call.op.name), "sentences": wrapped}


def _judge(call: Call) -> str:
    return "Orion's fixed-point arithmetic" if isinstance(call.op, OrionConv) else "onnxruntime's float32 arithmetic"
