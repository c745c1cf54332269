"""Dropping partitions: every live file of them marked as deleted in one commit. The files stay until snapshots expire."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice

from lakewarden.formats.avro import AvroFile, Record
from lakewarden.formats.paimon.commit.commit import Committed, commit_changes
from lakewarden.formats.paimon.commit.new_snapshot import Changes, Commit, Entries
from lakewarden.formats.paimon.manifests.files import Identity, identity_of, manifests_of, opened, read_needed
from lakewarden.formats.paimon.metadata.options import truth
from lakewarden.formats.paimon.metadata.read import read_table
from lakewarden.formats.paimon.metadata.support import check_supported
from lakewarden.formats.paimon.metadata.table import PaimonTable, Schema, Snapshot
from lakewarden.formats.paimon.partitions.values import Column, decode, partition_columns
from lakewarden.model.brakes import EMPTY, braked_since
from lakewarden.model.errors import UnreadableMetadataError, UnsupportedTableError
from lakewarden.model.ports import Files
from lakewarden.model.verdict import Brake

POSTPONED = -2  # the bucket number of tables whose files get their bucket later
_INDEXES = frozenset({"HASH", "DELETION_VECTORS"})
_ROWS = 20_000  # entries in one new manifest

# What a partition holds: how many files, and the newest known creation time of its entries.
Held = tuple[int, int | None]


@dataclass(frozen=True, slots=True)
class Dropped:
    """The commit that took partitions out, if one was needed, and those that were kept: they hold something else."""

    commit: Committed | None
    kept: frozenset[bytes] = frozenset()


def drop_partitions(
    location: str,
    files: Files,
    partitions: Collection[bytes],
    commit_user: str,
    commit_identifier: int,
    now_ms: int,
    sleep: Callable[[float], None] = time.sleep,
    *,
    expected: Mapping[bytes, Held] | None = None,
    properties: Mapping[str, str] | None = None,
    new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
    table_now: Callable[[str], PaimonTable] | None = None,
    may_empty: bool = False,
) -> Dropped:
    """Drop these partitions (the bytes of `_PARTITION`) from the main branch; no commit if none holds a file any more.

    One that holds something else than `expected` is kept, and is judged anew at each try: a writer may be quicker.
    `table_now` reads the table, or knows that it is still the one that was read before.

    A repeated call with the same user and identifier finds the commit that the first one made. Raises
    UnsupportedTableError for a table that needs more than a commit, CommitConflictError if other writers were quicker
    too often, PlanOutdatedError if no row would be left and the table may not be emptied, and what reading the table raises.
    """
    commit = Commit(commit_user, commit_identifier, now_ms, properties or {})
    kept: frozenset[bytes] = frozenset()

    def read() -> PaimonTable:
        table = read_table(location, files, sleep) if table_now is None else table_now(location)
        check_supported(location, table)
        check_droppable(table.main.schema)
        return table

    def plan(table: PaimonTable) -> Changes | None:
        nonlocal kept
        changes, kept = plan_drop(table, frozenset(partitions), files, expected or {}, may_empty=may_empty)
        return changes

    made = commit_changes(location, read, plan, commit, files, sleep, new_id)
    return Dropped(made, kept)


def check_droppable(schema: Schema) -> None:
    """Raise UnsupportedTableError for a table where a commit alone would leave something else out of step."""
    options = schema.options
    if truth(options, "metastore.partitioned-table"):
        raise _needs("metastore.partitioned-table=true", "its partitions are also in the metastore")
    if truth(options, "chain-table.enabled"):
        raise _needs("chain-table.enabled=true", "its branches share partitions")
    if options.get("metadata.iceberg.storage", "disabled").strip().lower() != "disabled":
        raise _needs("metadata.iceberg.storage", "its Iceberg metadata is written by Paimon's own commits only")
    if options.get("commit.callbacks", "").strip():
        raise _needs("commit.callbacks", "something wants to hear of every commit, and only Paimon's own tell it")


def plan_drop(
    table: PaimonTable,
    partitions: frozenset[bytes],
    files: Files,
    expected: Mapping[bytes, Held],
    *,
    may_empty: bool = False,
) -> tuple[Changes | None, frozenset[bytes]]:
    """What a commit changes in the latest snapshot, None if nothing; and the partitions that hold something unexpected.

    What changes: the live entries of the other partitions go, and their index entries.
    """
    nothing: frozenset[bytes] = frozenset()
    latest = table.main.latest
    if latest is None or not partitions:
        return None, nothing
    manifests = manifests_of(table, latest, files)
    if manifests is None:
        return None, nothing
    columns = partition_columns(table.main.schema)
    postponed = table.main.schema.options.get("bucket", "-1").strip() == str(POSTPONED)
    live = _Live(partitions, every_bucket=postponed)
    for uri, file in opened(table, manifests, files):
        live.add(uri, file)
    kept = frozenset(p for p, held in live.held.items() if held[0] > 0 and held != expected.get(p, held))
    deleted = tuple(part for part in live.deleted(columns) if part.partition not in kept)
    if not deleted:
        return None, kept
    if not may_empty and not live.leaves_rows(partitions - kept):
        raise braked_since(table.location, Brake.TABLE_EMPTIED, EMPTY)
    return Changes(manifests, deleted, _remaining_index(table, latest, partitions - kept, files)), kept


class _Live:
    """The entries of some partitions, added minus deleted, whatever order they come in; of the others, how many rows."""

    def __init__(self, partitions: frozenset[bytes], every_bucket: bool) -> None:
        self._partitions = partitions
        self._every_bucket = every_bucket
        self._counts: dict[Identity, int] = {}
        self._added: dict[Identity, tuple[str, Record]] = {}
        self._shapes: dict[str, AvroFile] = {}
        self._rows: Counter[bytes] = Counter()
        self.held: dict[bytes, Held] = {}

    def add(self, uri: str, file: AvroFile) -> None:
        shape = file.shape
        self._shapes.setdefault(shape, AvroFile(file.schema, file.codec, ()))
        for record in file.records:
            self._rows[record["_PARTITION"]] += _rows(record)
            if record["_PARTITION"] not in self._partitions:
                continue
            if record["_KIND"] not in (0, 1):
                raise UnreadableMetadataError(f"{uri} has an entry of the unknown kind {record['_KIND']}")
            identity, sign = identity_of(record), 1 if record["_KIND"] == 0 else -1
            self._counts[identity] = self._counts.get(identity, 0) + sign
            # Exactly as partitions are counted for a plan: every entry's time counts, those of deleted files too.
            files, newest = self.held.get(record["_PARTITION"], (0, None))
            times = [time for time in (newest, _created_ms(record)) if time is not None]
            self.held[record["_PARTITION"]] = files + sign, max(times, default=None)
            if record["_KIND"] == 0:
                self._added[identity] = shape, record

    def leaves_rows(self, going: Collection[bytes]) -> bool:
        """Whether a partition that stays has more rows than records that delete rows."""
        return any(count > 0 for partition, count in self._rows.items() if partition not in going)

    def deleted(self, columns: Sequence[Column]) -> Iterator[Entries]:
        """What is live, a partition and shape at a time."""
        groups: dict[tuple[bytes, str], list[Record]] = {}
        for identity, count in self._counts.items():
            if count not in (0, 1):
                raise UnreadableMetadataError(
                    f"the manifests add the file {identity[3]} {count} times more often than they delete it"
                )
            if count == 1:
                shape, record = self._added[identity]
                # Files that wait for their bucket are left to the table's own jobs, as Paimon leaves them.
                if self._every_bucket or record["_BUCKET"] >= 0:
                    groups.setdefault((record["_PARTITION"], shape), []).append(record)
        for (partition, shape), records in groups.items():
            nulls = tuple(value is None for value in decode(partition, columns))
            form, entries = self._shapes[shape], iter(records)
            while some := tuple(islice(entries, _ROWS)):
                yield Entries(partition, nulls, form.schema, form.codec, some)


def _rows(record: Record) -> int:
    """Rows that an entry adds, or takes away, less those that its file deletes."""
    file = record["_FILE"]
    # A record that deletes is counted as one of the file's, and takes a row of another file.
    rows = int(file["_ROW_COUNT"]) - 2 * int(file.get("_DELETE_ROW_COUNT") or 0)
    return rows if record["_KIND"] == 0 else -rows


def _created_ms(record: Record) -> int | None:
    """A wall clock without a zone, in milliseconds; None where the writer did not say."""
    created = record["_FILE"].get("_CREATION_TIME")
    if isinstance(created, datetime):
        return (created.replace(tzinfo=None) - datetime(1970, 1, 1)) // timedelta(milliseconds=1)
    return created if isinstance(created, int) else None


def _remaining_index(
    table: PaimonTable, snapshot: Snapshot, partitions: frozenset[bytes], files: Files
) -> AvroFile | None:
    """The index manifest without these partitions; None if it has nothing of them and stays as it is."""
    if snapshot.index_manifest is None:
        return None
    index = read_needed(files, table.manifest(snapshot.index_manifest))
    going = [record for record in index.records if record["_PARTITION"] in partitions]
    for record in going:
        if record["_INDEX_TYPE"] not in _INDEXES or record.get("_GLOBAL_INDEX") is not None:
            raise _needs(f"an index of the type {record['_INDEX_TYPE']}", "it may span more than these partitions")
    if not going:
        return None
    rest = tuple(record for record in index.records if record["_PARTITION"] not in partitions)
    return AvroFile(index.schema, index.codec, rest)


def _needs(what: str, why: str) -> UnsupportedTableError:
    return UnsupportedTableError(f"the table has {what}, and {why}; no partition was dropped")
