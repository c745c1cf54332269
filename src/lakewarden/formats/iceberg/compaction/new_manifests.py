"""The manifests of files that a commit of ours adds, in the form that the manifests of their inputs have."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lakewarden.formats.avro import AvroFile, Record, write_avro
from lakewarden.formats.iceberg.commit.new_snapshot import Removal, create_new
from lakewarden.formats.iceberg.compaction.head import Head
from lakewarden.formats.iceberg.data.order import NewFile, Order, Rewritten
from lakewarden.formats.iceberg.manifests.files import ADDED, DATA, manifest_of_version, set_counts
from lakewarden.formats.iceberg.manifests.opened import OpenedManifests
from lakewarden.formats.iceberg.partitions.summaries import partition_summaries
from lakewarden.model.ports import Files


@dataclass(frozen=True, slots=True)
class Replacement:
    """A group that was rewritten: its partition, what it was made of, what it became, and under which lease."""

    spec: int
    partition: Record
    order: Order
    result: Rewritten
    lease_key: str = ""
    epoch: int = 0

    @property
    def name(self) -> str:
        return self.order.group

    @property
    def first(self) -> str:
        """The input whose manifest is the model for the group's new files."""
        return self.order.inputs[0].path


def new_entries(group: Replacement, head: Head, removal: Removal, read_at: int) -> list[Record]:
    """The manifest entries of a group's new files, in the form of the manifest that its first input is in."""
    model = head.data[group.first][1].entry
    return [_new_entry(file, model, removal, read_at) for file in group.result.files]


def _new_entry(file: NewFile, model: Mapping[str, Any], removal: Removal, read_at: int) -> Record:
    described: dict[str, Any] = {
        "file_path": file.path,
        "file_format": file.format,
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


def new_manifests(
    files: Files,
    removal: Removal,
    head: Head,
    landing: Sequence[Replacement],
    written: Sequence[Sequence[Record]],
    read_at: int,
    first: int,
    opened: OpenedManifests,
) -> Iterator[Record]:
    """Manifests of the new files, one for each spec, written in the form of one that held their inputs.

    More than one where a partition's values were widened with their column: a manifest from before has no room for them.
    """
    models: dict[int, AvroFile] = {}
    by_form: dict[tuple[int, str], list[tuple[Replacement, Sequence[Record]]]] = {}
    for group, entries in zip(landing, written, strict=True):
        if entries:
            place = head.data[group.first][0]
            if place not in models:
                found = opened.read(files, head.manifests.records[place])
                models[place] = manifest_of_version(replace(found, records=()), removal.version)
            by_form.setdefault((group.spec, _partition_form(models[place])), []).append((group, entries))
    for number, ((spec, _), some) in enumerate(sorted(by_form.items(), key=lambda item: item[0]), start=first):
        place = head.data[some[0][0].first][0]
        row, model = head.manifests.records[place], models[place]
        entries = [fitted(entry, model) for _, found in some for entry in found]
        header = todays_header(model, some[0][0].order.columns)
        data = write_avro(replace(model, records=tuple(entries), header=header))
        uri = f"{removal.directory}/{removal.unique}-m{number}.avro"
        create_new(files, uri, data)
        new: Record = {
            **row,
            "manifest_path": uri,
            "manifest_length": len(data),
            "partition_spec_id": spec,
            "added_snapshot_id": removal.snapshot_id,
            "partitions": partition_summaries(head.specs[spec], [group.partition for group, _ in some]),
        }
        counts = {"added_files_count": len(entries), "existing_files_count": 0, "deleted_files_count": 0}
        rows = sum(int(entry["data_file"]["record_count"]) for entry in entries)
        set_counts(new, counts | {"added_rows_count": rows, "existing_rows_count": 0, "deleted_rows_count": 0})
        if removal.version > 1:
            new |= {"content": DATA, "sequence_number": removal.sequence, "min_sequence_number": read_at}
        if "first_row_id" in new:
            new["first_row_id"] = None
        yield new


def todays_header(model: AvroFile, columns: Mapping[str, Any]) -> dict[str, str]:
    """Bounds are written in today's types: whoever reads them by the header must find these there."""
    return {**model.header, "schema": json.dumps(columns), "schema-id": str(columns.get("schema-id", 0))}


def _partition_form(model: AvroFile) -> str:
    """The types of a partition's values, as text."""
    fields = partition_type(model)["fields"]
    return json.dumps([[field["name"], field["type"]] for field in fields], sort_keys=True)


def partition_type(model: AvroFile) -> Record:
    """How a manifest spells partitions."""
    found: Record = next(field["type"] for field in _file_fields(model) if field["name"] == "partition")
    return found


def with_partition(model: AvroFile, kind: Record) -> AvroFile:
    """The manifest, without its records, that spells partitions like this."""
    inner = [{**field, "type": kind} if field["name"] == "partition" else field for field in _file_fields(model)]
    fields = [
        {**field, "type": {**field["type"], "fields": inner}} if field["name"] == "data_file" else field
        for field in model.schema["fields"]
    ]
    return replace(model, schema={**model.schema, "fields": fields}, records=())


def fitted(entry: Record, model: AvroFile) -> Record:
    """The entry with the fields that this manifest has: groups may have been modelled on other writers' manifests."""
    names = [field["name"] for field in model.schema["fields"]]
    inner = {name: entry["data_file"].get(name) for name in fields_of(model)}
    return {**{name: entry.get(name) for name in names}, "data_file": inner}


def fields_of(model: AvroFile) -> set[str]:
    """What a manifest can say of a file."""
    return {str(field["name"]) for field in _file_fields(model)}


def _file_fields(model: AvroFile) -> list[Record]:
    found: list[Record] = next(f["type"]["fields"] for f in model.schema["fields"] if f["name"] == "data_file")
    return found
