"""Files written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from errno import EISDIR
from pathlib import Path


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Writes all files beside their destinations, then moves them into place; OSError leaves nothing half-done."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in files:
        if (folder / name).is_dir():
            raise IsADirectoryError(EISDIR, "a folder has the name of a file to be written", name)
    staged: list[tuple[str, Path]] = []
    try:
        for name, text in files.items():
            handle, temporary = tempfile.mkstemp(dir=folder, prefix=f".{name}.")
            staged.append((temporary, folder / name))
            with os.fdopen(handle, "w", encoding="ascii", newline="\n") as file:
                file.write(text)
            os.chmod(temporary, 0o644)
        for temporary, destination in staged:
            os.replace(temporary, destination)
    except BaseException:  # an interruption must not leave anything either
        for temporary, _ in staged:
            Path(temporary).unlink(missing_ok=True)
        raise
