"""A whole Paimon table as one moment shows it: list, read everything, list again.

Expiry, commits and rollbacks go on while we read. A file that vanished in between is never taken for an empty one, since
what it protected would then look like orphans: the table is read again until two listings around a reading agree.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from lakewarden.foreign.json_text import integer
from lakewarden.formats.paimon.metadata.listing import (
    BranchFiles,
    MetadataFile,
    fingerprint,
    list_metadata,
    signs_of_commits,
)
from lakewarden.formats.paimon.metadata.table import Branch, PaimonTable, Schema, Snapshot, Tag, parse_json
from lakewarden.model.errors import UnreadableMetadataError, UnsettledTableError
from lakewarden.model.ports import Files

TRIES = 5
FIRST_PAUSE = 0.05  # seconds; each pause is twice the one before

Blobs = Mapping[str, bytes]


def read_table(
    location: str,
    files: Files,
    sleep: Callable[[float], None] = time.sleep,
    listed: tuple[BranchFiles, ...] | None = None,
) -> PaimonTable:
    """The table whose directory is `location` (ending in a slash). `listed` saves the first listing, if it was made just now.

    Raises UnreadableMetadataError for a damaged or missing file, UnsettledTableError for a table that does not hold
    still, StoreUnavailableError for a store that does not answer.
    """
    problem: UnreadableMetadataError | UnsettledTableError | None = None
    for attempt in range(TRIES):
        if attempt:
            sleep(FIRST_PAUSE * 2 ** (attempt - 1))
        branches = listed if listed is not None and not attempt else list_metadata(location, files)
        try:
            table = _read(location, branches, files)
        except (UnreadableMetadataError, UnsettledTableError) as error:
            # A file that is just being written can look damaged; one that stays so is.
            problem = error
            continue
        if list_metadata(location, files) == branches:
            return table
        problem = UnsettledTableError(f"the metadata of {location} changed each of {TRIES} times it was read")
    assert problem is not None
    raise problem


def _read(location: str, branches: Sequence[BranchFiles], files: Files) -> PaimonTable:
    """The table that these listings show. UnsettledTableError if a listed file is gone."""
    for branch in branches:
        if not branch.schema:
            raise UnreadableMetadataError(
                f"{branch.directory}schema/ has no schema file, so what branch {branch.name} needs is unknown; "
                "nothing was touched"
            )
    first = _by_number(branches[0].schema)[0]
    blobs = _fetch(dict.fromkeys(file.uri for branch in branches for file in _wanted(branch)), files)
    hints = _hints([file for branch in branches for file in branch.hints], files)
    table = PaimonTable(
        location=location,
        branches=tuple(_branch(branch, blobs, hints) for branch in branches),
        fingerprint=fingerprint(branches),
        first_schema=blobs[first.uri],
    )
    written = None if table.main.snapshots else signs_of_commits(location, files)
    return replace(table, gone=frozenset(_gone(table, files)), written=written)


def _gone(table: PaimonTable, files: Files) -> Iterator[str]:
    """Changelog lists of first snapshots that are no more.

    A branch begins with a copy of a tag, whose changelog goes with the snapshot it was made from; a fast-forward makes
    that copy main's first snapshot. Its base and delta are kept by the tag, and must be there.
    """
    for name in {b.snapshots[0].changelog for b in table.branches if b.snapshots}:
        if name is not None and files.head(table.manifest(name)) is None:
            yield name


def _wanted(branch: BranchFiles) -> list[MetadataFile]:
    """What is opened: everything that was listed, the hints apart."""
    return [*branch.schema, *branch.snapshot, *branch.changelog, *branch.tag, *branch.consumer]


def _fetch(uris: Mapping[str, None], files: Files) -> Blobs:
    blobs: dict[str, bytes] = {}
    for uri, answer in zip(uris, files.get_many(list(uris)), strict=True):
        if isinstance(answer, FileNotFoundError):
            raise UnsettledTableError(f"{uri} was listed and is gone")
        if isinstance(answer, Exception):
            raise answer
        blobs[uri] = answer
    return blobs


def _hints(wanted: Sequence[MetadataFile], files: Files) -> dict[str, int | None]:
    """What each hint says; None for one that is gone, garbled or no snapshot's number: the listing decides."""
    found: dict[str, int | None] = {}
    for file, answer in zip(wanted, files.get_many([file.uri for file in wanted]), strict=True):
        if isinstance(answer, Exception) and not isinstance(answer, FileNotFoundError):
            raise answer
        text = b"" if isinstance(answer, Exception) else answer.strip()
        found[file.uri] = int(text) if text.isdigit() and len(text) <= 18 else None
    return found


def _branch(files: BranchFiles, blobs: Blobs, hints: Mapping[str, int | None]) -> Branch:
    *earlier, newest = (_schema(file, blobs) for file in _by_number(files.schema))
    return Branch(
        name=files.name,
        directory=files.directory,
        schema=newest,
        earlier=tuple(earlier),
        snapshots=tuple(_numbered(file, blobs) for file in _by_number(files.snapshot)),
        tags=tuple(Tag(file.key, Snapshot.parse(blobs[file.uri], file.uri)) for file in files.tag),
        changelogs=tuple(_numbered(file, blobs) for file in _by_number(files.changelog)),
        consumers={file.key: _next_snapshot(blobs[file.uri], file.uri) for file in files.consumer},
        earliest_hint=next((hints[file.uri] for file in files.hints if file.key == "EARLIEST"), None),
        latest_hint=next((hints[file.uri] for file in files.hints if file.key == "LATEST"), None),
    )


def _by_number(files: Sequence[MetadataFile]) -> list[MetadataFile]:
    return sorted(files, key=lambda file: int(file.key))


def _schema(file: MetadataFile, blobs: Blobs) -> Schema:
    schema = Schema.parse(blobs[file.uri], file.uri)
    _same_number(file, schema.id)
    return schema


def _numbered(file: MetadataFile, blobs: Blobs) -> Snapshot:
    snapshot = Snapshot.parse(blobs[file.uri], file.uri)
    _same_number(file, snapshot.id)
    return snapshot


def _same_number(file: MetadataFile, number: int) -> None:
    if int(file.key) != number:
        raise UnreadableMetadataError(f"{file.uri} says that it is number {number}")


def _next_snapshot(data: bytes, uri: str) -> int:
    try:
        return integer(parse_json(data, uri).get("nextSnapshot"))
    except TypeError as error:
        raise UnreadableMetadataError(f"{uri} does not say which snapshot its reader needs next") from error
