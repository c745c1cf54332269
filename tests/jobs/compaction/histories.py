"""Tables for compaction beyond those of tests/support/oracle_tables.py: types, evolved columns and specs, every kind of deletes,
odd places and names; written by Spark, by PyIceberg, and by Iceberg's Java library without Spark.

Each builder takes a workshop and leaves the table of its own name behind.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimeType,
    UUIDType,
)

from tests.jobs.compaction.workshop import Workshop
from tests.support.oracle_tables import MERGE_ON_READ

Build = Callable[[Workshop], None]


def column(number: int, name: str, kind: IcebergType) -> NestedField:
    return NestedField(number, name, kind)


SPARK_TYPES = (
    "b BOOLEAN, i INT, l BIGINT, f FLOAT, d DOUBLE, d9 DECIMAL(9,2), d18 DECIMAL(18,3), d38 DECIMAL(38,10), day DATE, "
    "at TIMESTAMP, local TIMESTAMP_NTZ, s STRING, y BINARY, st STRUCT<x: INT, y: STRUCT<z: DOUBLE>>, "
    "ls ARRAY<STRUCT<x: INT>>, ll ARRAY<ARRAY<INT>>, m MAP<STRING, STRUCT<x: INT>>, mm MAP<INT, MAP<INT, ARRAY<INT>>>"
)
SPARK_ROWS = (
    "(true, -2147483648, -9223372036854775808, float('NaN'), double('-Infinity'), -9999999.99, 999999999999999.999, "
    "-9999999999999999999999999999.9999999999, DATE '0001-01-01', TIMESTAMP '1969-12-31 23:59:59.999999 UTC', "
    "TIMESTAMP_NTZ '1582-10-04 00:00:00', repeat('z', 5000), X'FFFF', named_struct('x', 1, 'y', named_struct('z', double('NaN'))), "
    "array(named_struct('x', 1), null), array(array(1, null), null, array()), map('k', named_struct('x', 1), 'n', null), "
    "map(1, map(2, array(3, null), 3, null)))",
    "(false, 2147483647, 9223372036854775807, float('-0.0'), double('NaN'), 0.01, -0.001, 0, DATE '9999-12-31', "
    "TIMESTAMP '9999-01-01 00:00:00 UTC', TIMESTAMP_NTZ '0001-01-01 00:00:00.000001', '', X'', "
    "named_struct('x', null, 'y', null), array(), array(), map(), map())",
    "(null, null, null, float('0.0'), double('-0.0'), null, null, null, null, null, null, '\U0001f600 ünï', X'00', null, "
    "null, null, null, null)",
)


def _all_types(w: Workshop, name: str, version: int) -> None:
    table = w.create(name, SPARK_TYPES, version=version)
    for row in SPARK_ROWS:
        w.spark.sql(f"INSERT INTO {table} VALUES {row}")


def types_v1(w: Workshop) -> None:
    """Every type that Spark writes, at the edges, with null and empty lists and maps at each depth."""
    _all_types(w, "types_v1", 1)


def types_v3(w: Workshop) -> None:
    """The same in version 3."""
    _all_types(w, "types_v3", 3)


def types_of_java(w: Workshop) -> None:
    """The same rows once more, by Java's own writers: they encode what Spark's do, by other code."""
    w.create("types_of_java", SPARK_TYPES)
    for _ in range(2):
        w.java("types_of_java").copy(w.name("types_v1"))


def types_that_spark_lacks(w: Workshop) -> None:
    """Times of day, uuids and fixed bytes: carried over exactly, or refused by name."""
    from datetime import time
    from uuid import UUID

    fields = (column(1, "t", TimeType()), column(2, "u", UUIDType()), column(3, "x", FixedType(5)))
    w.make("types_that_spark_lacks", *fields)
    row = {"t": time(23, 59, 59, 999999), "u": UUID(int=2**128 - 1).bytes, "x": b"\0abc\xff"}
    w.put("types_that_spark_lacks", row, {})
    w.put("types_that_spark_lacks", {"t": time(0), "u": UUID(int=0).bytes, "x": b"\0" * 5})
    w.java("types_that_spark_lacks").append({"u": str(UUID(int=5))})


def evolved_columns(w: Workshop) -> None:
    """Added, dropped, renamed, reordered, promoted, dropped and added again under the same name; within structs too."""
    inner = StructType(column(10, "x", IntegerType()), column(11, "gone", StringType()))
    w.make(
        "evolved_columns",
        column(1, "id", IntegerType()),
        column(2, "s", StringType()),
        column(3, "f", FloatType()),
        column(4, "d", DecimalType(5, 2)),
        column(5, "st", inner),
        column(6, "m", MapType(20, StringType(), 21, inner, False)),
        column(7, "l", ListType(22, inner, False)),
    )
    old = {"x": 1, "gone": "g"}
    w.put(
        "evolved_columns",
        {"id": 1, "s": "old", "f": 0.1, "d": Decimal("123.45"), "st": old, "m": [("k", old)], "l": [old, None]},
        {"id": 2},
    )
    with w.table("evolved_columns").update_schema(allow_incompatible_changes=True) as change:
        change.update_column("id", LongType())
        change.update_column("f", DoubleType())
        change.update_column("d", DecimalType(38, 2))
        change.delete_column("s")
        change.rename_column("st", "point")
        for place in (("st",), ("m", "value"), ("l", "element")):
            change.update_column((*place, "x"), LongType())
            change.delete_column((*place, "gone"))
            change.add_column((*place, "more"), StringType())
    now = {"x": 2**40, "more": "m"}
    w.put(
        "evolved_columns", {"id": 2**40, "f": 0.1, "d": Decimal("1" * 30), "point": now, "m": [("k", now)], "l": [now]}
    )
    with w.table("evolved_columns").update_schema(allow_incompatible_changes=True) as change:
        change.add_column("s", LongType())
        change.move_first("point")
        change.rename_column("f", "s2")
        change.move_after("id", "l")
    w.spark.sql(f"INSERT INTO {w.name('evolved_columns')} (id, s) VALUES (4, 4)")


def defaults_v3(w: Workshop) -> None:
    """Columns with initial defaults of every plain kind, one of them in files of its own age, one changed since."""
    w.create("defaults_v3", "id BIGINT, st STRUCT<x: INT>", version=3)
    w.spark.sql(f"INSERT INTO {w.name('defaults_v3')} VALUES (1, named_struct('x', 1)), (2, null)")
    jvm: Any = w.spark._jvm
    types, literal = jvm.org.apache.iceberg.types.Types, jvm.org.apache.iceberg.expressions.Expressions.lit
    change = w.java("defaults_v3").table.updateSchema()
    change.addColumn("n", types.IntegerType.get(), "", literal(7))
    change.addColumn("s", types.StringType.get(), "", literal("by default"))
    change.addColumn("day", types.DateType.get(), "", literal("2024-02-29").to(types.DateType.get()))
    change.addColumn("m", types.DecimalType.of(9, 2), "", literal("1.50").to(types.DecimalType.of(9, 2)))
    zoned, local = types.TimestampType.withZone(), types.TimestampType.withoutZone()
    change.addColumn("at", zoned, "", literal("1969-12-31T23:00:00.000001+00:00").to(zoned))
    change.addColumn("local", local, "", literal("2024-02-29T01:02:03").to(local))
    change.addColumn("d", types.DoubleType.get(), "", literal(0.5))
    change.addColumn("b", types.BooleanType.get(), "", literal(True))
    change.addColumn("st", "y", types.IntegerType.get(), "", literal(9))
    change.commit()
    w.java("defaults_v3").table.updateSchema().updateColumnDefault("n", literal(8)).commit()
    w.java("defaults_v3").append({"id": 3, "n": None}, {"id": 4, "n": 1, "st": None})


def hive_import(w: Workshop) -> None:
    """Files without ids from partitioned directories, some times in the outdated form: right, or left alone by name."""
    place = w.base / "hive"
    for first in (0, 4):
        for part in "ab":
            (place / f"part={part}").mkdir(parents=True, exist_ok=True)
            at = pa.array([first, None], pa.timestamp("us", tz="UTC"))
            rows = pa.table({"id": pa.array([first, first + 1], pa.int64()), "at": at})
            old = first == 4 and part == "b"
            path = place / f"part={part}" / f"{first}.parquet"
            pq.write_table(rows, path, use_deprecated_int96_timestamps=old, store_schema=False)
    name = w.create("hive_import", "id BIGINT, part STRING, at TIMESTAMP", by="part")
    w.spark.sql(f"CALL {w.lake}.system.add_files(table => '{name}', source_table => '`parquet`.`file://{place}`')")
    w.spark.sql(f"INSERT INTO {name} VALUES (100, 'a', null), (101, 'b', null)")


def plain_import(w: Workshop) -> None:
    """Files without ids by PyIceberg's add_files, every column in them, one renamed since."""
    w.make("plain_import", column(1, "id", LongType()), column(2, "s", StringType()))
    for first in (0, 4):
        path = w.base / f"plain-{first}.parquet"
        pq.write_table(pa.table({"s": ["x", None, "y", ""], "id": pa.array(range(first, first + 4), pa.int64())}), path)
        w.table("plain_import").add_files([f"file://{path}"])
    with w.table("plain_import").update_schema() as change:
        change.rename_column("s", "text")
    w.put("plain_import", {"id": 100, "text": "z"})


def deletes_of_java(w: Workshop) -> None:
    """Equality deletes by Java in two specs, of one partition and of all, by one column and by two, with nulls among them."""
    w.create("deletes_of_java", "id BIGINT, s STRING, part STRING")
    table = w.java("deletes_of_java")
    table.append({"id": 1, "s": "a", "part": "p"}, {"id": 2, "part": "p"}, {"id": None, "s": "a", "part": "q"})
    table.append({"id": 4, "s": "a", "part": "q"}, {"id": 5, "part": "q"}, {"id": 6, "s": "f", "part": "p"})
    w.spark.sql(f"ALTER TABLE {w.name('deletes_of_java')} ADD PARTITION FIELD part")
    for part in "pq":
        for first in (10, 20):
            rows = ({"id": first + n, "s": "a" if n else None, "part": part} for n in range(3))
            table.append(*rows, partition=f"part={part}")
    table.delete({"id": 1, "s": "a"}, {"id": 2, "s": None}, {"id": 10, "s": None}, by=("id", "s"), spec=0)
    table.delete({"id": 11}, by=("id",), partition="part=p")
    # Written again after its delete; a delete of the other partition; a null that deletes nulls.
    table.append({"id": 11, "s": "again", "part": "p"}, partition="part=p")
    table.delete({"id": 21}, {"id": 6}, by=("id",), partition="part=q")
    table.delete({"id": None}, by=("id",), spec=0)


def vectors_and_values_v3(w: Workshop) -> None:
    """Version 3: rows that moved before (MERGE stores their ids), vectors on first rows, equality deletes, several row groups."""
    more = f"{MERGE_ON_READ}, 'write.parquet.row-group-size-bytes'='2000', 'write.parquet.page-size-bytes'='1000'"
    more += ", 'write.parquet.row-group-check-min-record-count'='100'"
    name = w.create("vectors_and_values_v3", "id BIGINT, s STRING", version=3, more=more)
    for first in (0, 400):
        w.spark.sql(f"INSERT INTO {name} SELECT id, uuid() FROM range({first}, {first + 400}, 1, 1)")
    w.spark.sql(f"DELETE FROM {name} WHERE id IN (0, 399, 400, 666)")
    w.spark.sql(
        f"MERGE INTO {name} t USING (SELECT id * 200 + 100 AS id FROM range(5)) u ON t.id = u.id "
        "WHEN MATCHED THEN UPDATE SET s = 'merged' WHEN NOT MATCHED THEN INSERT (id, s) VALUES (u.id, 'new')"
    )
    w.java("vectors_and_values_v3").delete({"id": 7}, {"id": 300}, by=("id",))
    w.spark.sql(f"DELETE FROM {name} WHERE id IN (8, 500)")


def positions_of_many_files(w: Workshop) -> None:
    """Position deletes of which one file is about several data files."""
    more = f"{MERGE_ON_READ}, 'write.delete.granularity'='partition'"
    name = w.create("positions_of_many_files", "id BIGINT, part STRING", by="part", more=more)
    for first in (0, 100):
        w.spark.sql(
            f"INSERT INTO {name} SELECT id, IF(id % 2 = 0, 'a', 'b') FROM range({first}, {first + 100}, 1, 1) ORDER BY 2"
        )
    w.spark.sql(f"DELETE FROM {name} WHERE id IN (0, 1, 50, 99, 100, 150, 199)")
    w.spark.sql(f"UPDATE {name} SET part = 'c' WHERE id IN (2, 3, 102)")


def odd_partitions(w: Workshop) -> None:
    """Partitions that are no number, of either zero, null, empty, negative, before 1970; of eight transforms and two specs."""
    name = w.create(
        "odd_partitions",
        "d DOUBLE, s STRING, m DECIMAL(20,2), y BINARY, at TIMESTAMP, n BIGINT",
        by="d, s, m, y, hours(at), bucket(3, n), truncate(10, n)",
    )
    rows = (
        "(double('NaN'), '', -1.10, X'', TIMESTAMP '1960-01-01 00:30:00', -1)",
        "(double('0.0'), 'a/b=c%2F', 0, X'00FF', TIMESTAMP '2024-01-01 00:00:00', 0)",
        "(double('-0.0'), 'a/b=c%2F', 0, X'00FF', TIMESTAMP '2024-01-01 00:00:00', 0)",
        "(null, null, null, null, null, null)",
    )
    for _ in range(2):
        w.spark.sql(f"INSERT INTO {name} VALUES {', '.join(rows)}")
    w.spark.sql(f"ALTER TABLE {name} DROP PARTITION FIELD d")
    w.spark.sql(f"INSERT INTO {name} VALUES {', '.join(rows)}")


def odd_place(w: Workshop) -> None:
    """A location with blanks, percent signs, letters beyond ASCII, and a data path of its own that ends in a slash."""
    place = f"file://{w.base}/odd place/100%25 ü+&=[1]/t"
    name = w.create("odd_place", "id BIGINT", place=place, version=3, more=MERGE_ON_READ)
    for first in (0, 10):
        w.spark.sql(f"INSERT INTO {name} SELECT id FROM range({first}, {first + 10}, 1, 1)")
    w.spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('write.data.path'='{place}/else where/')")
    w.spark.sql(f"INSERT INTO {name} SELECT id FROM range(20, 30, 1, 1)")
    w.spark.sql(f"DELETE FROM {name} WHERE id IN (0, 15, 25)")


def bounds(w: Workshop) -> None:
    """Texts beyond what footers note, columns of nulls and of no numbers, in some files and not in others."""
    name = w.create("bounds", "id BIGINT, s STRING, d DOUBLE, n BIGINT, st STRUCT<x: STRING>")
    w.spark.sql(f"INSERT INTO {name} VALUES (1, 'a', double('NaN'), null, null), (2, 'b', double('NaN'), null, null)")
    w.spark.sql(
        f"INSERT INTO {name} VALUES (3, repeat('z', 5000), 1.5, 5, named_struct('x', repeat('\U0010ffff', 30)))"
    )
    w.spark.sql(f"INSERT INTO {name} VALUES (4, null, double('-0.0'), null, named_struct('x', null))")


def once_sorted(w: Workshop) -> None:
    """Files that say they are sorted, in a table that wants no order any more."""
    name = w.create("once_sorted", "id BIGINT, s STRING")
    w.spark.sql(f"ALTER TABLE {name} WRITE LOCALLY ORDERED BY id")
    w.spark.sql(f"INSERT INTO {name} VALUES (3, 'a'), (1, 'b')")
    w.spark.sql(f"INSERT INTO {name} VALUES (2, 'a'), (0, 'b')")
    w.spark.sql(f"ALTER TABLE {name} WRITE UNORDERED")


def other_formats(w: Workshop) -> None:
    """Files of ORC and Avro in a table that writes Parquet by now."""
    name = w.create("other_formats", "id BIGINT", more="'write.format.default'='orc'")
    for kind in ("avro", "parquet"):
        w.spark.sql(f"INSERT INTO {name} VALUES (1)")
        w.spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('write.format.default'='{kind}')")
    w.spark.sql(f"INSERT INTO {name} VALUES (3)")


def risen_from_v1(w: Workshop) -> None:
    """Version 1, then 2 with position deletes, then 3 with vectors; a file without a row; the last commit gives no ids yet."""
    name = w.create("risen_from_v1", "id BIGINT, s STRING", version=1)
    path = w.base / "no rows.parquet"
    fields = [
        pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"}),
        pa.field("s", pa.string(), metadata={"PARQUET:field_id": "2"}),
    ]
    pq.write_table(pa.schema(fields).empty_table(), path)
    w.java("risen_from_v1").add(f"file://{path}", path.stat().st_size, rows=0)
    w.spark.sql(f"INSERT INTO {name} SELECT id, 'one' FROM range(0, 20, 1, 1)")
    w.spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('format-version'='2', {MERGE_ON_READ})")
    w.spark.sql(f"DELETE FROM {name} WHERE id IN (0, 5)")
    w.java("risen_from_v1").delete({"id": 6}, by=("id",))
    w.spark.sql(f"INSERT INTO {name} SELECT id, 'two' FROM range(20, 40, 1, 1)")
    w.spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('format-version'='3')")
    w.spark.sql(f"DELETE FROM {name} WHERE id IN (1, 25)")
    w.spark.sql(f"INSERT INTO {name} SELECT id, 'three' FROM range(40, 60, 1, 1)")


def branches_with_deletes(w: Workshop) -> None:
    """A branch with files and vectors of its own, a tag, and main that went on."""
    name = w.create("branches_with_deletes", "id BIGINT", version=3, more=MERGE_ON_READ)
    for first in (0, 10):
        w.spark.sql(f"INSERT INTO {name} SELECT id FROM range({first}, {first + 10}, 1, 1)")
    w.spark.sql(f"ALTER TABLE {name} CREATE BRANCH work")
    w.spark.sql(f"ALTER TABLE {name} CREATE TAG kept")
    w.spark.sql(f"DELETE FROM {name}.branch_work WHERE id IN (1, 11)")
    w.spark.sql(f"INSERT INTO {name}.branch_work SELECT id FROM range(100, 110, 1, 1)")
    w.spark.sql(f"DELETE FROM {name} WHERE id IN (2, 12)")


def partitions_of_pyiceberg(w: Workshop) -> None:
    """Partitioned by PyIceberg, rows overwritten by it, the partition's column renamed."""
    by = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "s"))
    w.make(
        "partitions_of_pyiceberg",
        column(1, "id", LongType()),
        column(2, "s", StringType()),
        column(3, "at", TimestampType()),
        by=by,
    )
    for first in (0, 3, 6):
        w.put("partitions_of_pyiceberg", *({"id": first + n, "s": s} for n, s in enumerate(("a", None, "b c"))))
    w.table("partitions_of_pyiceberg").delete("id = 4")
    with w.table("partitions_of_pyiceberg").update_schema() as change:
        change.rename_column("s", "part")


BUILDS: tuple[Build, ...] = (
    types_v1,
    types_v3,
    types_of_java,
    types_that_spark_lacks,
    evolved_columns,
    defaults_v3,
    hive_import,
    plain_import,
    deletes_of_java,
    vectors_and_values_v3,
    positions_of_many_files,
    odd_partitions,
    odd_place,
    bounds,
    once_sorted,
    other_formats,
    risen_from_v1,
    branches_with_deletes,
    partitions_of_pyiceberg,
)
