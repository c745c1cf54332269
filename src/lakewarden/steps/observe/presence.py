"""Which files are gone, for certain: asked for by name, twice and some time apart, in a directory that is there.

A store that is not mounted, a bucket that is not there and a server that is restored from a backup all answer that a
file is gone. So a file counts as gone only where its directory holds other files at the same moment. Whatever else is
answered (a right that is missing, an error, silence) leaves the matter open, and says so.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from operator import attrgetter

from lakewarden.model.branches import Seen
from lakewarden.model.errors import LakewardenError
from lakewarden.model.margins import MARGINS
from lakewarden.model.ports import Directory
from lakewarden.model.uri import FileUri
from lakewarden.steps.deployment import Deployment
from lakewarden.storage.stores import Stores

THREADS = 16
LIST_FROM = 4  # so many files of one directory are found by one listing sooner than one by one

GONE = ""
Answer = tuple[str, str | None]  # an address; None if it is there, GONE, or why it cannot be told


def look_twice(deployment: Deployment, uris: Iterable[str]) -> Seen:
    """Which of these files are gone at both of two looks. One that came back in between is not to be told."""
    began = deployment.clock.boot()
    first = look(deployment.stores, uris)
    if not first.gone:
        return first
    deployment.clock.sleep(max(0.0, began + MARGINS.second_look_seconds - deployment.clock.boot()))
    second = look(deployment.stores, first.gone)
    back = {uri: "it was gone at first, and is there now" for uri in first.gone - second.gone}
    return Seen(second.gone, {**first.unknown, **back, **second.unknown})


def look(stores: Stores, uris: Iterable[str]) -> Seen:
    """Which of these files are gone now; each of them is asked for once, whoever needs it."""
    directories: dict[str, list[str]] = {}
    unknown: dict[str, str] = {}
    for uri in sorted(set(uris)):
        try:
            FileUri.parse(uri)
        except ValueError as error:
            unknown[uri] = f"it is no address ({error})"
            continue
        directories.setdefault(uri.rpartition("/")[0] + "/", []).append(uri)
    with ThreadPoolExecutor(THREADS) as pool:
        found = [
            answer
            for answers in pool.map(lambda item: list(_in_directory(stores, *item)), directories.items())
            for answer in answers
        ]
    gone = frozenset(uri for uri, answer in found if answer == GONE)
    return Seen(gone, unknown | {uri: answer for uri, answer in found if answer})


def _in_directory(stores: Stores, directory: str, uris: Sequence[str]) -> Iterator[Answer]:
    """Each file of one directory, which is listed at most once."""
    around: Directory | None = None
    for uri in uris:
        name = FileUri.parse(uri).key.rpartition("/")[2]
        try:
            if around is None and len(uris) >= LIST_FROM:
                around = stores.places(directory)
            if (around is not None and _has(around, name)) or stores.head(uri) is not None:
                yield uri, None
                continue
            around = around or stores.places(directory)
        except (LakewardenError, OSError, ValueError) as error:
            yield uri, f"it cannot be told whether it is there ({getattr(error, 'message', None) or error})"
            continue
        if _has(around, name):
            yield uri, "its directory lists it, and it is not there by its name"
        elif name in around.directories or name in around.odd:
            yield uri, "something else than a file has its name"
        elif not around.files:
            yield uri, "its whole directory is empty or not there, as if a disk or bucket were missing"
        else:
            yield uri, GONE


def _has(around: Directory, name: str) -> bool:
    at = bisect_left(around.files, name, key=attrgetter("key"))
    return at < len(around.files) and around.files[at].key == name
