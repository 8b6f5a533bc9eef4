"""Generated files to a callable: built with the host's C compiler, loaded through cffi."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from cffi import FFI

from qcgen.errors import OrionPanic, ToolMissing, naming
from qcgen.ir.plan import Plan, Port
from qcgen.ir.types import Array

STRICT_FLAGS = (
    "-std=c99",
    "-pedantic",
    "-Wall",
    "-Wextra",
    "-Wshadow",
    "-Wconversion",
    "-Wcast-align",
    "-Wvla",
    "-Werror",
)
"""Flags under which generated code compiles without a warning, with gcc and clang."""


def host_compiler() -> list[str]:
    """The host's C compiler as a command: $CC, else cc, gcc or clang; ToolMissing if there is none."""
    chosen = os.environ.get("CC")
    if chosen:
        return shlex.split(chosen)
    for name in ("cc", "gcc", "clang"):
        if shutil.which(name):
            return [name]
    raise ToolMissing("no C compiler found: install gcc (Debian: apt-get install gcc) or set CC")


def load(plan: Plan, files: Mapping[str, str], flags: Sequence[str] = ("-O2",)) -> LoadedModel:
    """The generated files of a plan, built and loaded; nothing of it stays on the disk. ToolMissing if cc fails."""
    with tempfile.TemporaryDirectory(prefix="qcgen-") as folder:
        return LoadedModel(plan, build(files, flags, Path(folder)))  # what is loaded outlives its file


def build(files: Mapping[str, str], flags: Sequence[str], folder: Path) -> Path:
    """A shared library of the generated files, in ``folder``; ToolMissing if cc fails."""
    command = build_command(files, flags)
    for name, text in files.items():
        with naming(folder / name):
            (folder / name).write_text(text, encoding="utf-8")
    try:
        result = subprocess.run(
            command, cwd=folder, capture_output=True, encoding="utf-8", errors="replace", check=False
        )
    except OSError as error:
        raise ToolMissing(
            f"the C compiler {command[0]} cannot be run: {error.strerror}; install it or set CC"
        ) from None
    if result.returncode:
        raise ToolMissing(f"{command[0]} failed on the generated code:\n{result.stderr}")
    return folder / command[-1]


def build_command(files: Mapping[str, str], flags: Sequence[str]) -> list[str]:
    """The command that builds the files where they lie; its last word is the library's name."""
    sources = [name for name in files if name.endswith(".c")]
    library = str(Path(sources[0]).with_suffix(".so"))
    return [*host_compiler(), *STRICT_FLAGS, *flags, "-shared", "-fPIC", *sources, "-lm", "-o", library]


def defined(flags: Sequence[str]) -> frozenset[str]:
    """The macros that the host's C compiler has with these flags, such as those of instructions; none if it fails."""
    command = [*host_compiler(), *flags, "-dM", "-E", "-x", "c", os.devnull]
    try:
        result = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    except OSError:
        return frozenset()
    return frozenset(line.split()[1] for line in result.stdout.splitlines() if line.startswith("#define "))


GARBAGE = 0xEE
"""The byte that outputs and arena hold before a call: no small number in any type."""


@dataclass(frozen=True)
class NodeArg:
    """An input or output, as onnxruntime describes it: ``type`` is spelt as in "tensor(int8)".

    ``shape`` is that at the C function: with ``layout="nhwc"`` images are channels-last.
    """

    name: str
    type: str
    shape: list[int]


class LoadedModel:
    """Generated C, built for this machine, with the methods of onnxruntime.InferenceSession."""

    def __init__(self, plan: Plan, library: Path) -> None:
        """Loads a library built from ``plan``'s files."""
        self._plan = plan
        self._ffi = FFI()
        whole = len(plan.arguments) + 1  # pointers: those that are not part of the arena, and the arena
        counts = {"begin": 1, "push_row": 2, "end": whole} if plan.pushed else {"run": whole}
        counts |= {"reset": 1} if plan.states else {}
        for name, count in counts.items():
            result = "int" if plan.returns_status and name not in ("begin", "reset") else "void"
            self._ffi.cdef(f"{result} {plan.prefix}_{name}({', '.join(['void *'] * count)});")
        self._library = self._ffi.dlopen(str(library))
        self._kept = self._memory()
        self.reset()

    def reset(self) -> None:
        """Makes the states initial that calls keep for the next ones; of networks that keep nothing it does nothing."""
        if self._plan.states:
            self._kept = self._memory()
            self._invoke("reset", self._kept[0 if self._plan.state else -1])

    def get_inputs(self) -> list[NodeArg]:
        """The inputs, in the model's order."""
        return _described(self._plan.inputs)

    def get_outputs(self) -> list[NodeArg]:
        """The outputs, in the model's order."""
        return _described(self._plan.outputs)

    def run(self, output_names: str | Sequence[str] | None, feeds: Mapping[str, Array]) -> list[Array]:
        """The outputs named (one name or several, all if None or empty) for inputs by name, shaped as in C.

        A network that keeps states goes on with those of the call before, or of ``reset``.
        Raises ValueError for unknown names and for arrays of another type or shape, and OrionPanic if the function
        returns that Orion panics on these inputs.
        """
        output_names = [output_names] if isinstance(output_names, str) else output_names
        known = [port.tensor.name for port in self._plan.outputs]
        unknown = [name for name in output_names or () if name not in known]
        unknown += [name for name in feeds if name not in {port.tensor.name for port in self._plan.inputs}]
        if unknown:
            raise ValueError(f"no tensor of this model is called {', '.join(unknown)}")
        memory = self._kept if self._plan.states else self._memory()
        outputs = self._computed(self._plan.inputs, self._plan.outputs, feeds, memory)
        return [outputs[name] for name in (output_names or known)]

    def run_from(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """All that a call gives, states that it leaves among it, for inputs and the states that it finds, by name."""
        return self._computed(self._plan.before, self._plan.after, feeds, self._memory())

    def _computed(
        self, before: Sequence[Port], after: Sequence[Port], feeds: Mapping[str, Array], memory: Sequence[Array]
    ) -> dict[str, Array]:
        inputs = [self._input(port.tensor.name, port.tensor.dtype.numpy, port.shape, feeds) for port in before]
        outputs = [_garbage(port.shape, port.tensor.dtype.numpy) for port in after]
        self._call([*zip(before, inputs, strict=True), *zip(after, outputs, strict=True)], memory)
        return {port.tensor.name: array for port, array in zip(after, outputs, strict=True)}

    def lacks_an_instruction(self) -> bool:
        """Whether a call ends at an instruction that this processor does not have; a process of its own tries it."""
        if not hasattr(os, "fork"):
            return False
        child = os.fork()
        if child == 0:
            try:
                ports = [(port, np.zeros(port.shape, port.tensor.dtype.numpy)) for port in self._plan.before]
                ports += [(port, _garbage(port.shape, port.tensor.dtype.numpy)) for port in self._plan.outputs]
                self._call(ports, self._memory())
            finally:
                os._exit(0)
        status = os.waitpid(child, 0)[1]
        return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGILL

    def _memory(self) -> list[Array]:
        """Memory beside the arena, and an arena, full of what a firmware may find there."""
        states = [_garbage(port.shape, port.tensor.dtype.numpy).view(np.uint8) for port in self._plan.lent]
        arena = _garbage((self._plan.arena_bytes + self._plan.arena_align,), np.dtype(np.uint8))
        return [*states, arena[-arena.ctypes.data % self._plan.arena_align :]]

    def _call(self, ports: Sequence[tuple[Port, Array]], memory: Sequence[Array]) -> None:
        """Calls the C function; copies into memory and out of it what lies there."""
        kept, arena = [port for state in self._plan.states for port in (state.before, state.after)], memory[-1]
        parts = [
            ((memory[0] if port in kept and self._plan.state else arena)[port.offset :][: port.bytes], port, array)
            for port, array in ports
            if port.offset is not None
        ]
        for part, port, array in parts:
            if port.direction == "input":
                part[:] = np.frombuffer(array.tobytes(), np.uint8)
        arguments = [array for port, array in ports if port in self._plan.arguments]
        if self._plan.pushed is None:
            self._invoke("run", *arguments, *memory)
        else:
            self._invoke("begin", arena)
            for row in np.split(np.frombuffer(ports[0][1].tobytes(), np.uint8), self._plan.pushed.rows or 1):
                self._invoke("push_row", arena, row)
            self._invoke("end", arena, *arguments)
        for part, port, array in parts:
            if port.direction == "output":
                array[...] = part.view(array.dtype).reshape(array.shape)

    def _invoke(self, name: str, *arrays: Array) -> None:
        """Calls NAME_``name`` with pointers to these arrays."""
        function = getattr(self._library, f"{self._plan.prefix}_{name}")
        if function(*(self._ffi.cast("void *", array.ctypes.data) for array in arrays)):
            raise OrionPanic(f"{self._plan.prefix}_{name} returned 1: Orion panics on these inputs")

    @staticmethod
    def _input(name: str, dtype: np.dtype[np.generic], shape: tuple[int, ...], feeds: Mapping[str, Array]) -> Array:
        if name not in feeds:
            raise ValueError(f"input {name} is missing")
        array = np.asarray(feeds[name])
        if array.dtype != dtype or array.shape != shape:
            raise ValueError(f"input {name} must be {dtype} {list(shape)}, not {array.dtype} {list(array.shape)}")
        return np.require(array, requirements=("C", "ALIGNED"))


def _described(ports: Sequence[Port]) -> list[NodeArg]:
    return [NodeArg(port.tensor.name, f"tensor({port.tensor.dtype.value})", list(port.shape)) for port in ports]


def _garbage(shape: Sequence[int], dtype: np.dtype[np.generic]) -> Array:
    """Memory as a firmware may find it: zeros would hide what is read before it is written, and never written."""
    found = np.empty(shape, dtype)
    found.reshape(-1).view(np.uint8)[:] = GARBAGE
    return found
