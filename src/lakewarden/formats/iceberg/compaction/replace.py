"""Data files replaced by others that hold the same rows: a `replace` snapshot of our own, checked against the head it replaces.

The files were rewritten as one snapshot showed them. New files carry that snapshot's sequence number: an equality delete
that came since still applies to them, one that was applied already does not. Whatever else happened to an input since
(taken away, deleted from by position) takes its group out of the commit; the other groups land.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from lakewarden.formats.avro import AvroFile, Record, write_avro
from lakewarden.formats.iceberg.commit.new_snapshot import (
    Removal,
    create_new,
    current_snapshot,
    spelled_out,
    start_removal,
)
from lakewarden.formats.iceberg.commit.versions import MovedOnError, Versions
from lakewarden.formats.iceberg.data.applicable import DeleteIndex, LiveFile, idle_deletes, live_delete
from lakewarden.formats.iceberg.data.order import EQUALITY, NewFile, Order, Rewritten
from lakewarden.formats.iceberg.manifests.files import (
    ADDED,
    DATA,
    DELETED,
    DELETES,
    live_count,
    manifest_of_version,
    read_list,
    read_manifest,
    set_counts,
)
from lakewarden.formats.iceberg.metadata.known import Version
from lakewarden.formats.iceberg.partitions.bounds import may_hold
from lakewarden.formats.iceberg.partitions.drop import COMMIT, commits_in_main
from lakewarden.formats.iceberg.partitions.specs import key_of, specs_of
from lakewarden.model.errors import CatalogUnavailableError, CommitConflictError, LeaseLostError
from lakewarden.model.ports import Files
from lakewarden.model.uri import canonical

TRIES = 8
LEASE_KEY, LEASE_EPOCH = "lakewarden.lease-key", "lakewarden.lease-epoch"
# What must be as it was when the files were rewritten.
SAME = ("table-uuid", "format-version", "current-schema-id", "partition-specs", "partition-spec")


@dataclass(frozen=True, slots=True)
class Replacement:
    """A group that was rewritten: its partition, what it was made of, what it became, and under which lease."""

    spec: int
    partition: Record
    order: Order
    result: Rewritten
    lease_key: str = ""
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit on one table: its groups, the snapshot that they were read from, and the name it is made under."""

    table: str
    seen: Version
    groups: tuple[Replacement, ...]
    name: str
    properties: Mapping[str, str]
    now_ms: int
    may_commit: Callable[[], None]


@dataclass(frozen=True)
class Head:
    """What the current snapshot holds, as far as the groups have to do with it."""

    manifests: AvroFile
    data: Mapping[str, tuple[int, LiveFile]]
    deletes: DeleteIndex
    places: Mapping[str, int]
    known: frozenset[bytes]
    everything: bool


@dataclass
class Outcome:
    """What a commit did, by group: which landed, and why the others did not."""

    snapshot: int | None = None
    landed: list[str] = field(default_factory=list)
    dropped: dict[str, str] = field(default_factory=dict)
    summary: Mapping[str, str] = field(default_factory=dict)


def replace_files(
    versions: Versions, files: Files, commit: Commit, new_id: Callable[[], uuid.UUID] = uuid.uuid4
) -> Outcome:
    """Put the new files in the place of the old ones on the main branch. A repeated call finds the commit of the first.

    Raises CommitConflictError if other writers were quicker too often or changed what the groups stand on, LeaseLostError
    if somebody else has committed under a later epoch of a group's lease, and what reading the table raises.
    """
    tries = Retrying(
        retry=retry_if_exception_type(MovedOnError),
        stop=stop_after_attempt(TRIES),
        wait=wait_random_exponential(0.05, 2),
        reraise=True,
    )
    try:
        return tries(_try, versions, files, commit, new_id)
    except MovedOnError as error:
        raise CommitConflictError(
            f"{commit.table} was changed by others each of the {TRIES} times that rewritten files were to be committed; "
            "its files were left as they are"
        ) from error


def _try(versions: Versions, files: Files, commit: Commit, new_id: Callable[[], uuid.UUID]) -> Outcome:
    version = versions.current(commit.table)
    if (made := commits_in_main(version.document).get(commit.name)) is not None:
        landed = str((made["summary"]).get("lakewarden.groups", "")).split(",")
        return Outcome(int(made["snapshot-id"]), [name for name in landed if name], {}, made["summary"])
    _check_same(version, commit)
    _check_fence(version, commit)
    head = _read_head(version, files, commit)
    dropped = {group.order.group: why for group in commit.groups if (why := _conflict(group, head, commit)) is not None}
    landing = [group for group in commit.groups if group.order.group not in dropped]
    if not landing:
        return Outcome(None, [], dropped)
    _check_written(files, landing)
    snapshot = _snapshot(version, files, commit, head, landing, new_id())
    # The last look before the swap: a worker that was given up meanwhile must not commit.
    commit.may_commit()
    try:
        versions.add(commit.table, version, snapshot)
    except CatalogUnavailableError as error:
        # The answer may have been lost on its way: the next try looks first whether it was done.
        if versions.current(commit.table).location != version.location:
            raise MovedOnError(error.message) from error
        raise
    names = [group.order.group for group in landing]
    return Outcome(int(snapshot["snapshot-id"]), names, dropped, snapshot["summary"])


def _check_same(version: Version, commit: Commit) -> None:
    """Raise CommitConflictError if the table has other columns, specs or another version by now, or was rolled back."""
    for name in SAME:
        if version.document.get(name) != commit.seen.document.get(name):
            raise CommitConflictError(f"{commit.table} has another {name} by now; its files were left as they are")
    base = current_snapshot(commit.seen.document)
    if base is None or int(base["snapshot-id"]) not in set(_ancestors(version.document)):
        raise CommitConflictError(
            f"{commit.table} was rolled back, or the snapshot that its files were read from has expired; "
            "its files were left as they are"
        )


def _check_written(files: Files, landing: Sequence[Replacement]) -> None:
    """Raise CommitConflictError unless every new file is there as it was written: nothing else may be committed."""
    for file in (file for group in landing for file in group.result.files):
        found = files.head(canonical(file.path))
        if found is None or found.size != file.size:
            raise CommitConflictError(f"the new file {file.path} is not there as it was written; nothing was committed")


def _check_fence(version: Version, commit: Commit) -> None:
    """Raise LeaseLostError if a later holder of a group's lease has committed already."""
    snapshots = {int(s["snapshot-id"]): s for s in version.document.get("snapshots") or []}
    base = current_snapshot(commit.seen.document)
    epochs = {group.lease_key: group.epoch for group in commit.groups if group.lease_key}
    for number in _ancestors(version.document):
        if base is not None and number == int(base["snapshot-id"]):
            return
        summary = snapshots[number].get("summary") or {}
        keys, found = str(summary.get(LEASE_KEY, "")), str(summary.get(LEASE_EPOCH, ""))
        for key, epoch in zip(keys.split(","), found.split(","), strict=False):
            if key in epochs and epoch.isdigit() and int(epoch) > epochs[key]:
                raise LeaseLostError(
                    f"{key} was committed under epoch {epoch}, and this worker holds {epochs[key]}; nothing was committed"
                )


def _ancestors(document: Mapping[str, Any]) -> Iterator[int]:
    """The main branch's snapshots, newest first."""
    snapshots = {int(s["snapshot-id"]): s for s in document.get("snapshots") or []}
    number = document.get("current-snapshot-id")
    while number is not None and (found := snapshots.pop(int(number), None)) is not None:
        yield int(number)
        number = found.get("parent-snapshot-id")


def live_files(files: Files, row: Record, version: int) -> list[LiveFile]:
    """The live files of a manifest, with what they inherit."""
    spec = int(row["partition_spec_id"])
    entries = manifest_of_version(read_manifest(files, row), version).records
    return [
        LiveFile(spec, int(entry["sequence_number"]) if version > 1 else 0, entry)
        for entry in spelled_out(entries, row, version)
        if entry["status"] != DELETED
    ]


def content_of(row: Mapping[str, Any]) -> int:
    return int(row.get("content") or DATA)


def _read_head(version: Version, files: Files, commit: Commit) -> Head:
    """Every delete, and the data files in the groups' partitions."""
    document = version.document
    specs, format_version = specs_of(document), int(document["format-version"])
    snapshot = current_snapshot(document)
    assert snapshot is not None
    manifests = read_list(files, snapshot)
    wanted: dict[int, list[Sequence[Any]]] = {}
    for group in commit.groups:
        wanted.setdefault(group.spec, []).append(tuple(group.partition.values()))
    data: dict[str, tuple[int, LiveFile]] = {}
    deletes: list[LiveFile] = []
    places: dict[str, int] = {}
    everything = True
    for place, row in enumerate(manifests.records):
        if live_count(row) == 0:
            continue
        spec = int(row["partition_spec_id"])
        if content_of(row) == DELETES:
            for live in live_files(files, row, format_version):
                deletes.append(live)
                places[live_delete(live).deletion.name] = place
        elif spec in wanted and may_hold(row, specs[spec], wanted[spec]):
            data |= {live.path: (place, live) for live in live_files(files, row, format_version)}
        else:
            everything = False
    # Not every partition that was seen: another manifest, left unread, may have older files of one that no group is in.
    known = frozenset(key_of(group.spec, group.partition) for group in commit.groups)
    return Head(manifests, data, DeleteIndex.of(deletes, specs), places, known, everything)


def _conflict(group: Replacement, head: Head, commit: Commit) -> str | None:
    """Why a group cannot land on this head; None if it can."""
    base = current_snapshot(commit.seen.document)
    assert base is not None
    read_at = int(base.get("sequence-number") or 0)
    for one in group.order.inputs:
        found = head.data.get(one.path)
        if found is None:
            return f"{one.path} is not in the table any more"
        if found[1].sequence != one.sequence:
            return f"{one.path} was taken away and added again"
        if found[1].file.get("first_row_id") != one.first_row_id:
            return f"rows of {one.path} were given ids while it was rewritten"
        applied = {deletion.name for deletion in one.deletes}
        now = {
            live.deletion.name
            for live in head.deletes.on(found[1])
            # An equality delete that came since applies to the new file too.
            if not (live.deletion.kind == EQUALITY and live.live.sequence > read_at)
        }
        if now != applied:
            return f"rows of {one.path} were deleted, or brought back, while it was rewritten"
    return None


def _snapshot(
    version: Version, files: Files, commit: Commit, head: Head, landing: Sequence[Replacement], unique: uuid.UUID
) -> dict[str, Any]:
    """The snapshot with the new files in the place of the old ones; everything that it names is written."""
    base = current_snapshot(commit.seen.document)
    assert base is not None
    read_at = int(base.get("sequence-number") or 0)
    removal = replace(
        start_removal(version.document, version.location, unique.int >> 65, str(unique)), operation="replace"
    )
    gone = {one.path for group in landing for one in group.order.inputs}
    left = [live for path, (_, live) in head.data.items() if path not in gone]
    written = [_new_entries(group, head, removal, read_at) for group in landing]
    staying = [*left, *(LiveFile(group.spec, read_at, e) for group, some in zip(landing, written, strict=True) for e in some)]  # fmt: skip
    idle = idle_deletes(head.deletes, gone, staying, head.known, head.everything)
    affected = {head.data[path][0] for path in gone} | {head.places[name] for name in idle}

    def goes(spec: int, entry: Record) -> bool:
        live = LiveFile(spec, 0, entry)
        content = int(entry["data_file"].get("content") or DATA)
        return live.path in gone if content == DATA else live_delete(live).deletion.name in idle

    rows = [
        removal.manifest(files, place, row, goes) if place in affected else dict(row)
        for place, row in enumerate(head.manifests.records)
    ]
    first = len(head.manifests.records)
    added = list(_new_manifests(files, removal, head, landing, written, read_at, first))
    removal.summary["changed-partition-count"] = len({key_of(group.spec, group.partition) for group in landing})
    names = [group.order.group for group in landing]
    leased = [group for group in landing if group.lease_key]
    properties = {
        **commit.properties,
        COMMIT: commit.name,
        "lakewarden.groups": ",".join(names),
        **(
            {
                LEASE_KEY: ",".join(group.lease_key for group in leased),
                LEASE_EPOCH: ",".join(str(group.epoch) for group in leased),
            }
            if leased
            else {}
        ),
    }
    return removal.snapshot(files, version.document, head.manifests, [*added, *rows], commit.now_ms, properties)


def _new_entries(group: Replacement, head: Head, removal: Removal, read_at: int) -> list[Record]:
    """The manifest entries of a group's new files, in the form of the manifest that its first input is in."""
    model = head.data[group.order.inputs[0].path][1].entry
    return [_new_entry(file, model, removal, read_at) for file in group.result.files]


def _new_entry(file: NewFile, model: Mapping[str, Any], removal: Removal, read_at: int) -> Record:
    described: dict[str, Any] = {
        "file_path": file.path,
        "file_format": "PARQUET",
        "partition": model["data_file"]["partition"],
        "record_count": file.rows,
        "file_size_in_bytes": file.size,
        "block_size_in_bytes": 64 << 20,
        "content": DATA,
        "column_sizes": _pairs(file.column_sizes),
        "value_counts": _pairs(file.value_counts),
        "null_value_counts": _pairs(file.null_counts),
        "nan_value_counts": _pairs(file.nan_counts),
        "lower_bounds": _pairs({number: bytes.fromhex(text) for number, text in file.lower.items()}),
        "upper_bounds": _pairs({number: bytes.fromhex(text) for number, text in file.upper.items()}),
        "split_offsets": list(file.split_offsets),
        "sort_order_id": file.sort_order_id,
    }
    removal.summary.update({"added-data-files": 1, "added-records": file.rows, "added-files-size": file.size})
    entry: Record = {
        "status": ADDED,
        "snapshot_id": removal.snapshot_id,
        "data_file": {name: described.get(name) for name in model["data_file"]},
    }
    if removal.version > 1:
        entry |= {"sequence_number": read_at, "file_sequence_number": None}
    return {name: entry.get(name) for name in model}


def _pairs(values: Mapping[int, Any]) -> list[Record]:
    return [{"key": number, "value": value} for number, value in sorted(values.items())]


def _new_manifests(
    files: Files,
    removal: Removal,
    head: Head,
    landing: Sequence[Replacement],
    written: Sequence[Sequence[Record]],
    read_at: int,
    first: int,
) -> Iterator[Record]:
    """Manifests of the new files, one for each spec, written in the form of one that held their inputs.

    More than one where a partition's values were widened with their column: a manifest from before has no room for them.
    """
    models: dict[int, AvroFile] = {}
    by_form: dict[tuple[int, str], list[tuple[Replacement, Sequence[Record]]]] = {}
    for group, entries in zip(landing, written, strict=True):
        if entries:
            place = head.data[group.order.inputs[0].path][0]
            if place not in models:
                found = read_manifest(files, head.manifests.records[place])
                models[place] = manifest_of_version(replace(found, records=()), removal.version)
            by_form.setdefault((group.spec, _partition_form(models[place])), []).append((group, entries))
    for number, ((spec, _), some) in enumerate(sorted(by_form.items(), key=lambda item: item[0]), start=first):
        place = head.data[some[0][0].order.inputs[0].path][0]
        row, model = head.manifests.records[place], models[place]
        entries = [_fitted(entry, model) for _, found in some for entry in found]
        data = write_avro(replace(model, records=tuple(entries)))
        uri = f"{removal.directory}/{removal.unique}-m{number}.avro"
        create_new(files, uri, data)
        new: Record = {
            **row,
            "manifest_path": uri,
            "manifest_length": len(data),
            "partition_spec_id": spec,
            "added_snapshot_id": removal.snapshot_id,
            "partitions": _summaries(row, some, head),
        }
        counts = {"added_files_count": len(entries), "existing_files_count": 0, "deleted_files_count": 0}
        rows = sum(int(entry["data_file"]["record_count"]) for entry in entries)
        set_counts(new, counts | {"added_rows_count": rows, "existing_rows_count": 0, "deleted_rows_count": 0})
        if removal.version > 1:
            new |= {"content": DATA, "sequence_number": removal.sequence, "min_sequence_number": read_at}
        if "first_row_id" in new:
            new["first_row_id"] = None
        yield new


def _partition_form(model: AvroFile) -> str:
    """The types of a partition's values, as text."""
    file = next(field for field in model.schema["fields"] if field["name"] == "data_file")
    found = next(field for field in file["type"]["fields"] if field["name"] == "partition")
    return json.dumps([[field["name"], field["type"]] for field in found["type"]["fields"]], sort_keys=True)


def _fitted(entry: Record, model: AvroFile) -> Record:
    """The entry with the fields that this manifest has: groups may have been modelled on other writers' manifests."""
    fields = {field["name"]: field for field in model.schema["fields"]}
    inner = {field["name"] for field in fields["data_file"]["type"]["fields"]}
    return {**{name: entry.get(name) for name in fields}, "data_file": {n: entry["data_file"].get(n) for n in inner}}


def _summaries(row: Record, some: Collection[tuple[Replacement, Any]], head: Head) -> Any:
    """What the manifests of all inputs say of their partitions where that is one manifest; else nothing, which is true."""
    places = {head.data[one.path][0] for group, _ in some for one in group.order.inputs}
    return row.get("partitions") if len(places) == 1 else None
