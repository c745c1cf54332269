"""Which metadata files lie in one directory: where the newest is to be found of a table that no catalog lists."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from lakewarden.model.ports import Files

METADATA = re.compile(r"\.metadata\.json(\.gz)?$")
# A directory that tables share has metadata of all of them: beyond so many, the newest of one is not looked for.
MOST = 20
_NEVER = datetime.min.replace(tzinfo=UTC)


def newest_beside(files: Files, location: str) -> Sequence[str]:
    """The metadata files in the directory of one, newest first. Raises StoreUnavailableError."""
    directory = location.rpartition("/")[0] + "/"
    found = [file for file in files.entries(directory).files if METADATA.search(file.key)]
    newest = sorted(found, key=lambda file: (file.modified or _NEVER, file.key), reverse=True)
    return [directory + file.key for file in newest[:MOST]]
