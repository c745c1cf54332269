"""How long files are now: what was once read of a file counts only while the file stands as long as it was."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence

from lakewarden.model.errors import StoreUnavailableError
from lakewarden.storage.copying import sizes_at
from lakewarden.storage.stores import Stores

LOCAL = "file://"


def lengths_at(stores: Stores, uris: Sequence[str]) -> list[int | None]:
    """The length of the file at each canonical address; None where no file is. Raises StoreUnavailableError."""
    if all(uri.startswith(f"{LOCAL}/") for uri in uris):
        # A nightly plan asks for every list and manifest of the fleet: more than a look each would show.
        return [_length(uri[len(LOCAL) :]) for uri in uris]
    return sizes_at(stores, uris)


def _length(path: str) -> int | None:
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StoreUnavailableError(f"{path} cannot be looked at ({error.strerror or error})") from error
    return None if stat.S_ISDIR(found.st_mode) else found.st_size
