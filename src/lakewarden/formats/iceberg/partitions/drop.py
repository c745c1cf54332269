"""Dropping partitions: every file of them marked as deleted in one commit. The files stay until snapshots expire.

A file lies in exactly one partition of its own spec, so it goes whole or not at all; rows are never looked at. Delete
files of a partition apply to data files of the same spec and values only, and go with them. Those without a partition
apply to the whole table, and stay.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from lakewarden.formats.avro import AvroFile, Record
from lakewarden.formats.iceberg.commit.new_snapshot import current_snapshot, start_removal
from lakewarden.formats.iceberg.commit.versions import MovedOnError, Versions
from lakewarden.formats.iceberg.manifests.files import DATA, DELETED, read_list, read_manifest
from lakewarden.formats.iceberg.metadata.known import Version
from lakewarden.formats.iceberg.metadata.refs import MAIN, ancestors
from lakewarden.formats.iceberg.partitions.bounds import may_hold
from lakewarden.formats.iceberg.partitions.rest import leaves_rows, rows_of
from lakewarden.formats.iceberg.partitions.specs import key_of, specs_of
from lakewarden.model.brakes import EMPTY, braked_since
from lakewarden.model.errors import CatalogUnavailableError, CommitConflictError
from lakewarden.model.partitions import Drop
from lakewarden.model.ports import Files
from lakewarden.model.verdict import Brake

TRIES = 8
COMMIT = "lakewarden.commit"


@dataclass(frozen=True, slots=True)
class Found:
    """What the partitions hold now: in which manifests, how much and how new in each, how many rows, which data files."""

    manifests: AvroFile
    affected: Mapping[int, frozenset[bytes]]
    held: Mapping[bytes, tuple[int, int | None]]
    rows: Mapping[bytes, int]
    data_files: frozenset[str]


def drop_partitions(
    versions: Versions,
    files: Files,
    table: str,
    drop: Drop,
    now_ms: int,
    new_id: Callable[[], uuid.UUID] = uuid.uuid4,
) -> Mapping[str, Any] | None:
    """Drop these partitions from the main branch; None if they hold no file any more.

    A repeated call finds the commit that the first one made. Raises CommitConflictError if other writers were quicker
    too often, PlanOutdatedError if no row would be left in the table as it is by now, and what reading the table raises.
    """
    tries = Retrying(
        retry=retry_if_exception_type(MovedOnError),
        stop=stop_after_attempt(TRIES),
        wait=wait_random_exponential(0.05, 2),
        reraise=True,
    )
    try:
        return tries(_try, versions, files, table, drop, now_ms, new_id)
    except MovedOnError as error:
        raise CommitConflictError(
            f"{table} was changed by others each of the {TRIES} times that partitions were to be dropped; none was"
        ) from error


def _try(
    versions: Versions, files: Files, table: str, drop: Drop, now_ms: int, new_id: Callable[[], uuid.UUID]
) -> Mapping[str, Any] | None:
    version = versions.current(table)
    if (made := _made(version, drop)) is not None:
        return made
    found = find_files(version.document, files, drop.partitions)
    if found is None:
        return None
    changed = [p for p in found.held if p in drop.expected and drop.expected[p] != found.held[p]]
    going = frozenset(found.held) - frozenset(changed)
    kept = {"kept": [partition.hex() for partition in changed]} if changed else {}
    if not going:
        return {"partitions": 0, **kept} if changed else None
    if not drop.may_empty and not leaves_rows(files, found.manifests, going, sum(found.rows[p] for p in going)):
        raise braked_since(table, Brake.TABLE_EMPTIED, EMPTY)
    unique = new_id()
    removal = start_removal(version.document, version.location, unique.int >> 65, str(unique))

    def goes(spec: int, entry: Record) -> bool:
        file = entry["data_file"]
        referenced = file.get("referenced_data_file")
        # A vector that names a file elsewhere would be applied there, whatever partition it says.
        stays = referenced is not None and referenced not in found.data_files
        return key_of(spec, file["partition"]) in going and not stays

    removal.summary["changed-partition-count"] = len(going)
    rows = [
        removal.manifest(files, place, row, goes) if found.affected.get(place, frozenset()) & going else dict(row)
        for place, row in enumerate(found.manifests.records)
    ]
    properties = {**drop.properties, COMMIT: _commit(drop)}
    snapshot = removal.snapshot(files, version.document, found.manifests, rows, now_ms, properties)
    try:
        versions.add(table, version, snapshot)
    except CatalogUnavailableError as error:
        # The answer may have been lost on its way: the next try looks first whether it was done.
        if versions.current(table).location != version.location:
            raise MovedOnError(error.message) from error
        raise
    return {**_result(snapshot), **kept}


def find_files(document: Mapping[str, Any], files: Files, partitions: Iterable[bytes]) -> Found | None:
    """What these partitions hold in the current snapshot; None if nothing. Manifests that cannot hold any stay unopened."""
    snapshot = current_snapshot(document)
    if snapshot is None:
        return None
    specs = specs_of(document)
    wanted = frozenset(partitions)
    values: dict[int, list[Any]] = {}
    for partition in wanted:
        number, some = json.loads(partition)
        values.setdefault(number, []).append(some)
    times = {int(s["snapshot-id"]): int(s["timestamp-ms"]) for s in document.get("snapshots") or []}
    manifests = read_list(files, snapshot)
    held: dict[bytes, tuple[int, int | None]] = {}
    rows: Counter[bytes] = Counter()
    affected: dict[int, set[bytes]] = {}
    data_files: set[str] = set()
    for place, row in enumerate(manifests.records):
        number = int(row["partition_spec_id"])
        if number not in values or not may_hold(row, specs[number], values[number]):
            continue
        for entry in read_manifest(files, row).records:
            file = entry["data_file"]
            key = key_of(number, file["partition"])
            if entry["status"] == DELETED or key not in wanted:
                continue
            affected.setdefault(place, set()).add(key)
            if row.get("content", DATA) == DATA:
                data_files.add(file["file_path"])
                rows[key] += rows_of(file)
            count, newest = held.get(key, (0, None))
            # Exactly as partitions are counted: an entry that does not say its snapshot has no time.
            added = times.get(entry["snapshot_id"])
            held[key] = count + 1, added if newest is None else newest if added is None else max(newest, added)
    touched = {place: frozenset(keys) for place, keys in affected.items()}
    return Found(manifests, touched, held, rows, frozenset(data_files)) if held else None


def commits_in(document: Mapping[str, Any], branch: str = MAIN) -> dict[str, Mapping[str, Any]]:
    """Snapshots of ours from a branch's head down, by the id that each was made under.

    One that a rollback took out of the branch stays in the table's list, but what it did is undone. Nor is one found below
    a snapshot that has expired: it is judged anew, and then finds nothing left to do.
    """
    found: dict[str, Mapping[str, Any]] = {}
    for snapshot in ancestors(document, branch):
        if made := (snapshot.get("summary") or {}).get(COMMIT):
            found.setdefault(str(made), snapshot)
    return found


def _commit(drop: Drop) -> str:
    return f"{drop.commit_user}/{drop.commit_identifier}"


def _made(version: Version, drop: Drop) -> Mapping[str, Any] | None:
    """What our own commit did, if the main branch has it already."""
    made = commits_in(version.document).get(_commit(drop))
    return None if made is None else _result(made)


def _result(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    summary = snapshot["summary"]
    return {
        "snapshot": snapshot["snapshot-id"],
        "files": int(summary.get("deleted-data-files", 0)),
        "records": int(summary.get("deleted-records", 0)),
        "partitions": int(summary.get("changed-partition-count", 0)),
    }
