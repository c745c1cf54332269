"""Trash before removal: copy and verify, so that the door may delete; restore until purged."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from lakewarden.model.clock import Clock
from lakewarden.model.errors import LakewardenError, StoreUnavailableError
from lakewarden.model.ports import FileOutcome, JournalFile, Shard, Stat
from lakewarden.model.uri import FileUri
from lakewarden.model.verdict import Outcome
from lakewarden.storage.compare import differs, same_tag
from lakewarden.storage.delete import delete, grant
from lakewarden.storage.listing import list_shard
from lakewarden.storage.store import Store
from lakewarden.storage.stores import Stores

SMALL = 8 << 20
WHOLE = 256 << 20
PURGE_BATCH = 1000
_NO_BUCKET = "_"
_MD5 = re.compile(r'^"?[0-9a-f]{32}"?$')


def trash_address(trash: str, run_id: str, uri: str) -> str:
    """Where a file of a run lies in the trash: `<trash>/<run_id>/<scheme>/<bucket>/<key>`."""
    place = FileUri.parse(uri)
    return f"{FileUri.parse(trash).as_prefix()}{run_id}/{place.scheme}/{place.bucket or _NO_BUCKET}/{place.key}"


def copy_to_trash(
    stores: Stores, trash: str, run_id: str, files: Sequence[JournalFile], *, concurrency: int = 10
) -> list[FileOutcome]:
    """Copy and verify each file that is still the listed one: `kept` means the copy is good and the original is there.

    Safe to repeat. Large batches call it before they validate, so that copying does not age the validation.
    """

    def one(file: JournalFile) -> FileOutcome:
        try:
            return _copy_one(stores, file, trash_address(trash, run_id, file.uri))
        except FileNotFoundError:
            return FileOutcome(file.uri, Outcome.ABSENT)
        except LakewardenError as error:
            return FileOutcome(file.uri, Outcome.FAILED, error.code, error.message)

    with ThreadPoolExecutor(max(1, concurrency)) as pool:
        return list(pool.map(one, files))


def restore(stores: Stores, trash: str, run_id: str, files: Sequence[str]) -> list[FileOutcome]:
    """Bring files (original addresses) back, create-only: `kept` is restored, `changed` means the place is taken."""

    def one(uri: str) -> FileOutcome:
        try:
            return _restore_one(stores, trash_address(trash, run_id, uri), uri)
        except FileNotFoundError:
            return FileOutcome(uri, Outcome.ABSENT, "LW-RESTORE-001", "not in the trash of this run")
        except LakewardenError as error:
            return FileOutcome(uri, Outcome.FAILED, error.code, error.message)

    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(one, files))


def purge(
    stores: Stores, trash: str, run_id: str, clock: Clock, *, check_lease: Callable[[], None], concurrency: int = 10
) -> Iterator[list[FileOutcome]]:
    """Delete one run's trash through the door, batch by batch. Only names inside that run's trash can be reached."""
    if not re.fullmatch(r"[A-Za-z0-9._-]+", run_id) or run_id.strip(".") == "":
        raise ValueError(f"not a run: {run_id!r}")
    root = f"{FileUri.parse(trash).as_prefix()}{run_id}/"
    for listed in list_shard(stores, Shard(0, root)):
        rows = [row for row in listed.to_pylist() if row["flag"] is None or row["flag"] == "marker"]
        for start in range(0, len(rows), PURGE_BATCH):
            files = [
                JournalFile(row["key"], row["size"], row["modified"], row["etag"], "", "trash")
                for row in rows[start : start + PURGE_BATCH]
            ]
            permit = grant(
                plan_id=f"purge-{run_id}",
                run_id=run_id,
                roots=[root],
                uris=(file.uri for file in files),
                validated_at=clock.boot(),
                check_lease=check_lease,
            )
            yield delete(permit, stores, files, clock, concurrency=concurrency)


def _copy_one(stores: Stores, file: JournalFile, target: str) -> FileOutcome:
    source, src_key = stores.at(file.uri), FileUri.parse(file.uri).key
    trash, dst_key = stores.at(target), FileUri.parse(target).key
    found = source.head(src_key)
    if found is None:
        return FileOutcome(file.uri, Outcome.ABSENT)
    if differs(file, found):
        return FileOutcome(file.uri, Outcome.CHANGED)
    _transfer(source, src_key, trash, dst_key)
    _verify(source, found, trash, dst_key)
    return FileOutcome(file.uri, Outcome.KEPT)


def _restore_one(stores: Stores, kept: str, uri: str) -> FileOutcome:
    trash, src_key = stores.at(kept), FileUri.parse(kept).key
    target, dst_key = stores.at(uri), FileUri.parse(uri).key
    found = trash.head(src_key)
    if found is None:
        raise FileNotFoundError(kept)
    if found.size <= WHOLE:
        if target.create(dst_key, trash.get(src_key)):
            return FileOutcome(uri, Outcome.KEPT)
        return FileOutcome(uri, Outcome.CHANGED, "LW-RESTORE-001", "another file is there; it was left alone")
    # Too large for one create-only write: look, then copy. The name was a deleted file's, so nobody reuses it.
    if target.head(dst_key) is not None:
        return FileOutcome(uri, Outcome.CHANGED, "LW-RESTORE-001", "another file is there; it was left alone")
    _transfer(trash, src_key, target, dst_key)
    _verify(trash, found, target, dst_key)
    return FileOutcome(uri, Outcome.KEPT)


def _transfer(source: Store, src_key: str, target: Store, dst_key: str) -> None:
    if source is target:
        source.copy(src_key, dst_key)
    else:
        target.put_stream(dst_key, source.stream(src_key))


def _verify(source: Store, original: Stat, target: Store, dst_key: str) -> None:
    """The copy has the size, and the same bytes as far as a tag or a digest can say it."""
    copy = target.head(dst_key)
    if copy is None or copy.size != original.size:
        raise StoreUnavailableError(f"the copy of {original.key} has a wrong size; the original was left alone")
    tags = (original.etag or "", copy.etag or "")
    if all(_MD5.match(tag) for tag in tags):
        if same_tag(*tags):
            return
    elif original.size > SMALL:
        return
    if _digest(source, original.key) != _digest(target, dst_key):
        raise StoreUnavailableError(f"the copy of {original.key} has other bytes; the original was left alone")


def _digest(store: Store, key: str) -> bytes:
    digest = hashlib.sha256()
    for piece in store.stream(key):
        digest.update(piece)
    return digest.digest()
