"""New files say of their columns what the specification asks, and obey the table's properties."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import datafusion
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewarden.formats.iceberg.data.bloom import bloom_filter, xxh64
from lakewarden.formats.iceberg.data.columns import annotated, arrow_schema
from lakewarden.formats.iceberg.data.footer import BLOOM_LENGTH, BLOOM_OFFSET, column_chunks, read_footer
from lakewarden.formats.iceberg.data.form import Form
from lakewarden.formats.iceberg.data.metrics import Metrics
from lakewarden.formats.iceberg.data.order import NewFile
from lakewarden.formats.iceberg.data.places import Spread
from lakewarden.formats.iceberg.data.thrift import dumps, loads
from lakewarden.formats.iceberg.data.write import Style, Writer
from lakewarden.model.errors import UnsupportedTableError
from tests.formats.iceberg.data.test_projection import column, schema

ONE = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")


class Local:
    """Files under one directory."""

    def put_stream(self, uri: str, pieces: Iterator[bytes]) -> None:
        Path(uri).parent.mkdir(parents=True, exist_ok=True)
        Path(uri).write_bytes(b"".join(pieces))


def written(tmp_path: Path, columns: dict[str, Any], rows: list[dict[str, Any]], **properties: str) -> NewFile:
    """One file of these rows."""
    fields = arrow_schema(columns)
    style = Style({f"write.parquet.{key}": value for key, value in properties.items()}, annotated(columns))
    (tmp_path / "scratch").mkdir(exist_ok=True)
    writer = Writer(Local(), str(tmp_path / "new"), fields, style, 1 << 29, tmp_path / "scratch")
    writer.add(pa.RecordBatch.from_pylist(rows, schema=fields))
    writer.close()
    (found,) = writer.files
    return found


LIST = {"type": "list", "element-id": 7, "element": "uuid"}
MAP = {"type": "map", "key-id": 8, "key": "uuid", "value-id": 9, "value": schema(column(10, "t", "time"))}
EVERY = schema(
    column(1, "u", "uuid"),
    column(2, "t", "time"),
    column(3, "s", schema(column(4, "t", "time"), column(5, "f", "fixed[16]"))),
    column(6, "l", LIST),
    column(11, "m", MAP),
    column(12, "n", "timestamp_ns"),
    column(13, "z", "timestamptz_ns"),
    *(column(20 + p, f"d{p}", f"decimal({p}, 2)") for p in (2, 9, 10, 18, 19, 38)),
)


def test_uuids_and_times_are_annotated_at_every_depth(tmp_path: Path) -> None:
    at = dt.time(1, 2, 3, 4)
    row = {
        "u": ONE.bytes,
        "t": at,
        "s": {"t": at, "f": b"0" * 16},
        "l": [ONE.bytes, None],
        "m": [(ONE.bytes, {"t": at})],
        "n": 1,
        "z": 2,
        "d38": Decimal("1.25"),
    }
    found = written(tmp_path, EVERY, [row, dict.fromkeys(row)])
    file = pq.ParquetFile(found.path)
    kinds = {
        file.schema.column(place).path: str(file.schema.column(place).logical_type) for place in range(len(file.schema))
    }
    assert {path for path, kind in kinds.items() if kind == "UUID"} == {"u", "l.list.element", "m.key_value.key"}
    times = {path: kind for path, kind in kinds.items() if kind.startswith("Time(")}
    assert set(times) == {"t", "s.t", "m.key_value.value.t"}
    assert all("isAdjustedToUTC=false" in kind for kind in times.values())
    assert kinds["s.f"] == "None"
    assert "isAdjustedToUTC=false, timeUnit=nanoseconds" in kinds["n"]
    assert "isAdjustedToUTC=true, timeUnit=nanoseconds" in kinds["z"]
    physical = {file.schema.column(p).path: file.schema.column(p).physical_type for p in range(len(file.schema))}
    stored = [physical[f"d{p}"] for p in (2, 9, 10, 18, 19, 38)]
    assert stored == ["INT32"] * 2 + ["INT64"] * 2 + ["FIXED_LEN_BYTE_ARRAY"] * 2
    group = file.metadata.row_group(0)
    told = {group.column(p).path_in_schema: group.column(p).is_stats_set for p in range(group.num_columns)}
    assert (told["u"], told["t"]) == (False, True)
    back = file.read().to_pylist()
    assert [{name: value for name, value in one.items() if name in ("u", "t", "s", "l", "m")} for one in back] == [
        {name: row[name] for name in ("u", "t", "s", "l", "m")},
        {"u": None, "t": None, "s": None, "l": None, "m": None},
    ]


def test_a_footer_is_written_as_it_was_read(tmp_path: Path) -> None:
    found = written(tmp_path, EVERY, [{"u": ONE.bytes}])
    data = Path(found.path).read_bytes()
    length = int.from_bytes(data[-8:-4], "little")
    footer = data[-8 - length : -8]
    assert dumps(loads(footer)[0]) == footer


@pytest.mark.parametrize("cut", [0, 1, 7, 40])
def test_a_damaged_footer_is_told(tmp_path: Path, cut: int) -> None:
    found = written(tmp_path, EVERY, [{"u": ONE.bytes}])
    with pytest.raises(ValueError, match=r"is cut|more members"):
        loads(dumps(read_footer(Path(found.path))[0])[:cut])


def test_the_hash_is_the_published_one() -> None:
    known = {
        b"": 0xEF46DB3751D8E999,
        b"a": 0xD24EC4F1A98C6E5B,
        b"abc": 0x44BC2CF5AD770999,
        b"Nobody inspects the spammish repetition": 0xFBCEA83C8A378BF1,
    }
    for text, expected in known.items():
        assert int(xxh64(np.frombuffer(text, np.uint8).reshape(1, -1))[0]) == expected


VALUES = {
    "int": (pa.array(range(3000), pa.int32()), pa.int32()),
    "long": (pa.array(range(3000), pa.int64()), pa.int64()),
    "double": (pa.array([n / 3 for n in range(3000)]), pa.float64()),
    "string": (pa.array([f"{'x' * (n % 70)}{n}" for n in range(3000)]), pa.string()),
    "date": (pa.array(range(3000), pa.int32()).cast(pa.date32()), pa.date32()),
    "decimal(9,2)": (pa.array([Decimal(n) / 4 for n in range(3000)], pa.decimal128(9, 2)), None),
}


@pytest.mark.parametrize("kind", list(VALUES))
def test_a_filter_is_the_same_as_another_writers(tmp_path: Path, kind: str) -> None:
    """Byte for byte what arrow-rs writes for the same values, share and number of values."""
    values, _ = VALUES[kind]
    ours = bloom_filter(pa.chunked_array([values]), 0.01, 1 << 20, 3000)
    context = datafusion.SessionContext()
    frame = context.from_arrow(pa.table({"a": values}))
    options = datafusion.ParquetWriterOptions(
        bloom_filter_on_write=True, bloom_filter_fpp=0.01, bloom_filter_ndv=3000, dictionary_enabled=False
    )
    frame.write_parquet_with_options(str(tmp_path / "peer.parquet"), options)
    ((_, _, chunk),) = column_chunks(read_footer(tmp_path / "peer.parquet")[0])
    data = (tmp_path / "peer.parquet").read_bytes()[chunk[BLOOM_OFFSET][1] :]
    if BLOOM_LENGTH in chunk:
        data = data[: chunk[BLOOM_LENGTH][1]]
    assert ours == data[: len(ours)]


def test_filters_are_where_the_footer_says(tmp_path: Path) -> None:
    columns = schema(column(1, "a", "string"), column(2, "s", schema(column(3, "n", "long"))))
    rows = [{"a": f"v{n}", "s": {"n": n * 7} if n % 3 else None} for n in range(500)]
    wanted = {"bloom-filter-enabled.column.a": "true", "bloom-filter-enabled.column.s.n": "true"}
    found = written(tmp_path, columns, rows, **wanted)
    data = Path(found.path).read_bytes()
    for _, path, chunk in column_chunks(read_footer(Path(found.path))[0]):
        values = (
            pa.array([row["a"] for row in rows]) if path == ("a",) else pa.array([n * 7 for n in range(500) if n % 3])
        )
        start, length = chunk[BLOOM_OFFSET][1], chunk[BLOOM_LENGTH][1]
        assert data[start : start + length] == bloom_filter(pa.chunked_array([values]), 0.01, 1 << 20, None)
    assert pq.read_table(found.path).to_pylist() == rows


def test_a_filter_is_never_larger_than_the_owner_allows() -> None:
    many = pa.chunked_array([pa.array(range(100_000))])
    assert len(bloom_filter(many, 0.01, 5000, None)) < 4096 + 32


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("page-row-limit", "100"),
        ("compression-codec", "lz4"),
        ("compression-codec", "lzo"),
        ("compression-level", "BEST"),
        ("row-group-size-bytes", "0"),
        ("page-version", "v3"),
        ("something-new", "1"),
        ("bloom-filter-fpp.column.a", "2"),
    ],
)
def test_a_property_that_cannot_be_obeyed_is_refused_by_name(key: str, value: str) -> None:
    with pytest.raises(UnsupportedTableError, match=key):
        Form.of(
            {f"write.parquet.{key}": value, "write.parquet.bloom-filter-enabled.column.a": "true",
             "write.parquet.compression-codec": value if key == "compression-codec" else "gzip"}
        )  # fmt: skip


@pytest.mark.parametrize("kind", ["boolean", LIST])
def test_a_filter_over_what_has_none_is_refused(tmp_path: Path, kind: Any) -> None:
    name = "a" if kind == "boolean" else "a.element"
    with pytest.raises(UnsupportedTableError, match=f"bloom filter over {name}"):
        written(tmp_path, schema(column(1, "a", kind)), [], **{f"bloom-filter-enabled.column.{name}": "true"})


def test_the_owner_chooses_codec_pages_dictionaries_and_statistics(tmp_path: Path) -> None:
    columns = schema(column(1, "a", "long"), column(2, "l", {"type": "list", "element-id": 3, "element": "long"}))
    said = {
        "compression-codec": "lz4_raw", "page-size-bytes": "1024", "page-version": "v2",
        "dict-encoding-enabled.column.l.element": "false", "stats-enabled.column.a": "false",
    }  # fmt: skip
    found = written(tmp_path, columns, [{"a": n, "l": [n]} for n in range(20_000)], **said)
    a, element = (pq.read_metadata(found.path).row_group(0).column(place) for place in (0, 1))
    assert (a.compression, a.statistics is None, a.has_dictionary_page) == ("LZ4", True, True)
    assert (element.statistics is None, element.has_dictionary_page) == (False, False)


TEXTS = st.none() | st.text(max_size=40) | st.sampled_from(["", "\U0010ffff" * 20, "a" * 4096, "a" * 4097, "b" * 5000])
# A member of a struct, and a column of the very name that a Parquet file has for that member.
NAMED_ALIKE = schema(
    column(1, "a", schema(column(2, "b", "string"))), column(3, "a.b", "string"), column(4, "c", "binary")
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.lists(st.tuples(TEXTS, TEXTS, TEXTS), min_size=1, max_size=4), min_size=1, max_size=3), st.booleans()
)
def test_bounds_of_texts_are_those_of_the_rows(
    tmp_path_factory: pytest.TempPathFactory, groups: list[list[tuple[str | None, ...]]], told: bool
) -> None:
    """Whether Arrow notes the ends of a row group, or leaves them out because they are long, or may not note any."""
    tmp_path, fields = tmp_path_factory.mktemp("texts"), arrow_schema(NAMED_ALIKE)
    properties = {
        "write.parquet.row-group-size-bytes": "1",
        "write.parquet.stats-enabled.column.a.b": str(told).lower(),
        "write.metadata.metrics.default": "full",
    }
    writer = Writer(Local(), str(tmp_path / "new"), fields, Style(properties, {}), 1 << 29, tmp_path)
    wanted = Metrics(fields, properties)
    for rows in groups:
        found = [{"a": {"b": b}, "a.b": text, "c": text and (c or "").encode()} for b, text, c in rows]
        batch = pa.RecordBatch.from_pylist(found, schema=fields)
        writer.add(batch)
        wanted.add(batch)
    writer.close()
    [file] = writer.files
    assert pq.read_metadata(file.path).num_row_groups == len(groups)
    lower, upper = wanted.bounds()
    assert file.lower == {number: value.hex() for number, value in lower.items()}
    assert file.upper == {number: value.hex() for number, value in upper.items()}


@pytest.mark.parametrize("metrics", ["full", "counts"])
def test_a_text_of_which_the_footer_says_nothing_has_the_bounds_of_its_rows(tmp_path: Path, metrics: str) -> None:
    """The footer leaves out uuids, and Arrow takes a column that is named like one of them for it."""
    named_alike = schema(column(1, "a", schema(column(2, "b", "uuid"))), column(3, "a.b", "string"))
    fields = arrow_schema(named_alike)
    style = Style({"write.metadata.metrics.default": metrics}, annotated(named_alike))
    writer = Writer(Local(), str(tmp_path / "new"), fields, style, 1 << 29, tmp_path)
    writer.add(pa.RecordBatch.from_pylist([{"a": {"b": bytes(16)}, "a.b": text} for text in "yx"], schema=fields))
    writer.close()
    [file] = writer.files
    bounds = {3: b"x".hex()}, {3: b"y".hex()}
    assert ({n: v for n, v in file.lower.items() if n == 3}, {n: v for n, v in file.upper.items() if n == 3}) == (
        bounds if metrics == "full" else ({}, {})
    )


def test_names_are_spread_as_java_spreads_them() -> None:
    """Four directories of a hash, then the partition; without partitions in paths, and in a root that tables share."""
    spread = Spread("s3://my-table-data-bucket/my_ns.db/my_table", "", True)
    found = spread.place("s3://my-table-data-bucket/my_ns.db/my_table/category=orders/00000-0-5affc076.parquet")
    rest = "category=orders/00000-0-5affc076.parquet"
    head = found.removesuffix(f"/{rest}").removeprefix("s3://my-table-data-bucket/my_ns.db/my_table/")
    assert [len(part) for part in head.split("/")] == [4, 4, 4, 8]
    assert set(head) <= set("01/")
    plain = Spread("s3://b/t/data", "", False).place("s3://b/t/data/x.parquet")
    assert plain.endswith("-x.parquet")
    shared = Spread("s3://b/all", "ns/t", True).place("s3://b/all/x.parquet")
    assert shared.endswith("/ns/t/x.parquet")
