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
    found = places_of(store, prefix_key)
    if found.odd:
        where = f"{store.scheme}://{store.bucket}/{prefix_key}"
        raise StoreUnavailableError(f"a name in {where} cannot be listed for what it is ({', '.join(found.odd[:3])})")
    return found


def places_of(store: Store, prefix_key: str) -> Directory:
    """The same, with the names told apart that cannot be carried or lead elsewhere."""
    where = f"{store.scheme}://{store.bucket}/{prefix_key}"
    try:
        if isinstance(store, LocalDisk):
            return store.entries(prefix_key)
        rows = [row for batch in store.list(prefix_key, direct=True) for row in batch.to_pylist()]
        below = {key.removesuffix("/").rpartition("/")[2]: key for key in _children(store, prefix_key)}
    except FileNotFoundError as error:
        if not store.exists_root():
            raise StoreUnavailableError(f"the bucket or mount of {where} is not there") from error
        return Directory((), ())
    except OSError as error:
        raise unavailable(error, f"listing {where}") from error
    plain = {name for name in below if name and bad_name(name) is None}
    # An empty object is flagged as a possible marker in deep listings; here it is what it is: an empty file.
    files = [_stat(row) for row in rows if row["flag"] in (None, MARKER)]
    odd = [shown(name or key) for name, key in below.items() if name not in plain]
    odd += [row["key"].rpartition("/")[2] for row in rows if row["flag"] not in (None, MARKER)]
    return Directory(
        # An object store may keep an empty object under a directory's own name.
        tuple(sorted((file for file in files if file.key not in plain), key=lambda file: file.key)),
        tuple(sorted(plain)),
        tuple(sorted(odd)),
    )


def _stat(row: dict[str, Any]) -> Stat:
    return Stat(row["key"].rpartition("/")[2], row["size"], row["modified"], row["etag"])


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
