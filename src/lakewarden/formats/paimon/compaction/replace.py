"""Data files replaced by others that hold the same rows: a COMPACT snapshot of our own, checked against the head it replaces.

A data file never changes, and its deletion vector is all that can happen to its rows. So one comparison decides at every
try: each input must be live, with the vector that was applied to it and no other. A group of which that is not true is
dropped, and the others land.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakewarden.formats.avro import AvroFile, Record
from lakewarden.formats.paimon.commit.commit import commit_changes
from lakewarden.formats.paimon.commit.new_snapshot import Changes, Commit, Entries
from lakewarden.formats.paimon.compaction.head import VECTORS, Head, LiveFile, index_path, read_head
from lakewarden.formats.paimon.compaction.layout import Layout
from lakewarden.formats.paimon.data.order import NewFile, Order, Rewritten
from lakewarden.formats.paimon.data.types import BY_PAIMON, ROW_ID, SEQUENCE_NUMBER
from lakewarden.formats.paimon.data.vectors import without
from lakewarden.formats.paimon.metadata.support import check_supported
from lakewarden.formats.paimon.metadata.table import PaimonTable, Snapshot
from lakewarden.formats.paimon.partitions.values import decode, partition_columns
from lakewarden.formats.recent_files import RecentFiles
from lakewarden.model.errors import (
    CommitConflictError,
    IncompleteManifestError,
    LeaseLostError,
    PlanOutdatedError,
    UnsupportedTableError,
)
from lakewarden.model.ports import Files

GROUPS, LEASE_KEY, LEASE_EPOCH = "lakewarden.groups", "lakewarden.lease-key", "lakewarden.lease-epoch"
FILES_ADDED, FILES_REMOVED = "lakewarden.files-added", "lakewarden.files-removed"
BYTES_ADDED, BYTES_REMOVED = "lakewarden.bytes-added", "lakewarden.bytes-removed"
_COMPACTED = 1  # the source of a file that a compaction wrote
# Without these fields a manifest cannot say what it must of a new file.
_NEEDED = ("_VALUE_STATS_COLS", "_FILE_SOURCE")
_NEEDED_BY_IDS = ("_FIRST_ROW_ID", "_WRITE_COLS")


@dataclass(frozen=True, slots=True)
class Replacement:
    """A group that was rewritten: what it was made of, what it became, and under which lease."""

    order: Order
    result: Rewritten
    lease_key: str = ""
    epoch: int = 0


@dataclass(frozen=True)
class Outcome:
    """What a commit did, by group: which landed, and why the others did not."""

    snapshot: int | None = None
    landed: Sequence[str] = ()
    dropped: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)


def replace_files(
    seen: PaimonTable,
    groups: Sequence[Replacement],
    commit: Commit,
    files: Files,
    table_now: Callable[[str], PaimonTable],
    may_commit: Callable[[], None],
    sent: set[str],
    recent: RecentFiles | None = None,
    sleep: Callable[[float], None] = time.sleep,
    new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
) -> Outcome:
    """Put the new files in the place of the old ones on the main branch. A repeated call finds the commit of the first.

    `sent` takes the groups of every try that came to its snapshot: of all others it is certain that none names their files.

    Raises CommitConflictError if other writers were quicker too often or changed what the groups stand on, LeaseLostError
    if somebody else has committed under a later epoch of a group's lease, and what reading the table raises.
    """
    outcome = Outcome()

    def read() -> PaimonTable:
        table = table_now(seen.location)
        if table.first_schema != seen.first_schema:
            raise PlanOutdatedError(f"{seen.location} was dropped and created again; nothing was committed to it")
        check_supported(seen.location, table)
        return table

    def plan(table: PaimonTable) -> Changes | None:
        nonlocal outcome
        _check_same(table, seen)
        _check_fence(table, seen, groups)
        layout = Layout.of(table)
        names = {one.name for group in groups for one in group.order.inputs}
        head = read_head(table, layout, names, files, recent)
        dropped = {g.order.group: why for g in groups if (why := _conflict(g, head)) is not None}
        landing = [group for group in groups if group.order.group not in dropped]
        outcome = Outcome(dropped=dropped)
        if not landing:
            return None
        _check_written(landing, files)
        changes = _changes(table, layout, head, landing, commit.time_ms, files, new_id)
        outcome = Outcome(None, [g.order.group for g in landing], dropped, changes.properties)
        return changes

    def may_publish() -> None:
        may_commit()
        sent.update(outcome.landed)

    made = commit_changes(seen.location, read, plan, commit, files, sleep, new_id, may_publish)
    if made is None:
        return outcome
    if outcome.landed:
        return Outcome(made.snapshot_id, outcome.landed, outcome.dropped, outcome.properties)
    # Made by a try whose answer was lost, or by a process that died behind it: the snapshot says what it did.
    own = next(s for s in table_now(seen.location).main.snapshots if commit.made(s))
    said = properties_of(own)
    return Outcome(made.snapshot_id, groups_of(said), {}, said)


def properties_of(snapshot: Snapshot) -> dict[str, str]:
    """What a snapshot's writer noted."""
    found = snapshot.document.get("properties") or {}
    return {str(key): str(value) for key, value in found.items()}


def groups_of(properties: Mapping[str, str]) -> list[str]:
    """The groups that a commit of ours rewrote."""
    return [name for name in properties.get(GROUPS, "").split(",") if name]


def _check_same(table: PaimonTable, seen: PaimonTable) -> None:
    if table.main.schema.id != seen.main.schema.id:
        raise CommitConflictError(f"{table.location} has another schema by now; its files were left as they are")


def _check_fence(table: PaimonTable, seen: PaimonTable, groups: Sequence[Replacement]) -> None:
    """Raise LeaseLostError if a later holder of a group's lease has committed already."""
    epochs = {group.lease_key: group.epoch for group in groups if group.lease_key}
    known = {snapshot.raw for snapshot in seen.main.snapshots}
    for snapshot in table.main.snapshots:
        if snapshot.raw in known:
            continue
        said = properties_of(snapshot)
        keys, found = said.get(LEASE_KEY, "").split(","), said.get(LEASE_EPOCH, "").split(",")
        for key, epoch in zip(keys, found, strict=False):
            if key in epochs and epoch.isdigit() and int(epoch) > epochs[key]:
                raise LeaseLostError(
                    f"{key} was committed under epoch {epoch}, and this worker holds {epochs[key]}; nothing was committed"
                )


def _conflict(group: Replacement, head: Head) -> str | None:
    """Why a group cannot land on this head; None if it can."""
    for one in group.order.inputs:
        if one.name not in head.files:
            return f"{one.path} is not in the table any more"
        if head.vectors.get(one.name) != one.vector:
            return f"rows of {one.path} were deleted, or brought back, while it was rewritten"
    return None


def _check_written(landing: Sequence[Replacement], files: Files) -> None:
    """Raise CommitConflictError unless every new file is there as it was written: nothing else may be committed."""
    for file in (file for group in landing for file in group.result.files):
        found = files.head(file.path)
        if found is None or found.size != file.size:
            raise CommitConflictError(f"the new file {file.path} is not there as it was written; nothing was committed")


def _changes(
    table: PaimonTable,
    layout: Layout,
    head: Head,
    landing: Sequence[Replacement],
    now_ms: int,
    files: Files,
    new_id: Callable[[], str],
) -> Changes:
    gone = [head.files[one.name] for group in landing for one in group.order.inputs]
    form = _widest([live.form for live in gone], tracked=landing[0].order.tracked)
    new = [
        (head.files[group.order.inputs[0].name], _new_entry(file, group, head, layout, form, now_ms))
        for group in landing
        for file in group.result.files
    ]
    columns = partition_columns(table.main.schema)
    deleted = _parts([(live.partition, live.form, live.record) for live in gone], columns)
    added = _parts([(model.partition, form, record) for model, record in new], columns)
    leased = [group for group in landing if group.lease_key]
    outputs = [file for group in landing for file in group.result.files]
    properties = {
        GROUPS: ",".join(group.order.group for group in landing),
        FILES_ADDED: str(len(outputs)),
        FILES_REMOVED: str(len(gone)),
        BYTES_ADDED: str(sum(file.size for file in outputs)),
        BYTES_REMOVED: str(sum(int(live.file["_FILE_SIZE"]) for live in gone)),
        LEASE_KEY: ",".join(group.lease_key for group in leased),
        LEASE_EPOCH: ",".join(str(group.epoch) for group in leased),
    }
    index = _without_vectors(head, layout, {str(live.file["_FILE_NAME"]) for live in gone}, files, new_id)
    changes = Changes(head.manifests, tuple(deleted), index, tuple(added), properties)
    lost = sum(group.result.rows_deleted for group in landing)
    if changes.rows != lost:
        raise IncompleteManifestError(
            f"{changes.rows} rows would go where vectors delete {lost}; nothing was committed to {table.location}"
        )
    return changes


def _widest(forms: Sequence[AvroFile], *, tracked: bool) -> AvroFile:
    """The form of a manifest that can say everything of a new file. Raises UnsupportedTableError if none can."""
    form = max(forms, key=lambda found: len(_file_fields(found)))
    lacking = {*_NEEDED, *(_NEEDED_BY_IDS if tracked else ())} - set(_file_fields(form))
    if lacking:
        raise UnsupportedTableError(
            f"the manifests of these files are of a Paimon too old to note {', '.join(sorted(lacking))}; nothing was changed",
            hint=BY_PAIMON,
        )
    return form


def _file_fields(form: AvroFile) -> list[str]:
    kind = next(field["type"] for field in form.schema["fields"] if field["name"] == "_FILE")
    record: Any = kind if isinstance(kind, dict) else next(option for option in kind if isinstance(option, dict))
    return [str(field["name"]) for field in record["fields"]]


def _new_entry(file: NewFile, group: Replacement, head: Head, layout: Layout, form: AvroFile, now_ms: int) -> Record:
    """The entry of a new file, beside the entry of the first file that it replaces."""
    model = head.files[group.order.inputs[0].name]
    said = model.file
    name = file.path.rpartition("/")[2]
    columns = [str(found["name"]) for found in group.order.schemas[group.order.schema]]
    described: Record = {
        "_FILE_NAME": name,
        "_FILE_SIZE": file.size,
        "_ROW_COUNT": file.rows,
        # Of a table without keys, alike in every entry.
        "_MIN_KEY": said["_MIN_KEY"],
        "_MAX_KEY": said["_MAX_KEY"],
        "_KEY_STATS": said["_KEY_STATS"],
        "_VALUE_STATS": {
            "_MIN_VALUES": bytes.fromhex(file.least),
            "_MAX_VALUES": bytes.fromhex(file.greatest),
            "_NULL_COUNTS": list(file.nulls),
        },
        "_MIN_SEQUENCE_NUMBER": file.min_sequence,
        "_MAX_SEQUENCE_NUMBER": file.max_sequence,
        "_SCHEMA_ID": group.order.schema,
        "_LEVEL": 0,
        "_EXTRA_FILES": [],
        # A wall clock without a zone: Paimon's own writers note the local one.
        "_CREATION_TIME": now_ms + _zone_ms(now_ms),
        "_DELETE_ROW_COUNT": 0,
        "_FILE_SOURCE": _COMPACTED,
        "_VALUE_STATS_COLS": list(file.stats_columns),
        "_EXTERNAL_PATH": file.path if layout.outside else None,
        "_WRITE_COLS": [*columns, ROW_ID, SEQUENCE_NUMBER] if group.order.tracked else None,
    }
    record = model.record
    return {
        **{found["name"]: record.get(found["name"]) for found in form.schema["fields"]},
        "_FILE": {name: described.get(name) for name in _file_fields(form)},
    }


def _zone_ms(now_ms: int) -> int:
    return int(time.localtime(now_ms // 1000).tm_gmtoff) * 1000


def _parts(entries: Sequence[tuple[bytes, AvroFile, Record]], columns: Any) -> Iterator[Entries]:
    """Entries by partition and shape, as manifests hold them."""
    grouped: dict[tuple[bytes, str], tuple[AvroFile, list[Record]]] = {}
    for partition, form, record in entries:
        grouped.setdefault((partition, form.shape), (form, []))[1].append(record)
    for (partition, _), (form, records) in grouped.items():
        nulls = tuple(value is None for value in decode(partition, columns))
        yield Entries(partition, nulls, form.schema, form.codec, tuple(records))


def _without_vectors(
    head: Head, layout: Layout, gone: set[str], files: Files, new_id: Callable[[], str]
) -> AvroFile | None:
    """The index manifest without the vectors of files that go; None if there are none of them."""
    if head.index is None or not gone & head.vectors.keys():
        return None
    records: list[Record] = []
    name = new_id()
    for number, record in enumerate(head.index.records):
        ranges = record["_DELETIONS_VECTORS_RANGES"] or ()
        if record["_INDEX_TYPE"] != VECTORS or not any(one["f0"] in gone for one in ranges):
            records.append(record)
            continue
        path = index_path(record, layout)
        try:
            data, left = without(files.get(path), path, ranges, gone)
        except FileNotFoundError as error:
            raise IncompleteManifestError(f"{path} is missing, and the latest snapshot needs it") from error
        if left:
            new = f"index-{name}-{number}"
            files.put(path.rpartition("/")[0] + f"/{new}", data)
            said = {
                "_FILE_NAME": new,
                "_FILE_SIZE": len(data),
                "_ROW_COUNT": len(left),
                "_DELETIONS_VECTORS_RANGES": left,
            }
            if record.get("_EXTERNAL_PATH"):
                said["_EXTERNAL_PATH"] = path.rpartition("/")[0] + f"/{new}"
            records.append({**record, **said})
    return AvroFile(head.index.schema, head.index.codec, tuple(records))


def live_inputs(files: Sequence[LiveFile]) -> str | None:
    """Why these files cannot be rewritten together; None if they can."""
    if len({(live.partition, live.bucket, live.record["_TOTAL_BUCKETS"]) for live in files}) > 1:
        return "its files lie in several buckets by now"
    for live in files:
        found = live.file
        if found.get("_EXTRA_FILES") or found.get("_EMBEDDED_FILE_INDEX") is not None:
            return f"{found['_FILE_NAME']} has an index or other files beside it"
        if found["_LEVEL"] != 0 or found.get("_DELETE_ROW_COUNT"):
            return f"{found['_FILE_NAME']} is not a file of plain rows"
    return None


def out_of_order(files: Sequence[LiveFile]) -> str | None:
    """Why the rows of these files cannot be numbered anew within the numbers that they have; None if they can.

    New rows are counted on from the first number. So long as no two files share a number and each has one for every row,
    they stay before all rows that come later.
    """
    highest = -1
    for found in sorted((live.file for live in files), key=lambda file: int(file["_MIN_SEQUENCE_NUMBER"])):
        first, last = int(found["_MIN_SEQUENCE_NUMBER"]), int(found["_MAX_SEQUENCE_NUMBER"])
        if first <= highest or last - first + 1 < int(found["_ROW_COUNT"]):
            return f"the rows of {found['_FILE_NAME']} are not numbered apart from others, and their order is kept"
        highest = last
    return None
