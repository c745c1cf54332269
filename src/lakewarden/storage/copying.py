"""Copies that are proven before they count: server-side where one service holds both ends, else through us."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from lakewarden.model.errors import StoreUnavailableError
from lakewarden.model.ports import Stat
from lakewarden.model.tiers import ARCHIVE_CLASSES
from lakewarden.model.uri import FileUri
from lakewarden.storage.compare import same_tag
from lakewarden.storage.objects import ObjectStore
from lakewarden.storage.present import look
from lakewarden.storage.s3 import S3Calls
from lakewarden.storage.store import Store
from lakewarden.storage.stores import Stores

_MD5 = re.compile(r'^"?[0-9a-f]{32}"?$')

# Told of bytes before they are moved; waits where a budget says so.
Spend = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Copied:
    """A verified copy: its size, and the digest of its bytes, or the checksum that the store gives both ends, by name."""

    size: int
    sha256: str


def copy_verified(stores: Stores, source: str, target: str, size: int | None, spend: Spend) -> Copied:
    """Copy, then compare size and bytes. FileNotFoundError if the source is gone; nothing of it is ever changed.

    What is at the target already is compared instead, never overwritten: a snapshot may need it.
    """
    here, key = stores.at(source), FileUri.parse(source).key
    there, copy_key = stores.at(target), FileUri.parse(target).key
    found = here.head(key)
    if found is None:
        raise FileNotFoundError(source)
    if size is not None and found.size != size:
        raise StoreUnavailableError(f"{source} has {found.size} bytes where {size} were planned; it was not copied")
    if (held := there.head(copy_key)) is not None and not _locked(there, held, found.size):
        return _same(source, here, found, target, there, held, spend)
    if (call := _service_copy(here, key, there, copy_key)) is not None:
        spend(found.size)
        call()
        if (checksum := _vouched(here, found, there, copy_key)) is not None:
            return Copied(found.size, checksum)
        spend(found.size)
        return _compared(source, _digest(here.stream(key)), there, copy_key)
    digest = hashlib.sha256()
    there.put_stream(copy_key, _watched(here.stream(key), digest.update, spend))
    return _compared(source, (found.size, digest.hexdigest()), there, copy_key)


def write_verified(stores: Stores, target: str, data: bytes) -> Copied:
    """Write bytes and read them back. What is at the target already is compared instead, never overwritten."""
    there, key = stores.at(target), FileUri.parse(target).key
    if (held := there.head(key)) is not None and not _locked(there, held, len(data)):
        if held.size != len(data) or there.get(key) != data:
            raise _occupied(target, "what would be written there")
        return Copied(len(data), hashlib.sha256(data).hexdigest())
    there.put(key, data)
    return _compared(target, (len(data), hashlib.sha256(data).hexdigest()), there, key)


def holds(stores: Stores, uri: str, digest: str) -> bool:
    """Whether the bytes at an address are still those of a copy with that digest. Raises FileNotFoundError."""
    store, key = stores.at(uri), FileUri.parse(uri).key
    name, _, value = digest.rpartition(":")
    if name not in ("", "md5") and (said := _checksum(store, key)) is not None and said.startswith(f"{name}:"):
        return said == digest
    if name not in ("", "md5", "sha1", "sha256"):
        return False  # nobody can tell, so nobody vouches for it
    found = hashlib.new(name or "sha256", usedforsecurity=False)
    for piece in store.stream(key):
        found.update(piece)
    # A store spells its own checksums in base64, but for the tag of an object.
    spelled = base64.b64encode(found.digest()).decode() if name.startswith("sha") else found.hexdigest()
    return spelled == value


def same_bytes(stores: Stores, uri: str, data: bytes, digest: str) -> bool:
    """The same of bytes that were read already; a checksum that only the store can make is asked for there."""
    name, _, value = digest.rpartition(":")
    if name not in ("", "md5"):
        return holds(stores, uri, digest)
    return hashlib.new(name or "sha256", data, usedforsecurity=False).hexdigest() == value


def digest_at(stores: Stores, uri: str) -> str:
    """The digest of the bytes at an address, as a copy of them would have it. Raises FileNotFoundError."""
    return _digest(stores.at(uri).stream(FileUri.parse(uri).key))[1]


def sizes_at(stores: Stores, uris: Sequence[str]) -> list[int | None]:
    """How large the object at each address is; None where nothing is. Any other failure is raised."""
    return [None if stat is None else stat.size for stat in stats_at(stores, uris)]


def stats_at(stores: Stores, uris: Sequence[str]) -> list[Stat | None]:
    """What each address holds; None where nothing is. Any other failure is raised."""
    found: list[Stat | None] = [None] * len(uris)
    by_store: dict[int, list[int]] = {}
    for place, uri in enumerate(uris):
        by_store.setdefault(id(stores.at(uri)), []).append(place)
    for places in by_store.values():
        store, keys = stores.at(uris[places[0]]), [FileUri.parse(uris[place]).key for place in places]
        answers = look(store, keys) if isinstance(store, ObjectStore) else store.head_many(keys)
        for place, answer in zip(places, answers, strict=True):
            if isinstance(answer, Exception):
                raise answer
            found[place] = answer
    return found


def classes_of(stores: Stores, uri: str) -> S3Calls | None:
    """The calls of a store that has storage classes and tags; None for one that has not."""
    store = stores.at(uri)
    return store.s3 if isinstance(store, ObjectStore) else None


def put_in_class(stores: Stores, uri: str, storage_class: str | None, tags: dict[str, str]) -> str | None:
    """Give a verified copy its class and tags. Returns the class that the store says it has; None is its default.

    Only then: what lies in an archive can no longer be read to verify it.
    """
    calls = classes_of(stores, uri)
    if calls is None or not (storage_class or tags):
        return None
    key = FileUri.parse(uri).key
    if storage_class:
        calls.reclass(key, storage_class)
    if tags:
        calls.tag(key, tags)
    return calls.storage_class(key)


def _locked(there: Store, held: Stat, size: int) -> bool:
    """Whether an archive holds a copy of that size, which cannot be read: of a run that died before it was recorded."""
    calls = there.s3 if isinstance(there, ObjectStore) else None
    return calls is not None and held.size == size and calls.storage_class(held.key) in ARCHIVE_CLASSES


def _same(source: str, here: Store, found: Stat, target: str, there: Store, held: Stat, spend: Spend) -> Copied:
    """What is at the target counts as the copy if it has the source's bytes. Raises StoreUnavailableError if not."""
    if held.size == found.size:
        if (checksum := _vouched(here, found, there, held.key)) is not None:
            return Copied(found.size, checksum)
        spend(found.size)
        if (digest := _digest(there.stream(held.key))) == _digest(here.stream(found.key)):
            return Copied(*digest)
    raise _occupied(target, source)


def _occupied(target: str, source: str) -> StoreUnavailableError:
    return StoreUnavailableError(
        f"{target} is there already with other bytes than {source}; it was left alone, and the file was not copied",
        hint="Find out what the object is. If no cold table needs it, move it away and apply again.",
    )


def _vouched(here: Store, found: Stat, there: Store, copy_key: str) -> str | None:
    """The checksum that the service gives both ends; None where it does not say, and both have to be read.

    An object that was uploaded in parts has a tag that is no digest.
    """
    copy = there.head(copy_key)
    if copy is None or copy.size != found.size:
        return None
    tags = (found.etag or "", copy.etag or "")
    if all(map(_MD5.match, tags)) and same_tag(*tags):
        return "md5:" + tags[1].strip('"')
    calls = [store.s3 for store in (here, there) if isinstance(store, ObjectStore) and store.s3 is not None]
    if len(calls) < 2 or (checksum := calls[1].checksum(copy_key)) is None:
        return None
    return checksum if calls[0].checksum(found.key) == checksum else None


def _checksum(store: Store, key: str) -> str | None:
    return store.s3.checksum(key) if isinstance(store, ObjectStore) and store.s3 is not None else None


def _service_copy(here: Store, key: str, there: Store, copy_key: str) -> Callable[[], None] | None:
    """How one service copies without us, if it can."""
    if not (isinstance(here, ObjectStore) and isinstance(there, ObjectStore)):
        return None
    if here is there:
        return lambda: here.copy(key, copy_key)
    if here.s3 is not None and there.s3 is not None and here.s3.same_service(there.s3):
        calls, bucket = there.s3, here.bucket
        return lambda: calls.copy_from(bucket, key, copy_key)
    return None


def _compared(source: str, expected: tuple[int, str], there: Store, key: str) -> Copied:
    found = _digest(there.stream(key))
    if found != expected:
        raise StoreUnavailableError(
            f"the copy of {source} has {found[0]} bytes or others than the original's {expected[0]}; it does not count"
        )
    return Copied(*found)


def _digest(pieces: Iterator[bytes]) -> tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    for piece in pieces:
        digest.update(piece)
        size += len(piece)
    return size, digest.hexdigest()


def _watched(pieces: Iterator[bytes], see: Callable[[bytes], None], spend: Spend) -> Iterator[bytes]:
    for piece in pieces:
        spend(len(piece))
        see(piece)
        yield piece
