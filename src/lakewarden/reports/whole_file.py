"""A file of this machine that is written whole or not at all: whoever reads the old one never reads half of the new one."""

from __future__ import annotations

from pathlib import Path

from lakewarden.model.errors import UsageError
from lakewarden.storage.scratch import drop_temporary, temporary_name


def check_writable(path: Path, what: str, example: str) -> None:
    """Raise UsageError for a place that no file can be written to, as far as that can be seen. `what` was to go there."""
    if path.is_dir():
        raise UsageError(f"{path} is a directory; no {what} written", hint=f"Name a file, such as {example}.")
    if not path.absolute().parent.is_dir():
        raise UsageError(
            f"{path}: the directory {path.absolute().parent} is not there; no {what} written",
            hint="Make the directory, or name another one.",
        )


def write_whole(path: Path, data: bytes, what: str) -> None:
    """Replace a file at once. Raises UsageError if it cannot be written."""
    beside = path.with_name(temporary_name())
    try:
        beside.write_bytes(data)
        beside.replace(path)
    except OSError as error:
        drop_temporary(str(beside))
        raise UsageError(f"{path} cannot be written ({error.strerror or error}); no {what} written") from error
