"""What a compilation yields: the files, the report, and the way to run them on the host."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path

from qcgen import certificate
from qcgen.build import LoadedModel, load
from qcgen.chips import Chip
from qcgen.cross import measured
from qcgen.errors import ModelRejected, OrionPanic, Problem
from qcgen.estimate import code_bytes
from qcgen.fallbacks import Costs, estimated, fallbacks, on_chip
from qcgen.ir.graph import Origin
from qcgen.ir.plan import FlashUse, Plan
from qcgen.ir.program import Program
from qcgen.ir.types import Array
from qcgen.options import in_python, spelt
from qcgen.page import in_notebook, page
from qcgen.plan import Planner, plan
from qcgen.plan.flash import curve
from qcgen.plan.functions import FreeStep, free_step
from qcgen.plan.prices import longest_stretch
from qcgen.reference.tolerance import exact
from qcgen.render import block, render
from qcgen.render.c_text import one_line
from qcgen.report import Measured, Report, report
from qcgen.self_test import self_test, vectors
from qcgen.write import write_files


@dataclass(frozen=True, repr=False)
class Artifact:
    """A compiled model: ``files`` are its C by name, ``report`` its figures; ``write`` and ``load`` do what they say.

    ``plan`` is what the files are rendered from. ``program`` is what the model means, before simplification: it judges
    the code, and simplification with it. ``planned`` is the program that was planned: simplified, unless the options
    forbid it. ``is_simplified``: whether that changed anything. ``origin`` is the part of the user's model that it was
    made of, None if that is not known. ``notes`` tell what was assumed of the model; ``board`` is the chip that it is
    for, if that was named.
    """

    program: Program
    planned: Program
    plan: Plan
    files: Mapping[str, str]
    is_simplified: bool = False
    origin: Origin | None = None
    notes: tuple[str, ...] = ()
    board: Chip | None = None

    def __repr__(self) -> str:
        own = self.plan
        what = f"{len(self.planned.operators)} nodes, {own.constant_bytes} B of constants, arena {own.arena_bytes} B"
        return f"<qcgen.Artifact {own.prefix} for {own.options.target}: {what}; {', '.join(self.files)}>"

    def __getstate__(self) -> dict[str, object]:
        """What goes to another process, which computes reports anew if it is asked for them."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def with_self_test(self, feeds: Mapping[str, Array] | None = None, *, slices: bool = False) -> Artifact:
        """The same with NAME_test.h and NAME_test.c, by an input by name in the model's own shapes, or a random one.

        ``slices``: tables are checked some bytes at a time, by NAME_test_slice, which may be called by itself, too.
        Raises ModelRejected if Orion panics on it, or on all that are tried, and if there is nothing to compare.
        """
        if self.plan.options.weights is not None:
            what = "other weights give other outputs, and their own check is NAME_weights_check"
            raise ModelRejected([Problem("the self-test", what, f"leave it or {spelt('weights')} out")])
        own = replace(self.plan, options=replace(self.plan.options, self_test=True, test_slices=slices))
        try:
            test = self_test(self.planned, own, feeds)
        except OrionPanic as panic:
            hint = f"give an input on which it does not ({spelt(data='FILE.npz')}), or leave the self-test out"
            raise ModelRejected([Problem("input of the self-test", str(panic), hint)]) from None
        if not test.written and not any(call.tables for call in own.calls):
            what = "it has no tables, and what its nodes write are floats that may differ from core to core"
            raise ModelRejected([Problem("the self-test", f"there is nothing to compare: {what}", "leave it out")])
        return replace(self, plan=own, files=render(own, test))

    def with_vectors(self, feeds: Sequence[Mapping[str, Array]]) -> Artifact:
        """The same with NAME_vectors.h: inputs, by name in the model's own shapes, and the outputs that they give.

        A self-test changes the header that they belong to: ``with_self_test`` comes first. Raises ModelRejected if
        Orion panics on an input.
        """
        try:
            text = vectors(self.program, self.plan, self.files, feeds)
        except OrionPanic as panic:
            hint = f"give inputs on which it does not ({spelt(data='FILE.npz')})"
            raise ModelRejected([Problem("inputs of the test vectors", str(panic), hint)]) from None
        return replace(self, files={**self.files, f"{self.plan.prefix}_vectors.h": text})

    def with_banner(self, text: str) -> Artifact:
        """The same with the lines of a text at the head of its files, such as a copyright or an SPDX line."""
        lines = "".join(f" * {one_line(line)}".rstrip() + "\n" for line in text.strip("\n").splitlines())
        heads = {name: content.split("\n", 2) for name, content in self.files.items()}  # /*, who generated it, the rest
        return replace(
            self, files={name: f"/*\n{who}\n *\n{lines} *\n{rest}" for name, (_, who, rest) in heads.items()}
        )

    @cached_property
    def report(self) -> Report:
        """Sizes, kernels and certificates; also without simplification, for which the program is planned once more.

        Of an artifact for a board it says whether it fits, for which the code is measured.
        """
        equal = exact(self.planned, is_judge=True)
        inexact = tuple(op.name for op in self.planned.operators if op.y.name not in equal)
        own = replace(self._report, notes=self.notes, inexact=inexact, measure=lambda: self._measured)
        own = replace(own, longest_stretch=longest_stretch(self.plan))
        if self.board is None:
            return own
        return own.with_board(on_chip(self.plan, self.board, own.flash_bytes, own.ram_bytes))

    @cached_property
    def _measured(self) -> Measured | None:
        return measured(self.plan, self.files)

    @cached_property
    def _report(self) -> Report:
        own, found = self.plan, fallbacks(self.planned, self.plan)
        if not self.is_simplified:
            return report(own, self.files, fallbacks=found)
        arena = own.options.arena if own.options.arena == "least" else None  # so many bytes may not be enough
        options = replace(own.options, simplify=False, arena=arena, flash=None)
        try:
            return report(own, self.files, plan(self.program, options, own.prefix, own.model, own.node), found)
        except ModelRejected:  # layers that simplification takes away do not run row by row
            return report(own, self.files, fallbacks=found)

    @cached_property
    def estimate(self) -> Costs:
        """Bytes of flash and cycles, estimated without a compiler; ``compile(flash=...)`` and sweeps choose by them."""
        return estimated(self.plan)

    @cached_property
    def flash_curve(self) -> tuple[FlashUse, ...]:
        """What ``compile(flash=...)`` can choose from, estimated: bytes of flash and cycles, from the smallest on."""
        own = self.plan
        return curve(Planner(self.planned, own.options, own.prefix, own.model, own.node), code_bytes)

    def _repr_html_(self) -> str:
        """The report as a notebook shows it."""
        return in_notebook(page(self.report))

    @cached_property
    def certificate(self) -> str:
        """The text of NAME.cert.json: every integer that was proved right (docs/certificate.md)."""
        return certificate.certificate(self.program, self.planned, self.plan, self.files)

    @property
    def weights_files(self) -> dict[str, str | bytes]:
        """The block of weights by the name of its file, and NAME_weights.json; nothing if they are not apart."""
        if self.plan.options.weights is None:
            return {}
        own = block.record(self.plan, self.free_steps, self.code_essence)
        return {self.plan.options.weights: self.block, f"{self.plan.prefix}_weights.json": own}

    @property
    def certificate_file(self) -> dict[str, str]:
        """The certificate by the name of its file."""
        return {f"{self.plan.prefix}.cert.json": self.certificate}

    @property
    def block(self) -> bytes:
        """The weights as a block that fits the code; only with ``compile(weights=...)``."""
        return block.block(self.plan, block.id_of(self.code_essence))

    @property
    def code_essence(self) -> dict[str, str]:
        """The code but for what no compiler sees of it, by file: blocks fit where it is the same."""
        names = (f"{self.plan.prefix}.h", f"{self.plan.prefix}.c")
        return block.essence(self.plan, {name: self.files[name] for name in names})

    @property
    def free_steps(self) -> dict[str, FreeStep]:
        """How operators whose numbers may change are computed, by their names."""
        return {call.op.name: free_step(call.kernel, call.context, call.certificate) for call in self.plan.calls}

    def write(self, folder: str | os.PathLike[str], *, certificate: bool = False, force: bool = False) -> None:
        """Writes the files into a folder, which is made if it is missing: all of them or none.

        With ``certificate`` NAME.cert.json, too. FileExistsError if a file would be overwritten that qcgen did not
        generate, unless ``force``.
        """
        files = {**self.files, **self.weights_files, **(self.certificate_file if certificate else {})}
        with in_python():
            write_files(Path(folder), files, force=force)

    def load(self, flags: str | Sequence[str] = ("-O2",)) -> LoadedModel:
        """Builds the files with the host's C compiler and loads them; ToolMissing if there is no compiler.

        ``flags`` are the compiler's, one string or several.
        """
        return load(self.plan, self.files, (flags,) if isinstance(flags, str) else flags)
