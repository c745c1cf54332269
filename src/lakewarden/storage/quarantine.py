"""Trash before removal: copy and verify, so that the door may delete; restore until purged."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from lakewarden.model.clock import Clock
from lakewarden.model.errors import ChangedTrashError, LakewardenError, StoreUnavailableError
from lakewarden.model.ports import FileOutcome, JournalFile, Shard
from lakewarden.model.uri import FileUri
from lakewarden.model.verdict import Outcome
from lakewarden.storage.compare import differs
from lakewarden.storage.copying import copy_verified, digest_at, holds, same_bytes
from lakewarden.storage.delete import delete, grant
from lakewarden.storage.listing import list_shard
from lakewarden.storage.store import MARKER
from lakewarden.storage.stores import Stores

WHOLE = 256 << 20
PURGE_BATCH = 1000
_NO_BUCKET = "_"
back_already = partial(FileOutcome, outcome=Outcome.CHANGED, message="it is back already")


def trash_address(trash: str, run_id: str, uri: str) -> str:
    """Where a file of a run lies in the trash: `<trash>/<run_id>/<scheme>/<bucket>/<key>`."""
    place = FileUri.parse(uri)
    return f"{FileUri.parse(trash).as_prefix()}{run_id}/{place.scheme}/{place.bucket or _NO_BUCKET}/{place.key}"


def copy_to_trash(
    stores: Stores, trash: str, run_id: str, files: Sequence[JournalFile], *, concurrency: int = 10
) -> list[FileOutcome]:
    """Copy and verify each file that is still the listed one: `kept` means the copy is good and the original is there,
    and its message is the digest of the bytes.

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


def digest_in_trash(stores: Stores, trash: str, run_id: str, uri: str) -> str | None:
    """The digest of what lies in the trash of a run for a file; None if nothing does."""
    kept = trash_address(trash, run_id, uri)
    try:
        return digest_at(stores, kept)
    except FileNotFoundError:
        return None


def restore(
    stores: Stores, trash: str, run_id: str, files: Sequence[str], digests: Mapping[str, str | None] | None = None
) -> list[FileOutcome]:
    """Bring files (original addresses) back, create-only: `kept` is restored, `changed` means the place is taken; without
    a code, by the very file, which is back already.

    A copy that has other bytes than the digest says, which was taken when it was made, is not brought back.
    """

    def one(uri: str) -> FileOutcome:
        try:
            return _restore_one(stores, trash_address(trash, run_id, uri), uri, (digests or {}).get(uri))
        except FileNotFoundError:
            return FileOutcome(uri, Outcome.ABSENT, "LW-RESTORE-001", "not in the trash of this run")
        except LakewardenError as error:
            return FileOutcome(uri, Outcome.FAILED, error.code, error.message)

    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(one, files))


def purge(
    stores: Stores,
    trash: str,
    run_id: str,
    clock: Clock,
    *,
    check_lease: Callable[[], None],
    validate: Callable[[], float] | None = None,
    needed: Collection[str] = (),
    concurrency: int = 10,
) -> Iterator[list[FileOutcome]]:
    """Delete one run's trash through the door, batch by batch. Only names inside that run's trash can be reached.

    `validate` is called before each batch; it says when it began, and has put into `needed` what stays.
    """
    if not re.fullmatch(r"[A-Za-z0-9._-]+", run_id) or run_id.strip(".") == "":
        raise ValueError(f"not a run: {run_id!r}")
    root = f"{FileUri.parse(trash).as_prefix()}{run_id}/"
    for listed in list_shard(stores, Shard(0, root)):
        rows = listed.to_pylist()
        # A place that cannot be listed whole is not purged whole, and must not be recorded so.
        for row in rows:
            if row["flag"] not in (None, MARKER):
                raise StoreUnavailableError(f"{row['key']} in the trash cannot be purged ({row['flag']}); it was left")
        for start in range(0, len(rows), PURGE_BATCH):
            validated_at = (validate or clock.boot)()
            files = [
                JournalFile(row["key"], row["size"], row["modified"], row["etag"], "", "trash")
                for row in rows[start : start + PURGE_BATCH]
            ]
            kept = [FileOutcome(file.uri, Outcome.KEPT) for file in files if file.uri in needed]
            files = [file for file in files if file.uri not in needed]
            permit = grant(
                plan_id=f"purge-{run_id}",
                run_id=run_id,
                roots=[root],
                uris=(file.uri for file in files),
                validated_at=validated_at,
                check_lease=check_lease,
            )
            yield kept + delete(permit, stores, files, clock, concurrency=concurrency)


def _copy_one(stores: Stores, file: JournalFile, target: str) -> FileOutcome:
    found = stores.head(file.uri)
    if found is None:
        return FileOutcome(file.uri, Outcome.ABSENT)
    if differs(file, found):
        return FileOutcome(file.uri, Outcome.CHANGED)
    copied = copy_verified(stores, file.uri, target, file.size, _spend)
    return FileOutcome(file.uri, Outcome.KEPT, None, copied.sha256)


def _restore_one(stores: Stores, kept: str, uri: str, digest: str | None) -> FileOutcome:
    found = stores.head(kept)
    if found is None:
        raise FileNotFoundError(kept)
    taken = FileOutcome(uri, Outcome.CHANGED, "LW-RESTORE-001", "another file is there; it was left alone")
    if found.size <= WHOLE:
        data = stores.get(kept)
        if digest is not None and not same_bytes(stores, kept, data, digest):
            raise _changed(kept)
        if stores.create(uri, data):
            return FileOutcome(uri, Outcome.KEPT)
        return back_already(uri) if stores.get(uri) == data else taken
    # Too large for one create-only write: look, then copy. The name was a deleted file's, so nobody reuses it.
    if stores.head(uri) is not None:
        return back_already(uri) if digest is not None and holds(stores, uri, digest) else taken
    if digest is not None and not holds(stores, kept, digest):
        raise _changed(kept)
    copy_verified(stores, kept, uri, found.size, _spend)
    return FileOutcome(uri, Outcome.KEPT)


def _changed(kept: str) -> ChangedTrashError:
    return ChangedTrashError(f"{kept} does not have the bytes any more that were put there; it was not restored")


def _spend(_bytes: int) -> None:
    """Nothing waits: a batch in quarantine has its own pace."""
