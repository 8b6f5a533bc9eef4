"""Tensor data that a model keeps in files beside it, read without leaving the model's folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


class UnreadableError(Exception):
    """External data cannot be read; the arguments are what is wrong, what to do, and the file that is to blame."""

    def __init__(self, what: str, hint: str, location: str) -> None:
        super().__init__(what, hint)
        self.what, self.hint, self.location = what, hint, location


def external_bytes(entries: Mapping[str, str], folder: Path | None) -> bytes:
    """The bytes that a tensor's external_data entries (location, offset, length) point to, in the model's ``folder``.

    Raises UnreadableError for files that are absent, too short or, symbolic links resolved, outside the folder.
    """
    location = entries.get("location", "")
    if folder is None:
        raise UnreadableError(
            f"its data is in the file {location!r}, but a model given as bytes or protobuf has no folder",
            "give the path of the model, or store the data inside the model",
            location,
        )
    try:
        offset, length = int(entries.get("offset", "0")), int(entries.get("length", "-1"))
        root = folder.resolve()
        path = (root / location).resolve()
        if not location or Path(location).is_absolute() or not path.is_relative_to(root):
            raise UnreadableError(
                f"its data is in the file {location!r}, which is outside the model's folder",
                "put the data beside the model and name it by a relative path",
                location,
            )
        if not path.is_file():
            what = f"its data is in the file {location!r}, which does not exist"
            raise UnreadableError(what, "put that file beside the model", location)
        return _read(path, location, offset, length)
    except (OSError, ValueError, RuntimeError) as error:
        what = f"its data in the file {location!r} cannot be read: {error}"
        raise UnreadableError(what, "export the model again", location) from None


def _read(path: Path, location: str, offset: int, length: int) -> bytes:
    size = path.stat().st_size
    end = size if length < 0 else offset + length
    if not 0 <= offset <= end <= size:
        what = f"its data is bytes {offset} to {end} of the file {location!r}, which has {size}"
        raise UnreadableError(what, "export the model again, or download the whole file", location)
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(end - offset)
