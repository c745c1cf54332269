"""THE ONE DOOR: the only function that removes bytes, and only with a permit.

A permit names the plan, the run, the roots and the exact files of one batch, carries the lease's check
and the moment of the last validation. Everything is checked again here, because a mistake above this
line must end in a refusal, not in a lost file.
"""

from __future__ import annotations

import errno
import os
import stat
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import InitVar, dataclass, field
from functools import partial
from typing import Any, NamedTuple, NoReturn, TypeVar

from lakewarden.model.clock import Clock
from lakewarden.model.errors import LakewardenError, MissingStoreError, StaleValidationError
from lakewarden.model.files import BatchFiles
from lakewarden.model.margins import MARGINS
from lakewarden.model.ports import FileOutcome, JournalFile
from lakewarden.model.uri import FileUri, within
from lakewarden.model.verdict import Outcome
from lakewarden.storage.compare import differs
from lakewarden.storage.directories import directory_tag
from lakewarden.storage.objects import ObjectStore
from lakewarden.storage.posix import LocalDisk, etag_of
from lakewarden.storage.present import look
from lakewarden.storage.rooted import OpenDirectories
from lakewarden.storage.store import Store, unavailable, unsafe_key
from lakewarden.storage.stores import Stores

MAX_KEYS_A_CALL = 1000
_SMALLEST_CALL = 50
_LOCAL_CHUNK = 1000
_LOCAL_TRIAL = 100
# Measured: a disk that answers at once (10 µs a file) is fastest with one thread, more only fight for the interpreter;
# a mount over a network answers in its own time, and is asked from all of them.
_SLOW_ANSWER = 0.0002
_TOKEN = object()
_Check = Callable[[], None]


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
    batch = BatchFiles.of(files)
    by_store = _covered(permit, stores, batch.uris)
    for store in by_store:
        if not store.exists_root():
            raise MissingStoreError(f"{store!r} is not there; nothing of this batch was deleted")
    ordered = sorted(batch.uris)
    for root in permit.roots:
        # If any name begins with the root, then the first one that is not before it does.
        at = bisect_left(ordered, root)
        used = root.startswith("file://") and at < len(ordered) and within(ordered[at], root)
        # An unmounted disk leaves an empty directory above: every file would look absent.
        if used and not os.path.isdir(root.removeprefix("file://")):
            raise MissingStoreError(f"the root {root} is not there; nothing of this batch was deleted")
    outcomes: list[FileOutcome | None] = [None] * len(batch)
    for store, places in by_store.items():
        remove: Any = partial(_local, clock) if isinstance(store, LocalDisk) else _remote
        found = remove(permit, store, batch.take(places), partial(_still_valid, permit, clock), max(1, concurrency))
        for place, outcome in zip(places, found, strict=True):
            outcomes[place] = outcome
    return [outcome for outcome in outcomes if outcome is not None]


def _still_valid(permit: DeletePermit, clock: Clock) -> None:
    age = clock.boot() - permit.validated_at
    if not 0 <= age <= MARGINS.validation_seconds:
        raise StaleValidationError(
            f"the batch of run {permit.run_id} was validated {age:.0f} s ago (limit {MARGINS.validation_seconds:.0f} s); "
            "it was not deleted"
        )
    permit.check_lease()


def _covered(permit: DeletePermit, stores: Stores, uris: Sequence[str]) -> dict[Store, list[int]]:
    """Where each file lies, by its place in the batch.

    A file outside the permit is a fault of the caller: the whole batch is refused, loudly.
    """
    directories: dict[str, list[int]] = {}
    found: dict[Store, list[int]] = {}
    root = permit.roots[0]
    plain = "".join(uris).isprintable()
    if not permit.uris.issuperset(uris):
        _refuse(permit, next(uri for uri in uris if uri not in permit.uris), "not a file of this batch")
    for place, uri in enumerate(uris):
        # A directory of a local disk ends in a slash: it goes only if it is empty. Elsewhere the name is refused.
        directory, _, name = uri.rpartition("/")
        if not name and uri.startswith("file://"):
            directory, _, name = directory.rpartition("/")
        places = directories.get(directory)
        if places is None:
            root = _covered_directory(permit, uri, f"{directory}/", root)
            places = directories[directory] = found.setdefault(stores.at(uri), [])
        if not (plain and name.strip(".")) and (reason := unsafe_key(name)) is not None:
            _refuse(permit, uri, reason)
        places.append(place)
    return found


def _covered_directory(permit: DeletePermit, uri: str, directory: str, likely: str) -> str:
    """The root that a directory lies in. Files come root by root, so that of the one before is asked first."""
    try:
        place = FileUri.parse(directory)
    except ValueError as error:
        _refuse(permit, uri, str(error))
    if str(place) != directory or unsafe_key(place.key.removesuffix("/")) is not None:
        _refuse(permit, uri, "not a canonical address")
    for root in (likely, *permit.roots):
        if within(directory, root):
            return root
    _refuse(permit, uri, "outside the roots of this plan")


def _refuse(permit: DeletePermit, uri: str, reason: str) -> NoReturn:
    raise PermissionError(f"{uri!r} may not be deleted under plan {permit.plan_id}: {reason}; nothing was deleted")


def _failed(uri: str, code: str, message: str) -> FileOutcome:
    return FileOutcome(uri, Outcome.FAILED, code, message)


def _local(
    clock: Clock, permit: DeletePermit, _disk: LocalDisk, files: BatchFiles, check: _Check, width: int
) -> list[FileOutcome]:
    """Unlink relative to directories opened link by link, so that a swapped symlink is never followed."""

    def unlink_all(part: BatchFiles) -> list[FileOutcome]:
        with OpenDirectories(permit.roots) as directories:
            return _unlink_all(directories, part)

    def guarded(part: BatchFiles) -> list[FileOutcome]:
        return _guarded(check, part.uris, lambda: unlink_all(part))

    began = clock.boot()
    trial = guarded(files[:_LOCAL_TRIAL])
    rest = files[_LOCAL_TRIAL:]
    slow = clock.boot() - began > _SLOW_ANSWER * len(trial)
    size = max(_SMALLEST_CALL, -(-len(rest) // width)) if slow else _LOCAL_CHUNK
    return trial + _side_by_side(guarded, _dealt(rest, min(_LOCAL_CHUNK, size)), width if slow else 1)


def _unlink_all(directories: OpenDirectories, files: BatchFiles) -> list[FileOutcome]:
    """One outcome each, in order. Files come directory by directory, so each of those is looked for once."""
    outcomes: list[FileOutcome] = []
    folder, descriptor = None, -1
    for place, (uri, tag) in enumerate(zip(files.uris, files.etags, strict=True)):
        parent, _, name = uri.rpartition("/")
        try:
            if not name or parent != folder:
                folder = None  # looking for another directory may close this one
                if not name:
                    outcomes.append(_remove_directory(directories, uri, tag))
                    continue
                descriptor, folder = directories.of(uri)[0], parent
            found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            # Nearly every file has the listed tag; only the others are made into objects to be compared.
            same = tag == etag_of(found) and stat.S_ISREG(found.st_mode)
            if not same and differs(files[place], found):
                outcomes.append(FileOutcome(uri, Outcome.CHANGED))
                continue
            os.unlink(name, dir_fd=descriptor)
            outcomes.append(FileOutcome(uri, Outcome.DELETED))
        except FileNotFoundError:
            outcomes.append(FileOutcome(uri, Outcome.ABSENT))
        except LakewardenError as error:
            outcomes.append(_failed(uri, error.code, error.message))
        except OSError as error:
            outcomes.append(_failed(uri, f"errno-{error.errno}", str(error.strerror or error)))
    return outcomes


def _remove_directory(directories: OpenDirectories, uri: str, tag: str | None) -> FileOutcome:
    """Remove a directory that is still the listed one. The kernel refuses one that is not empty."""
    directory, name = directories.of(uri.removesuffix("/"))
    if directory_tag(os.stat(name, dir_fd=directory, follow_symlinks=False)) != tag:
        return FileOutcome(uri, Outcome.CHANGED)
    try:
        os.rmdir(name, dir_fd=directory)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            return FileOutcome(uri, Outcome.CHANGED, None, "it is not an empty directory any more")
        raise
    return FileOutcome(uri, Outcome.DELETED)


class _Present(NamedTuple):
    """An object that is still the listed one, with the tag that the delete must find."""

    uri: str
    key: str
    etag: str | None


def _remote(
    _permit: DeletePermit, store: ObjectStore, files: BatchFiles, check: _Check, width: int
) -> list[FileOutcome]:
    """Look first (a store answers success for a missing key), then delete what is unchanged.

    One look answers for a thousand names. Where fewer thousands than calls may be under way, the names of one look
    are dealt out to several calls.
    """
    hides = store.s3.versioning() if store.s3 is not None else False
    pages = _dealt(files, MAX_KEYS_A_CALL)
    calls = max(1, width // max(1, len(pages)))

    def remove(part: Sequence[_Present]) -> list[FileOutcome]:
        bulk = partial(_bulk_s3, store, part, hides) if store.s3 is not None else partial(_bulk_obstore, store, part)
        return _guarded(check, [present.uri for present in part], bulk)

    def look_and_remove(page: BatchFiles) -> list[FileOutcome]:
        outcomes, ready = _looked_at(store, page)
        parts = _dealt(ready, max(_SMALLEST_CALL, -(-len(ready) // calls)))
        outcomes |= {outcome.uri: outcome for outcome in _side_by_side(remove, parts, calls)}
        return [outcomes[uri] for uri in page.uris]

    return _side_by_side(lambda page: _guarded(check, page.uris, lambda: look_and_remove(page)), pages, width)


def _looked_at(store: ObjectStore, files: BatchFiles) -> tuple[dict[str, FileOutcome], list[_Present]]:
    """What is settled by looking (absent, changed, cannot be looked at), and what is there as it was listed."""
    outcomes: dict[str, FileOutcome] = {}
    ready: list[_Present] = []
    start = len(f"{store.scheme}://{store.bucket}/")
    keys = [uri[start:] for uri in files.uris]
    for place, (uri, found) in enumerate(zip(files.uris, look(store, keys), strict=True)):
        if isinstance(found, Exception):
            outcomes[uri] = _failed(uri, getattr(found, "code", "LW-STORE-001"), str(found))
        elif found is None:
            outcomes[uri] = FileOutcome(uri, Outcome.ABSENT)
        elif differs(files[place], found):
            outcomes[uri] = FileOutcome(uri, Outcome.CHANGED)
        else:
            ready.append(_Present(uri, keys[place], found.etag))
    return outcomes, ready


def _bulk_s3(store: ObjectStore, ready: Sequence[_Present], hides: bool | None) -> list[FileOutcome]:
    """One DeleteObjects call, each key with the tag it must still have; every error is one key's own."""
    assert store.s3 is not None
    objects = [{"Key": key, "ETag": etag} if etag else {"Key": key} for _, key, etag in ready]
    gone = Outcome.HIDDEN if hides else Outcome.DELETED
    try:
        # A full answer is slow to read; it is needed only where we may not ask whether deletes hide.
        answer = store.s3.client.delete_objects(
            Bucket=store.bucket, Delete={"Objects": objects, "Quiet": hides is not None}
        )
    except Exception as error:
        return _after_failure(store, ready, gone, error)
    results = {key: FileOutcome(uri, gone) for uri, key, _ in ready}
    for item in answer.get("Deleted", ()):
        if item.get("DeleteMarker"):
            results[item["Key"]] = FileOutcome(results[item["Key"]].uri, Outcome.HIDDEN)
    for item in answer.get("Errors", ()):
        results[item["Key"]] = _refused_by_store(results[item["Key"]].uri, item)
    return list(results.values())


def _refused_by_store(uri: str, item: Mapping[str, Any]) -> FileOutcome:
    code = str(item.get("Code", "Unknown"))
    if code in ("PreconditionFailed", "ConditionalRequestConflict"):
        return FileOutcome(uri, Outcome.CHANGED, code, item.get("Message"))
    if code in ("NoSuchKey", "NotFound"):
        return FileOutcome(uri, Outcome.ABSENT)
    return _failed(uri, code, str(item.get("Message", "")))


def _bulk_obstore(store: ObjectStore, ready: Sequence[_Present]) -> list[FileOutcome]:
    """obstore reports only its first failure, so what is left is looked for afterwards."""
    import obstore

    failure: Exception = RuntimeError("the store kept the object without an error")
    try:
        obstore.delete(store.client, [present.key for present in ready])
    except Exception as error:
        failure = error
    return _after_failure(store, ready, Outcome.DELETED, failure)


def _after_failure(
    store: ObjectStore, ready: Sequence[_Present], gone: Outcome, failure: Exception
) -> list[FileOutcome]:
    """What a call without a full answer did: the files that are not there any more went with it."""
    message = unavailable(failure, "the delete").message
    left = store.head_many([present.key for present in ready])
    return [
        FileOutcome(uri, gone) if found is None else _failed(uri, "LW-STORE-001", message)
        for (uri, _, _), found in zip(ready, left, strict=True)
    ]


_Part = TypeVar("_Part")


def _dealt(files: Sequence[_Part], size: int) -> list[Any]:
    return [files[start : start + size] for start in range(0, len(files), size)]


def _side_by_side(work: Callable[[Any], list[FileOutcome]], parts: Sequence[Any], width: int) -> list[FileOutcome]:
    """The outcomes of all parts, in order."""
    if len(parts) < 2 or width < 2:
        return [outcome for part in parts for outcome in work(part)]
    with ThreadPoolExecutor(min(width, len(parts))) as pool:
        return [outcome for outcomes in pool.map(work, parts) for outcome in outcomes]


def _guarded(check: _Check, uris: Sequence[str], work: Callable[[], list[FileOutcome]]) -> list[FileOutcome]:
    """Check again before every request: a batch that waits behind a slow store must not outlive its lease."""
    try:
        check()
        return work()
    except LakewardenError as error:
        return [_failed(uri, error.code, error.message) for uri in uris]
