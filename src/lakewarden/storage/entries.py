"""What lies directly in one directory of a store: all of it, or an error."""

from __future__ import annotations

from typing import Any

import obstore
from obstore.exceptions import BaseError

from lakewarden.model.errors import StoreUnavailableError
from lakewarden.model.ports import Directory, Stat
from lakewarden.storage.objects import ObjectStore
from lakewarden.storage.posix import LocalDisk
from lakewarden.storage.store import MARKER, Store, bad_name, shown, unavailable


def entries_of(store: Store, prefix_key: str) -> Directory:
    """Objects and directories directly below, names bare and sorted; empty if the directory is not there.

    A name that cannot be carried, or that leads elsewhere (a link), raises StoreUnavailableError: a directory of which
    a part is unknown is unknown, and whoever reads a table from it would miss what the part protects.
    """
    where = f"{store.scheme}://{store.bucket}/{prefix_key}"
    try:
        if isinstance(store, LocalDisk):
            return store.entries(prefix_key)
        rows = [row for batch in store.list(prefix_key, direct=True) for row in batch.to_pylist()]
        below = {_directory_name(key, where) for key in _children(store, prefix_key)}
    except FileNotFoundError as error:
        if not store.exists_root():
            raise StoreUnavailableError(f"the bucket or mount of {where} is not there") from error
        return Directory((), ())
    except OSError as error:
        raise unavailable(error, f"listing {where}") from error
    files = [_stat(row) for row in rows]
    return Directory(
        # An object store may keep an empty object under a directory's own name.
        tuple(sorted((file for file in files if file.key not in below), key=lambda file: file.key)),
        tuple(sorted(below)),
    )


def _stat(row: dict[str, Any]) -> Stat:
    # An empty object is flagged as a possible marker in deep listings; here it is what it is: an empty file.
    if row["flag"] not in (None, MARKER):
        raise StoreUnavailableError(f"{row['key']} cannot be listed for what it is ({row['flag']})")
    return Stat(row["key"].rpartition("/")[2], row["size"], row["modified"], row["etag"])


def _directory_name(key: str, where: str) -> str:
    name = key.removesuffix("/").rpartition("/")[2]
    if not name or bad_name(name) is not None:
        raise StoreUnavailableError(f"a directory in {where} cannot be listed ({shown(key)})")
    return name


def _children(store: Store, prefix_key: str) -> list[str]:
    keys, cut = store.children(prefix_key)
    if not cut or not isinstance(store, ObjectStore):
        return keys
    # Only so many pages are asked for where an estimate will do. A cut answer here would hide whole tables.
    try:
        answer = obstore.list_with_delimiter(store.client, prefix_key.strip("/") or None)
    except (BaseError, ValueError) as error:
        raise unavailable(error, f"listing {store.scheme}://{store.bucket}/{prefix_key}") from error
    return list(answer["common_prefixes"])
