"""THE ONE DOOR: the only function that removes bytes, and only with a permit.

A permit names the plan, the run, the roots and the exact files of one batch, carries the lease's check
and the moment of the last validation. Everything is checked again here, because a mistake above this
line must end in a refusal, not in a lost file. What is said afterwards is true: a file counts as deleted if its store
said so by its name, or if a look at the store shows that it went.
"""

from __future__ import annotations

import errno
import os
import stat
from bisect import bisect_left
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from lakewarden.model.clock import Clock
from lakewarden.model.errors import LakewardenError, MissingStoreError
from lakewarden.model.files import BatchFiles
from lakewarden.model.ports import FileOutcome, JournalFile
from lakewarden.model.uri import within
from lakewarden.model.verdict import Outcome
from lakewarden.storage.answers import Answer, Present, failed, looked_at, settled
from lakewarden.storage.bulk_calls import body_of, sending
from lakewarden.storage.compare import differs
from lakewarden.storage.directories import directory_tag
from lakewarden.storage.objects import ObjectStore
from lakewarden.storage.permit import DeletePermit, Validity, covered, grant
from lakewarden.storage.posix import LocalDisk, etag_of
from lakewarden.storage.rooted import OpenDirectories
from lakewarden.storage.stores import Stores

__all__ = ["DeletePermit", "delete", "grant"]

MAX_KEYS_A_CALL = 1000
# Where a store has no bulk call, obstore sends this many single requests at once: more would not be checked in between.
_KEYS_AT_ONCE = {"gs": 10, "abfs": 256, "az": 256}
_SMALLEST_CALL = 50
_LOCAL_CHUNK = 1000
_LOCAL_TRIAL = 100
# Measured: a disk that answers at once (10 µs a file) is fastest with one thread, more only fight for the interpreter;
# a mount over a network answers in its own time, and is asked from all of them.
_SLOW_ANSWER = 0.0002
# Seconds that a delete may wait for its answer; the longest is taken with which it ends within the permit.
_REQUEST_SECONDS = (20.0, 10.0, 5.0, 2.0)
_CONNECT_SECONDS = 2.0


def delete(
    permit: DeletePermit, stores: Stores, files: Sequence[JournalFile], clock: Clock, *, concurrency: int = 10
) -> list[FileOutcome]:
    """Remove the files of one batch that are still what the plan listed; one outcome each, in order.

    Raises before anything is touched if the permit does not cover every file, is stale, its lease is
    lost, or a store is gone. After that every failure is that file's outcome.
    """
    valid = Validity(permit, clock)
    valid.check_all()
    batch = BatchFiles.of(files)
    by_store = covered(permit, stores, batch.uris)
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
        remove: Any = partial(_local, clock, permit.roots) if isinstance(store, LocalDisk) else _remote
        found = remove(store, batch.take(places), valid, max(1, concurrency))
        for place, outcome in zip(places, found, strict=True):
            outcomes[place] = outcome
    return [outcome for outcome in outcomes if outcome is not None]


def _local(
    clock: Clock, roots: Sequence[str], _disk: LocalDisk, files: BatchFiles, valid: Validity, width: int
) -> list[FileOutcome]:
    """Unlink relative to directories opened link by link, so that a swapped symlink is never followed."""

    def unlink_all(part: BatchFiles) -> list[FileOutcome]:
        valid.check_all()
        with OpenDirectories(roots) as directories:
            return _unlink_all(directories, part, valid.check)

    def guarded(part: BatchFiles) -> list[FileOutcome]:
        return _guarded(part.uris, lambda: unlink_all(part))

    began = clock.boot()
    trial = guarded(files[:_LOCAL_TRIAL])
    rest = files[_LOCAL_TRIAL:]
    slow = clock.boot() - began > _SLOW_ANSWER * len(trial)
    size = max(_SMALLEST_CALL, -(-len(rest) // width)) if slow else _LOCAL_CHUNK
    return trial + _side_by_side(guarded, _dealt(rest, min(_LOCAL_CHUNK, size)), width if slow else 1)


def _unlink_all(directories: OpenDirectories, files: BatchFiles, check: Callable[[], None]) -> list[FileOutcome]:
    """One outcome each, in order. Files come directory by directory, so each of those is looked for once."""
    outcomes: list[FileOutcome] = []
    folder, descriptor = None, -1
    for place, (uri, tag) in enumerate(zip(files.uris, files.etags, strict=True)):
        parent, _, name = uri.rpartition("/")
        try:
            if not name or parent != folder:
                folder = None  # looking for another directory may close this one
                if not name:
                    outcomes.append(_remove_directory(directories, uri, tag, check))
                    continue
                descriptor, folder = directories.of(uri)[0], parent
            found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            # Nearly every file has the listed tag; only the others are made into objects to be compared.
            same = tag == etag_of(found) and stat.S_ISREG(found.st_mode)
            if not same and differs(files[place], found):
                outcomes.append(FileOutcome(uri, Outcome.CHANGED))
                continue
            check()
            os.unlink(name, dir_fd=descriptor)
            outcomes.append(FileOutcome(uri, Outcome.DELETED))
        except FileNotFoundError:
            outcomes.append(FileOutcome(uri, Outcome.ABSENT))
        except LakewardenError as error:
            outcomes.append(failed(uri, error.code, error.message))
        except OSError as error:
            outcomes.append(failed(uri, f"errno-{error.errno}", str(error.strerror or error)))
    return outcomes


def _remove_directory(
    directories: OpenDirectories, uri: str, tag: str | None, check: Callable[[], None]
) -> FileOutcome:
    """Remove a directory that is still the listed one. The kernel refuses one that is not empty."""
    directory, name = directories.of(uri.removesuffix("/"))
    if directory_tag(os.stat(name, dir_fd=directory, follow_symlinks=False)) != tag:
        return FileOutcome(uri, Outcome.CHANGED)
    check()
    try:
        os.rmdir(name, dir_fd=directory)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            return FileOutcome(uri, Outcome.CHANGED, None, "it is not an empty directory any more")
        raise
    return FileOutcome(uri, Outcome.DELETED)


def _remote(store: ObjectStore, files: BatchFiles, valid: Validity, width: int) -> list[FileOutcome]:
    """Look first (a store answers success for a missing key), then delete what is unchanged.

    One look answers for a thousand names. Where fewer thousands than calls may be under way, the names of one look
    are dealt out to several calls.
    """
    hides = store.s3.versioning() if store.s3 is not None else False
    pages = _dealt(files, MAX_KEYS_A_CALL)
    calls = max(1, width // max(1, len(pages)))
    largest = _KEYS_AT_ONCE.get(store.scheme, MAX_KEYS_A_CALL)

    def remove(part: Sequence[Present]) -> list[FileOutcome]:
        def call() -> list[FileOutcome]:
            # Nothing stands between this look at the permit and the request, which is sent once and ends in that time.
            seconds = valid.request_seconds(_REQUEST_SECONDS, _CONNECT_SECONDS)
            answer = _bulk_s3(store, part, seconds) if store.s3 is not None else _bulk_obstore(store, part, seconds)
            return settled(store, part, answer, Outcome.HIDDEN if hides else Outcome.DELETED)

        return _guarded([present.uri for present in part], call)

    def look_and_remove(page: BatchFiles) -> list[FileOutcome]:
        valid.check_all()
        outcomes, ready = looked_at(store, page)
        parts = _dealt(ready, min(largest, max(_SMALLEST_CALL, -(-len(ready) // calls))))
        outcomes |= {outcome.uri: outcome for outcome in _side_by_side(remove, parts, calls)}
        return [outcomes[uri] for uri in page.uris]

    return _side_by_side(lambda page: _guarded(page.uris, lambda: look_and_remove(page)), pages, width)


def _bulk_s3(store: ObjectStore, ready: Sequence[Present], seconds: float) -> Answer:
    """One DeleteObjects request, sent once, each key with the tag it must still have. Every key is asked to be named."""
    assert store.s3 is not None
    _, key, etag = ready[0]
    first = {"Key": key, "ETag": etag} if etag else {"Key": key}
    try:
        client = store.s3.sent_once(seconds, _CONNECT_SECONDS)
        with sending(body_of((key, etag) for _, key, etag in ready)):
            return Answer.of(client.delete_objects(Bucket=store.bucket, Delete={"Objects": [first], "Quiet": False}))
    except Exception as error:
        return Answer(failure=error)


def _bulk_obstore(store: ObjectStore, ready: Sequence[Present], seconds: float) -> Answer:
    """obstore reports only its first failure and no names, so all of them are looked for afterwards."""
    import obstore

    try:
        obstore.delete(store.sent_once(seconds, _CONNECT_SECONDS), [present.key for present in ready])
    except Exception as error:
        return Answer(failure=error)
    return Answer()


_Part = TypeVar("_Part")


def _dealt(files: Sequence[_Part], size: int) -> list[Any]:
    return [files[start : start + size] for start in range(0, len(files), size)]


def _side_by_side(work: Callable[[Any], list[FileOutcome]], parts: Sequence[Any], width: int) -> list[FileOutcome]:
    """The outcomes of all parts, in order."""
    if len(parts) < 2 or width < 2:
        return [outcome for part in parts for outcome in work(part)]
    with ThreadPoolExecutor(min(width, len(parts))) as pool:
        return [outcome for outcomes in pool.map(work, parts) for outcome in outcomes]


def _guarded(uris: Sequence[str], work: Callable[[], list[FileOutcome]]) -> list[FileOutcome]:
    """Work that asks for the permit before each request: if a part may not go on, that is the end of its files alone."""
    try:
        return work()
    except LakewardenError as error:
        return [failed(uri, error.code, error.message) for uri in uris]
