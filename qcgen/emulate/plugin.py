"""The QEMU plugin that counts: built from its source, once in a process."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

from qcgen.build import host_compiler
from qcgen.cross import lasting_folder, qemu_major, succeed
from qcgen.render import templates

SOURCE = "count_blocks.c"


@cache
def plugin(emulator: str) -> Path:
    """The plugin for this emulator, in a folder that is removed when the process ends.

    ToolMissing without a C compiler for the host.
    """
    interface = 2 if qemu_major(emulator) >= 9 else 1
    command = [*host_compiler(), "-O2", "-shared", "-fPIC", f"-DQEMU_PLUGIN_VERSION={interface}"]
    command += ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else []
    # Nothing is kept from run to run: building takes less than half a second, and what lies there need not be trusted.
    folder = lasting_folder()
    built = folder / "count_blocks.so"
    succeed([*command, str(templates() / "emulate" / SOURCE), "-o", built.name], folder)
    return built
