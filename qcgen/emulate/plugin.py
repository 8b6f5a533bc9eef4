"""The QEMU plugin that counts: built from its source at first use, kept in the user's cache."""

from __future__ import annotations

import hashlib
import os
import sys
from functools import cache
from pathlib import Path

from qcgen.build import host_compiler
from qcgen.emulate.tools import cache_folder, folder_beside, qemu_major, succeed
from qcgen.render import templates

SOURCE = "count_blocks.c"
HEADER = "flash_model.h"


@cache
def plugin(emulator: str) -> Path:
    """The plugin for this emulator; ToolMissing without a C compiler for the host.

    Its name holds a hash of sources and command. It is built aside and renamed, so that processes that build it at the
    same time do not disturb each other.
    """
    source = templates() / "emulate" / SOURCE
    interface = 2 if qemu_major(emulator) >= 9 else 1
    command = [*host_compiler(), "-O2", "-shared", "-fPIC", f"-DQEMU_PLUGIN_VERSION={interface}"]
    command += ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else []
    key = hashlib.sha256(
        repr(command).encode() + source.read_bytes() + (source.parent / HEADER).read_bytes()
    ).hexdigest()[:16]
    folder = cache_folder()
    built = folder / f"count_blocks-{key}.so"
    if not built.exists():
        with folder_beside(folder) as aside:
            succeed([*command, str(source), "-o", "new.so"], Path(aside))
            os.replace(Path(aside, "new.so"), built)
    return built
