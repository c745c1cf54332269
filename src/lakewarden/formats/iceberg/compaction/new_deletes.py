"""Deletes by position that a commit of ours writes for its own new files: position deletes in version 2, vectors in version 3."""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakewarden.formats.avro import AvroFile, Record, write_avro
from lakewarden.formats.iceberg.commit.new_snapshot import POSITION, Removal, create_new
from lakewarden.formats.iceberg.compaction.head import Head
from lakewarden.formats.iceberg.compaction.new_manifests import (
    Replacement,
    fields_of,
    fitted,
    partition_type,
    todays_header,
    with_partition,
)
from lakewarden.formats.iceberg.data.columns import FIELD_ID
from lakewarden.formats.iceberg.data.deletes import FILE_PATH, MAGIC, POS, Positions
from lakewarden.formats.iceberg.manifests.files import ADDED, DELETES, ROW_IDS, manifest_of_version, set_counts
from lakewarden.formats.iceberg.manifests.opened import OpenedManifests
from lakewarden.formats.iceberg.partitions.summaries import partition_summaries
from lakewarden.model.ports import Files

PUFFIN = b"PFA1"
_ROW_POSITION = 2147483645  # the column that a vector is about
_SCHEMA = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={FIELD_ID: str(FILE_PATH).encode()}),
        pa.field("pos", pa.int64(), nullable=False, metadata={FIELD_ID: str(POS).encode()}),
    ]
)

_NEEDED_BY_VECTORS = {"content_offset", "content_size_in_bytes", "referenced_data_file"}

# By new file, the rows of it that are deleted.
Carried = Mapping[str, Positions]
Model = tuple[Record, AvroFile]


@dataclass(frozen=True, slots=True)
class _Deletes:
    """A file of deletes: its bytes, and what its manifest says of it beside size and place."""

    data: bytes
    said: Mapping[str, Any]


def vector_file(path: str, places: Positions) -> _Deletes:
    """A Puffin file with one deletion vector for that data file."""
    from pyroaring import BitMap64

    body = MAGIC + bytes(BitMap64(places.tolist()).serialize())
    blob = len(body).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")
    told = {
        "type": "deletion-vector-v1",
        "fields": [_ROW_POSITION],
        # The specification's: a vector is written before it is known which snapshot adds it.
        "snapshot-id": -1,
        "sequence-number": -1,
        "offset": len(PUFFIN),
        "length": len(blob),
        "properties": {"referenced-data-file": path, "cardinality": str(len(places))},
    }
    footer = json.dumps({"blobs": [told], "properties": {"created-by": "lakewarden"}}).encode()
    end = PUFFIN + footer + len(footer).to_bytes(4, "little") + bytes(4) + PUFFIN
    said = {"file_format": "PUFFIN", "content_offset": len(PUFFIN), "content_size_in_bytes": len(blob)}
    return _Deletes(PUFFIN + blob + end, said)


def position_file(path: str, places: Positions) -> _Deletes:
    """A Parquet file of position deletes, all about that data file."""
    sink = io.BytesIO()
    table = pa.table([pa.array([path] * len(places)), pa.array(places)], schema=_SCHEMA)
    pq.write_table(table, sink, compression="zstd", store_schema=False)
    text, ends = path.encode(), [int(place).to_bytes(8, "little", signed=True) for place in (places[0], places[-1])]
    counts = [{"key": POS, "value": len(places)}, {"key": FILE_PATH, "value": len(places)}]
    said = {
        "file_format": "PARQUET",
        "value_counts": counts,
        "null_value_counts": [{**one, "value": 0} for one in counts],
        # Equal bounds, never cut: readers know by them which file the deletes are about.
        "lower_bounds": [{"key": POS, "value": ends[0]}, {"key": FILE_PATH, "value": text}],
        "upper_bounds": [{"key": POS, "value": ends[1]}, {"key": FILE_PATH, "value": text}],
    }
    return _Deletes(sink.getvalue(), said)


def delete_manifests(
    files: Files,
    removal: Removal,
    head: Head,
    groups: Sequence[tuple[Replacement, Carried]],
    first: int,
    opened: OpenedManifests,
) -> Iterator[Record]:
    """Manifests of the deletes that are carried over, one for each spec, with the files that they name written.

    In the form of a manifest of deletes that is there already: the deletes that are carried over came with one. Their
    partitions are said as the data's are: another writer may have other names for them, or narrower types.
    """
    by_form: dict[tuple[int, str], list[tuple[Replacement, Carried]]] = {}
    for group, places in groups:
        data_row = head.manifests.records[head.data[group.first][0]]
        form = json.dumps(partition_type(opened.read(files, data_row)), sort_keys=True)
        by_form.setdefault((group.spec, form), []).append((group, places))
    for number, ((spec, form), some) in enumerate(sorted(by_form.items(), key=lambda item: item[0]), start=first):
        found = model_of(files, removal.version, head, spec, opened)
        assert found is not None, "looked for before anything was carried over"
        row, model = found[0], with_partition(found[1], json.loads(form))
        entries = [
            fitted(_entry(files, removal, head.data[group.first][1].file["partition"], path, rows_of_it), model)
            for group, places in some
            for path, rows_of_it in places.items()
        ]
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
            "content": DELETES,
            "sequence_number": removal.sequence,
            "min_sequence_number": removal.sequence,
            "partitions": partition_summaries(head.specs[spec], [group.partition for group, _ in some]),
        }
        none = {f"{kind}_{what}_count": 0 for kind in ("existing", "deleted") for what in ("files", "rows")}
        rows = sum(int(entry["data_file"]["record_count"]) for entry in entries)
        set_counts(new, {"added_files_count": len(entries), "added_rows_count": rows, **none})
        yield new


def model_of(files: Files, version: int, head: Head, spec: int, opened: OpenedManifests) -> Model | None:
    """A manifest of deletes of this spec that can say what has to be said of new ones, and its row of the list."""
    for place in sorted(set(head.places.values()), reverse=True):
        row = head.manifests.records[place]
        if int(row["partition_spec_id"]) == spec:
            found = manifest_of_version(replace(opened.read(files, row), records=()), version)
            if version < ROW_IDS or fields_of(found) >= _NEEDED_BY_VECTORS:
                return row, found
    return None


def _entry(files: Files, removal: Removal, partition: Record, path: str, places: Positions) -> Record:
    """Write the deletes of one new file beside it; their entry."""
    vector = removal.version >= ROW_IDS
    made = vector_file(path, places) if vector else position_file(path, places)
    uri = f"{path.removesuffix('.parquet')}-{removal.unique}-deletes.{'puffin' if vector else 'parquet'}"
    create_new(files, uri, made.data)
    kind = "added-dvs" if vector else "added-position-delete-files"
    size = made.said.get("content_size_in_bytes", len(made.data))
    counted = {"added-delete-files": 1, kind: 1, "added-position-deletes": len(places), "added-files-size": size}
    removal.summary.update(counted)
    described = {
        "content": POSITION,
        "file_path": uri,
        "partition": partition,
        "record_count": len(places),
        "file_size_in_bytes": len(made.data),
        "block_size_in_bytes": 64 << 20,
        "referenced_data_file": path,
        **made.said,
    }
    return {"status": ADDED, "snapshot_id": removal.snapshot_id, "data_file": described}
