"""The cache of proven manifests as the ledger knows it: what may be used, what was added, what goes."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from contextlib import suppress
from datetime import timedelta

from lakewarden.model.errors import LakewardenError
from lakewarden.model.kept_file import KeptFile
from lakewarden.model.uri import names_digest
from lakewarden.pipeline.read.cache import CacheFiles, CacheWriter
from lakewarden.steps.deployment import Deployment

# A plan that read anything leaves a few files. Of more than these, or of more bytes, those go that were not used for the
# longest time, and what they knew is read once more: so nothing stays for ever of tables that were dropped or of manifests
# that were rewritten, and the large file of a first plan stays as long as its tables do.
MOST_FILES = 96
MOST_BYTES = 32 * 2**30
ENTERED_WITHIN = timedelta(days=1)


def cache_files(deployment: Deployment) -> CacheFiles:
    """What may be used, the last used first."""
    location = _location(deployment)
    files = [file for file in deployment.ledger.cache.files() if file.uri.rpartition("/")[0] == location.rstrip("/")]
    return CacheFiles(CacheWriter(deployment.stores, location), files)


def remember(deployment: Deployment, kept: Iterable[KeptFile], used: Iterable[str] = ()) -> None:
    """Enter the files that a comparison left, and let those go that were not used for the longest time."""
    deployment.ledger.cache.use(used)
    if files := list(kept):
        deployment.ledger.cache.add(files)
        known = deployment.ledger.cache.files()
        surplus = [file.uri for file in _surplus(known)]
        deployment.ledger.cache.forget(surplus)
        _empty(deployment, surplus)
        with suppress(OSError, LakewardenError):
            _empty(deployment, _strays(deployment, {file.uri for file in known}))


def _location(deployment: Deployment) -> str:
    """What was kept before the settings said that two names are one store has addresses under the wrong name."""
    names = names_digest()
    return f"{deployment.state}cache/{names}/" if names else f"{deployment.state}cache/"


def _surplus(files: Iterable[KeptFile]) -> Iterator[KeptFile]:
    """Of files in the order of their use, those that are beyond what is kept."""
    total = 0
    for place, file in enumerate(files):
        total += file.bytes
        if place >= MOST_FILES or total > MOST_BYTES:
            yield file


def _strays(deployment: Deployment, known: Container[str]) -> list[str]:
    """Files of tasks that were tried again, or of plans that ended early: nobody entered them for a day, and nobody will."""
    place, since = _location(deployment), deployment.clock.now() - ENTERED_WITHIN
    files = deployment.stores.places(place).files
    old = (file for file in files if file.size and file.modified is not None and file.modified < since)
    return [uri for file in old if (uri := place + file.key) not in known]


def _empty(deployment: Deployment, uris: Iterable[str]) -> None:
    """Emptied, not deleted: only one door removes files, and this is not a table's. One that stays only takes up space."""
    for uri in uris:
        with suppress(OSError, LakewardenError):
            deployment.stores.put(uri, b"")
