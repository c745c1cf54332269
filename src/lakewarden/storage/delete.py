"""THE ONE DOOR: the only function that removes bytes, and only with a permit.

A permit names the plan, the run, the roots and the exact files of one batch, carries the lease's check
and the moment of the last validation. Everything is checked again here, because a mistake above this
line must end in a refusal, not in a lost file.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import InitVar, dataclass, field
from typing import Any, NoReturn

from lakewarden.model.clock import Clock
from lakewarden.model.errors import LakewardenError, MissingStoreError, StaleValidationError
from lakewarden.model.ports import FileOutcome, JournalFile
from lakewarden.model.uri import FileUri, within
from lakewarden.model.verdict import Outcome
from lakewarden.storage.compare import differs
from lakewarden.storage.directories import directory_tag
from lakewarden.storage.objects import ObjectStore
from lakewarden.storage.posix import LocalDisk
from lakewarden.storage.present import look
from lakewarden.storage.rooted import OpenDirectories
from lakewarden.storage.store import unavailable, unsafe_key
from lakewarden.storage.stores import Stores

MAX_VALIDATION_AGE = 30.0
MAX_KEYS_A_CALL = 1000
_LOCAL_CHUNK = 1000  # measured: more threads only fight for the interpreter on a local disk
_TOKEN = object()


@dataclass(frozen=True, slots=True)
class DeletePermit:
    """Leave to delete these files, now. Only `grant` can make one."""

    plan_id: str
    run_id: str
    roots: tuple[str, ...]
    uris: frozenset[str] = field(repr=False)
    validated_at: float
    check_lease: Callable[[], None] = field(repr=False)
    token: InitVar[object]

    def __post_init__(self, token: object) -> None:
        if token is not _TOKEN:
            raise TypeError("a DeletePermit is made by grant() alone")


def grant(
    *,
    plan_id: str,
    run_id: str,
    roots: Iterable[str],
    uris: Iterable[str],
    validated_at: float,
    check_lease: Callable[[], None],
) -> DeletePermit:
    """A permit for one batch. `validated_at` is `clock.boot()` as read *before* the validation began."""
    prefixes = tuple(FileUri.parse(root).as_prefix() for root in roots)
    tops = [prefix for prefix in prefixes if not FileUri.parse(prefix).key]
    if not plan_id or not run_id or not prefixes or tops:
        raise ValueError(f"a permit needs a plan, a run and roots below a bucket's or disk's top (got {prefixes})")
    return DeletePermit(plan_id, run_id, prefixes, frozenset(uris), validated_at, check_lease, token=_TOKEN)


def delete(
    permit: DeletePermit, stores: Stores, files: Sequence[JournalFile], clock: Clock, *, concurrency: int = 10
) -> list[FileOutcome]:
    """Remove the files of one batch that are still what the plan listed; one outcome each, in order.

    Raises before anything is touched if the permit does not cover every file, is stale, its lease is
    lost, or a store is gone. After that every failure is that file's outcome.
    """
    _still_valid(permit, clock)
    by_store: dict[int, tuple[Any, list[int]]] = {}
    directories: dict[str, Any] = {}
    for i, file in enumerate(files):
        # A directory of a local disk ends in a slash: it goes only if it is empty. Elsewhere the name is refused.
        directory, _, name = file.uri.removesuffix("/" if file.uri.startswith("file://") else "").rpartition("/")
        if directory not in directories:
            _covered_directory(permit, file.uri, f"{directory}/")
            directories[directory] = stores.at(file.uri)
        _covered(permit, file.uri, name)
        store = directories[directory]
        by_store.setdefault(id(store), (store, []))[1].append(i)
    for store, _places in by_store.values():
        if not store.exists_root():
            raise MissingStoreError(f"{store!r} is not there; nothing of this batch was deleted")
    for root in permit.roots:
        used = root.startswith("file://") and any(within(file.uri, root) for file in files)
        # An unmounted disk leaves an empty directory above: every file would look absent.
        if used and not os.path.isdir(root.removeprefix("file://")):
            raise MissingStoreError(f"the root {root} is not there; nothing of this batch was deleted")
    outcomes: list[FileOutcome | None] = [None] * len(files)
    for store, places in by_store.values():
        remove = _local(permit, store) if isinstance(store, LocalDisk) else _remote(store)
        chunks = _chunks(places, concurrency, isinstance(store, LocalDisk))

        def work(chunk: list[int], remove: _Remove = remove) -> list[FileOutcome]:
            part = [files[i] for i in chunk]
            try:
                # Again for every request: a batch that waits behind a slow store must not outlive its lease.
                _still_valid(permit, clock)
                return remove(part)
            except LakewardenError as error:
                return [_failed(file, error.code, error.message) for file in part]

        with ThreadPoolExecutor(max(1, min(concurrency, len(chunks)))) as pool:
            for chunk, results in zip(chunks, pool.map(work, chunks), strict=True):
                for i, result in zip(chunk, results, strict=True):
                    outcomes[i] = result
    return [outcome for outcome in outcomes if outcome is not None]


_Remove = Callable[[Sequence[JournalFile]], list[FileOutcome]]


def _still_valid(permit: DeletePermit, clock: Clock) -> None:
    age = clock.boot() - permit.validated_at
    if not 0 <= age <= MAX_VALIDATION_AGE:
        raise StaleValidationError(
            f"the batch of run {permit.run_id} was validated {age:.0f} s ago (limit {MAX_VALIDATION_AGE:.0f} s); "
            "it was not deleted"
        )
    permit.check_lease()


def _covered_directory(permit: DeletePermit, uri: str, directory: str) -> None:
    """A file outside the permit is a fault of the caller: the whole batch is refused, loudly."""
    place = FileUri.parse(directory)
    if str(place) != directory or unsafe_key(place.key.removesuffix("/")) is not None:
        _refuse(permit, uri, "not a canonical address")
    if not any(within(directory, root) for root in permit.roots):
        _refuse(permit, uri, "outside the roots of this plan")


def _covered(permit: DeletePermit, uri: str, name: str) -> None:
    if uri not in permit.uris:
        _refuse(permit, uri, "not a file of this batch")
    reason = unsafe_key(name)
    if reason is not None:
        _refuse(permit, uri, reason)


def _refuse(permit: DeletePermit, uri: str, reason: str) -> NoReturn:
    raise PermissionError(f"{uri!r} may not be deleted under plan {permit.plan_id}: {reason}; nothing was deleted")


def _chunks(places: list[int], concurrency: int, local: bool) -> list[list[int]]:
    if local:
        size = max(_LOCAL_CHUNK, -(-len(places) // max(1, concurrency)))
    else:
        size = min(MAX_KEYS_A_CALL, max(50, -(-len(places) // max(1, concurrency))))
    return [places[i : i + size] for i in range(0, len(places), size)]


def _failed(file: JournalFile, code: str, message: str) -> FileOutcome:
    return FileOutcome(file.uri, Outcome.FAILED, code, message)


def _local(permit: DeletePermit, disk: LocalDisk) -> _Remove:
    """Unlink relative to directories opened link by link, so that a swapped symlink is never followed."""

    def remove(files: Sequence[JournalFile]) -> list[FileOutcome]:
        results: list[FileOutcome] = []
        with OpenDirectories(permit.roots) as directories:
            for file in files:
                try:
                    if file.uri.endswith("/"):
                        results.append(_remove_directory(directories, file))
                        continue
                    directory, name = directories.of(file.uri)
                    found = os.stat(name, dir_fd=directory, follow_symlinks=False)
                    if differs(file, found):
                        results.append(FileOutcome(file.uri, Outcome.CHANGED))
                        continue
                    os.unlink(name, dir_fd=directory)
                    results.append(FileOutcome(file.uri, Outcome.DELETED))
                except FileNotFoundError:
                    results.append(FileOutcome(file.uri, Outcome.ABSENT))
                except OSError as error:
                    results.append(_failed(file, f"errno-{error.errno}", str(error.strerror or error)))
        return results

    return remove


def _remove_directory(directories: OpenDirectories, file: JournalFile) -> FileOutcome:
    """Remove a directory that is still the listed one. The kernel refuses one that is not empty."""
    directory, name = directories.of(file.uri.removesuffix("/"))
    if directory_tag(os.stat(name, dir_fd=directory, follow_symlinks=False)) != file.etag:
        return FileOutcome(file.uri, Outcome.CHANGED)
    try:
        os.rmdir(name, dir_fd=directory)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            return FileOutcome(file.uri, Outcome.CHANGED, None, "it is not an empty directory any more")
        raise
    return FileOutcome(file.uri, Outcome.DELETED)


def _remote(store: ObjectStore) -> _Remove:
    """Look first (a store answers success for a missing key), then delete what is unchanged."""
    hides = store.s3.versioning() if store.s3 is not None else False

    def remove(files: Sequence[JournalFile]) -> list[FileOutcome]:
        results: dict[str, FileOutcome] = {}
        ready: list[tuple[JournalFile, str | None]] = []
        for file, found in zip(files, look(store, [FileUri.parse(f.uri).key for f in files]), strict=True):
            if isinstance(found, Exception):
                results[file.uri] = _failed(file, getattr(found, "code", "LW-STORE-001"), str(found))
            elif found is None:
                results[file.uri] = FileOutcome(file.uri, Outcome.ABSENT)
            elif differs(file, found):
                results[file.uri] = FileOutcome(file.uri, Outcome.CHANGED)
            else:
                ready.append((file, found.etag))
        if ready:
            results |= _bulk_s3(store, ready, hides) if store.s3 is not None else _bulk_obstore(store, ready)
        return [results[file.uri] for file in files]

    return remove


def _bulk_s3(
    store: ObjectStore, ready: list[tuple[JournalFile, str | None]], hides: bool | None
) -> dict[str, FileOutcome]:
    """One DeleteObjects call, each key with the tag it must still have; every error is one key's own."""
    assert store.s3 is not None
    keyed = {FileUri.parse(file.uri).key: file for file, _ in ready}
    objects = [{"Key": FileUri.parse(file.uri).key, **({"ETag": etag} if etag else {})} for file, etag in ready]
    gone = Outcome.HIDDEN if hides else Outcome.DELETED
    try:
        # A full answer is slow to read; it is needed only where we may not ask whether deletes hide.
        answer = store.s3.client.delete_objects(
            Bucket=store.bucket, Delete={"Objects": objects, "Quiet": hides is not None}
        )
    except Exception as error:
        return _after_failure(store, keyed, gone, error)
    results = {file.uri: FileOutcome(file.uri, gone) for file in keyed.values()}
    for item in answer.get("Deleted", ()):
        if item.get("DeleteMarker"):
            results[keyed[item["Key"]].uri] = FileOutcome(keyed[item["Key"]].uri, Outcome.HIDDEN)
    for item in answer.get("Errors", ()):
        file = keyed[item["Key"]]
        code = str(item.get("Code", "Unknown"))
        if code in ("PreconditionFailed", "ConditionalRequestConflict"):
            results[file.uri] = FileOutcome(file.uri, Outcome.CHANGED, code, item.get("Message"))
        elif code in ("NoSuchKey", "NotFound"):
            results[file.uri] = FileOutcome(file.uri, Outcome.ABSENT)
        else:
            results[file.uri] = _failed(file, code, str(item.get("Message", "")))
    return results


def _bulk_obstore(store: ObjectStore, ready: list[tuple[JournalFile, str | None]]) -> dict[str, FileOutcome]:
    """obstore reports only its first failure, so what is left is looked for afterwards."""
    import obstore

    keyed = {FileUri.parse(file.uri).key: file for file, _ in ready}
    failure: Exception = RuntimeError("the store kept the object without an error")
    try:
        obstore.delete(store.client, list(keyed))
    except Exception as error:
        failure = error
    return _after_failure(store, keyed, Outcome.DELETED, failure)


def _after_failure(
    store: ObjectStore, keyed: dict[str, JournalFile], gone: Outcome, failure: Exception
) -> dict[str, FileOutcome]:
    """What a call without a full answer did: the files that are not there any more went with it."""
    message = unavailable(failure, "the delete").message
    results: dict[str, FileOutcome] = {}
    for (_key, file), found in zip(keyed.items(), store.head_many(list(keyed)), strict=True):
        left = found is not None
        results[file.uri] = _failed(file, "LW-STORE-001", message) if left else FileOutcome(file.uri, gone)
    return results
