"""Files at a new place: every address in them is the new one, everything else is as it was."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakewarden.formats.avro import header_of, read_avro, rewrite_avro
from lakewarden.formats.iceberg.relocation.addresses import relocate_list, relocate_manifest
from lakewarden.formats.iceberg.relocation.deletes import PATH_ID, POSITION_ID, PUFFIN_MAGIC, relocate_deletes
from lakewarden.formats.iceberg.relocation.document import moved_document
from lakewarden.model.errors import EncryptedTableError, IncompleteManifestError, UnsupportedTableError
from lakewarden.model.tiers import Move, MovedTable, cold_directory

MOVE = Move("s3://hot/t/", "s3://cold/t-1/")
HOT, COLD = "s3://hot/t/data/a.parquet", "s3://cold/t-1/data/a.parquet"


def test_each_file_has_one_new_address_and_no_two_share_one() -> None:
    addresses = {
        "s3://hot/t/data/a.parquet": "s3://cold/t-1/data/a.parquet",
        "s3a://hot/t/data/a.parquet": "s3://cold/t-1/data/a.parquet",
        "s3://hot/t2/data/a.parquet": "s3://cold/t-1/elsewhere/s3/hot/t2/data/a.parquet",
        "s3://other/t/data/a.parquet": "s3://cold/t-1/elsewhere/s3/other/t/data/a.parquet",
        "file:/x/a.parquet": "s3://cold/t-1/elsewhere/file/_/x/a.parquet",
        "s3://hot/t/elsewhere/s3/hot/t2/data/a.parquet": "s3://cold/t-1/elsewhere/s3/hot/t/elsewhere/s3/hot/t2/data/a.parquet",
    }
    assert {uri: MOVE(uri) for uri in addresses} == addresses
    back = Move("s3://cold/t-1/", "file:///w/t/", whole=True)
    assert back("s3://cold/t-1/elsewhere/file/_/x/a.parquet") == "file:///w/t/elsewhere/file/_/x/a.parquet"


def test_a_cold_directory_is_named_for_people_and_belongs_to_one_table() -> None:
    found = cold_directory("s3://cold/lake", "prod.a b.t/../x", "23150da8-1bb9-4b2a-9e0d-202423ce2145")
    assert found == "s3://cold/lake/prod/a_b/t_/_/_x-23150da8/"
    other = cold_directory("s3://cold/lake/", "prod.sales.orders", "99999999-1bb9-4b2a-9e0d-202423ce2145")
    assert other == "s3://cold/lake/prod/sales/orders-99999999/"


ENTRY: dict[str, Any] = {
    "type": "record",
    "name": "manifest_entry",
    "fields": [
        {"name": "status", "type": "int", "field-id": 0},
        {"name": "sequence_number", "type": ["null", "long"], "default": None, "field-id": 3},
        {
            "name": "data_file",
            "field-id": 2,
            "type": {
                "type": "record",
                "name": "r2",
                "fields": [
                    {"name": "content", "type": "int", "field-id": 134},
                    {"name": "file_path", "type": "string", "field-id": 100},
                    {
                        "name": "partition",
                        "field-id": 102,
                        "type": {
                            "type": "record",
                            "name": "r102",
                            "fields": [
                                {
                                    "name": "day",
                                    "type": ["null", {"type": "int", "logicalType": "date"}],
                                    "field-id": 1000,
                                }
                            ],
                        },
                    },
                    {"name": "file_size_in_bytes", "type": "long", "field-id": 104},
                    *(
                        {
                            "name": name,
                            "field-id": number,
                            "type": [
                                "null",
                                {
                                    "type": "array",
                                    "logicalType": "map",
                                    "items": {
                                        "type": "record",
                                        "name": f"k{number}",
                                        "fields": [
                                            {"name": "key", "type": "int", "field-id": number + 1},
                                            {"name": "value", "type": "bytes", "field-id": number + 2},
                                        ],
                                    },
                                },
                            ],
                        }
                        for name, number in (("lower_bounds", 125), ("upper_bounds", 128))
                    ),
                    {"name": "key_metadata", "type": ["null", "bytes"], "field-id": 131},
                    {
                        "name": "split_offsets",
                        "field-id": 132,
                        "type": ["null", {"type": "array", "items": "long", "element-id": 133}],
                    },
                    {"name": "referenced_data_file", "type": ["null", "string"], "field-id": 143},
                ],
            },
        },
    ],
}
BEYOND_PYTHON = 6_585_000  # days since 1970: the year 20,000


def entry(**file: Any) -> dict[str, Any]:
    common = {
        "content": 0,
        "file_path": HOT,
        "partition": {"day": BEYOND_PYTHON},
        "file_size_in_bytes": 10,
        "lower_bounds": None,
        "upper_bounds": None,
        "key_metadata": None,
        "split_offsets": [4],
        "referenced_data_file": None,
    }
    return {"status": 1, "sequence_number": None, "data_file": {**common, **file}}


def avro(schema: Any, records: list[Any], codec: str = "deflate", **metadata: str) -> bytes:
    out = BytesIO()
    fastavro.writer(out, json.loads(json.dumps(schema)), records, codec=codec, metadata=metadata)
    return out.getvalue()


def plain(schema: Any) -> Any:
    """Without logical types, so that a day beyond Python's calendar can be written."""
    text = json.dumps(schema).replace(', "logicalType": "date"', "")
    return json.loads(text)


def records_of(data: bytes, uri: str) -> list[Any]:
    return list(read_avro(data, uri, as_stored=True).records)


def dated(entries: list[Any], codec: str = "deflate") -> bytes:
    """A manifest whose header says `date`, as a writer's does."""
    data = avro(plain(ENTRY), entries, codec, **{"partition-spec-id": "0", "content": "data"})
    return data


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_a_manifest_keeps_its_header_and_what_it_inherits(codec: str) -> None:
    data = dated([entry(), entry(file_path="s3://far/b.parquet")], codec)
    moved = relocate_manifest(data, "m", MOVE, lambda _: {})
    assert list(header_of(moved, "m").items()) == list(header_of(data, "m").items())
    first, second = records_of(moved, "m")
    assert (first["data_file"]["file_path"], first["sequence_number"]) == (COLD, None)
    assert first["data_file"]["partition"] == {"day": BEYOND_PYTHON}
    assert first["data_file"]["split_offsets"] == [4]
    assert second["data_file"]["file_path"] == "s3://cold/t-1/elsewhere/s3/far/b.parquet"


def test_values_beyond_pythons_calendar_pass() -> None:
    """The header says `date`; decoded as such, the year 20,000 would be an error."""
    data = dated([entry()])
    head = header_of(data, "m")[b"avro.schema"]
    with_dates = json.dumps(ENTRY).encode()
    swapped = rewrite_avro(_with_schema(data, head, with_dates), "m", lambda records: None)
    assert b"logicalType" in header_of(swapped, "m")[b"avro.schema"]
    assert records_of(swapped, "m")[0]["data_file"]["partition"] == {"day": BEYOND_PYTHON}


def _with_schema(data: bytes, old: bytes, new: bytes) -> bytes:
    def length(number: int) -> bytes:
        rest, out = number << 1, bytearray()
        while rest > 0x7F:
            out.append((rest & 0x7F) | 0x80)
            rest >>= 7
        return bytes([*out, rest])

    assert length(len(old)) + old in data
    return data.replace(length(len(old)) + old, length(len(new)) + new, 1)


def test_a_position_deletes_size_bounds_and_file_are_the_new_ones() -> None:
    one = [{"key": PATH_ID, "value": HOT.encode()}, {"key": POSITION_ID, "value": b"\0"}]
    two = [{"key": PATH_ID, "value": b"s3://hot/t/data/z.parquet"}]
    path = "s3://hot/t/data/d-deletes.parquet"
    same = entry(content=1, file_path=path, lower_bounds=one, upper_bounds=one, referenced_data_file=HOT)
    wide = entry(content=1, file_path=path, lower_bounds=one, upper_bounds=two)
    moved = relocate_manifest(dated([same, wide]), "m", MOVE, lambda uris: dict.fromkeys(uris, 77))
    first, second = (record["data_file"] for record in records_of(moved, "m"))
    assert (first["file_size_in_bytes"], first["split_offsets"]) == (77, None)
    assert first["referenced_data_file"] == COLD
    assert {pair["key"]: pair["value"] for pair in first["lower_bounds"]} == {
        PATH_ID: COLD.encode(),
        POSITION_ID: b"\0",
    }
    assert first["upper_bounds"] == [{"key": POSITION_ID, "value": b"\0"}, {"key": PATH_ID, "value": COLD.encode()}]
    assert second["lower_bounds"] == [{"key": POSITION_ID, "value": b"\0"}], "addresses sort differently there"
    assert second["upper_bounds"] is None


def test_what_is_encrypted_cut_or_not_copied_stops() -> None:
    with pytest.raises(EncryptedTableError):
        relocate_manifest(dated([entry(key_metadata=b"k")]), "m", MOVE, lambda _: {})
    with pytest.raises(IncompleteManifestError, match="cannot be read"):
        relocate_manifest(dated([entry()])[:-20], "m", MOVE, lambda _: {})
    fields = [{"name": "manifest_path", "type": "string"}, {"name": "manifest_length", "type": "long"}]
    data = avro({"type": "record", "name": "f", "fields": fields}, [{"manifest_path": HOT, "manifest_length": 1}])
    with pytest.raises(IncompleteManifestError, match="no copy"):
        relocate_list(data, "l", MOVE, lambda _: {})
    assert records_of(relocate_list(data, "l", MOVE, lambda _: {HOT: 9}), "l") == [
        {"manifest_path": COLD, "manifest_length": 9}
    ]


def position_field(name: str, kind: pa.DataType, number: int) -> pa.Field:
    return pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})


def test_position_deletes_in_parquet_name_the_new_files_in_order() -> None:
    schema = pa.schema(
        [position_field("file_path", pa.string(), PATH_ID), position_field("pos", pa.int64(), POSITION_ID)]
    )
    schema = schema.with_metadata({"delete-type": "position"})
    # At the new place the second file sorts before the first.
    paths = ["s3://far/a.parquet", HOT, HOT]
    sink = BytesIO()
    pq.write_table(pa.table([pa.array(paths), pa.array([5, 2, 1])], schema=schema), sink)
    moved = relocate_deletes(sink.getvalue(), "d", MOVE)
    assert moved is not None
    found = pq.read_table(BytesIO(moved))
    assert found.to_pylist() == [
        {"file_path": COLD, "pos": 1},
        {"file_path": COLD, "pos": 2},
        {"file_path": "s3://cold/t-1/elsewhere/s3/far/a.parquet", "pos": 5},
    ]
    assert [field.metadata[b"PARQUET:field_id"] for field in found.schema] == [b"2147483546", b"2147483545"]
    assert found.schema.metadata[b"delete-type"] == b"position"


def test_position_deletes_in_avro_and_deletes_by_value() -> None:
    fields = [
        {"name": "file_path", "type": "string", "field-id": PATH_ID},
        {"name": "pos", "type": "long", "field-id": POSITION_ID},
    ]
    data = avro({"type": "record", "name": "d", "fields": fields}, [{"file_path": HOT, "pos": 3}])
    moved = relocate_deletes(data, "d", MOVE)
    assert moved is not None
    assert records_of(moved, "d") == [{"file_path": COLD, "pos": 3}]
    by_value = {"type": "record", "name": "d", "fields": [{"name": "id", "type": "long", "field-id": 1}]}
    assert relocate_deletes(avro(by_value, [{"id": 1}]), "d", MOVE) is None
    sink = BytesIO()
    pq.write_table(pa.table([pa.array([1])], schema=pa.schema([position_field("id", pa.int64(), 1)])), sink)
    assert relocate_deletes(sink.getvalue(), "d", MOVE) is None
    with pytest.raises(UnsupportedTableError, match="neither"):
        relocate_deletes(b"ORC...", "d.orc", MOVE)


def in_parquet(*fields: tuple[str, int]) -> bytes:
    """An empty file with columns of these names and field ids; 0 is none."""
    kinds = [
        position_field(name, pa.int64(), number) if number else pa.field(name, pa.int64()) for name, number in fields
    ]
    sink = BytesIO()
    pq.write_table(pa.schema(kinds).empty_table(), sink)
    return sink.getvalue()


def in_avro(*fields: tuple[str, int]) -> bytes:
    kinds = [{"name": name, "type": "long"} | ({"field-id": number} if number else {}) for name, number in fields]
    return avro({"type": "record", "name": "d", "fields": kinds}, [])


@pytest.mark.parametrize("written", [in_parquet, in_avro])
def test_position_deletes_without_their_ids_are_refused_and_not_copied(
    written: Callable[..., bytes],
) -> None:
    """PyIceberg applies them by the names of their columns: a copy would show the deleted rows again."""
    for path, position in ((0, 0), (PATH_ID, 0), (0, POSITION_ID)):
        with pytest.raises(UnsupportedTableError, match="lacks their field ids"):
            relocate_deletes(written(("file_path", path), ("pos", position)), "d", MOVE)
    # A table may have such columns, and deletes by their values; or have been imported without ids.
    assert relocate_deletes(written(("file_path", 1), ("pos", 2)), "d", MOVE) is None
    assert relocate_deletes(written(("file_path", 0), ("id", 0)), "d", MOVE) is None
    assert relocate_deletes(written(("file_path", PATH_ID), ("pos", POSITION_ID)), "d", MOVE) is not None


def puffin(*files: str, flags: bytes = b"\0\0\0\0") -> bytes:
    blobs = [
        {"type": "deletion-vector-v1", "offset": 4, "length": 3, "properties": {"referenced-data-file": f}}
        for f in files
    ]
    footer = json.dumps(
        {"blobs": blobs or [{"type": "apache-datasketches-theta-v1"}], "properties": {"a": "b"}}
    ).encode()
    return PUFFIN_MAGIC + b"\1\2\3" + PUFFIN_MAGIC + footer + len(footer).to_bytes(4, "little") + flags + PUFFIN_MAGIC


def test_deletion_vectors_stay_and_their_footer_names_the_new_file() -> None:
    moved = relocate_deletes(puffin(HOT), "p", MOVE)
    assert moved is not None
    assert moved[:11] == puffin(HOT)[:11], "manifests give the offsets"
    size = int.from_bytes(moved[-12:-8], "little")
    footer = json.loads(moved[-12 - size : -12])
    assert footer["blobs"][0]["properties"] == {"referenced-data-file": COLD}
    assert (footer["properties"], moved[-4:], moved[7:11]) == ({"a": "b"}, PUFFIN_MAGIC, PUFFIN_MAGIC)
    assert relocate_deletes(puffin(), "p", MOVE) is None
    with pytest.raises(UnsupportedTableError, match="compressed"):
        relocate_deletes(puffin(HOT, flags=b"\1\0\0\0"), "p", MOVE)
    with pytest.raises(IncompleteManifestError):
        relocate_deletes(puffin(HOT)[:-3], "p", MOVE)


def snapshot(number: int, parent: int | None = None) -> dict[str, Any]:
    found = {"snapshot-id": number, "sequence-number": number, "timestamp-ms": number * 10, "schema-id": number % 2}
    return {**found, "manifest-list": f"s3://hot/t/metadata/snap-{number}.avro", "parent-snapshot-id": parent}


def document(*numbers: int, **more: Any) -> dict[str, Any]:
    return {
        "format-version": 2,
        "table-uuid": "hot",
        "location": "s3://hot/t",
        "last-sequence-number": max(numbers),
        "last-updated-ms": 1000,
        "schemas": [{"schema-id": 1, "fields": []}],
        "current-schema-id": 1,
        "properties": {"write.data.path": "s3://hot/d", "lakewarden.orphan_cleanup.enabled": "true", "owner": "ada"},
        "snapshots": [snapshot(n, n - 1) for n in numbers],
        "snapshot-log": [{"snapshot-id": n, "timestamp-ms": n * 10} for n in numbers],
        "metadata-log": [{"metadata-file": "s3://hot/t/metadata/0.metadata.json", "timestamp-ms": 1}],
        **more,
    }


def moved_table(*ids: int) -> MovedTable:
    return MovedTable("cold", ids, MOVE, frozenset(), read_only=True, origin={"table": "prod.t"})


def log_of(made: dict[str, Any]) -> list[int]:
    return [entry["snapshot-id"] for entry in made["snapshot-log"]]


def test_a_cold_document_has_only_what_was_handed_over() -> None:
    schemas = [{"schema-id": 0, "fields": []}]
    first = moved_document([document(1, 2, 3, schemas=schemas)], None, moved_table(1, 2))
    made = moved_document([document(3, 4, 5)], first, moved_table(3, 4))
    assert [s["snapshot-id"] for s in made["snapshots"]] == [1, 2, 3, 4]
    assert {s["manifest-list"].rsplit("/", 1)[0] for s in made["snapshots"]} == {"s3://cold/t-1/metadata"}
    assert (made["table-uuid"], made["location"], made["metadata-log"]) == ("cold", "s3://cold/t-1", [])
    assert made["properties"] == {"owner": "ada", "gc.enabled": "false", "cold-copy.table": "prod.t"}
    assert made["refs"]["main"] == {"snapshot-id": 4, "type": "branch"}
    assert [schema["schema-id"] for schema in made["schemas"]] == [0, 1], "also those that the table has dropped since"
    assert (made["current-snapshot-id"], made["current-schema-id"]) == (4, 0)
    assert log_of(made) == [1, 2, 3, 4]
    assert "s3://hot" not in json.dumps(made)


def test_a_document_that_is_written_again_is_the_same() -> None:
    """A run may die when it has written the metadata and the ledger does not know."""
    first = moved_document([document(1, 2, 3)], None, moved_table(1, 2))
    made = moved_document([document(3, 4, 5)], first, moved_table(3, 4))
    assert moved_document([document(3, 4, 5)], made, moved_table(3, 4)) == made


def test_the_log_ends_at_a_gap() -> None:
    """Snapshot 3 stayed in the hot table: as of its time, the cold one must not answer with 2."""
    assert log_of(moved_document([document(1, 2, 3, 4, 5)], None, moved_table(1, 2, 4))) == [4]
    first = moved_document([document(1, 2, 3, 4)], None, moved_table(1))
    assert log_of(moved_document([document(3, 4, 5)], first, moved_table(3))) == [3]
    with pytest.raises(IncompleteManifestError, match="snapshot 9"):
        moved_document([document(1)], None, moved_table(9))
