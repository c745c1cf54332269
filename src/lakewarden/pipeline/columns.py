"""The columns that travel between pipeline steps, each named once, and the Arrow shapes of the steps."""

from __future__ import annotations

import pyarrow as pa

TABLE = "table_id"  # index of the table in the fleet, stable within one plan
ROOT = "root_id"
KEY = "key"  # canonical address
KIND = "kind"
MARK = "mark"  # why a key matters: a sum of the MARK_* bits
SIZE = "size"
MODIFIED = "modified"
ETAG = "etag"
FLAG = "flag"
HOME = "home"  # prefix of the keys of a table whose files are known by bare name; null for full addresses

MARK_LIVE = 1
MARK_PENDING = 2
MARK_SEEN = 4  # an earlier plan already called it an orphan
MARK_DELETED = 16  # beside MARK_LIVE: the entry that names it says that it was deleted
MARK_RELEASED = 32  # named by what is about to expire
MARK_NOTE = 8  # not a file: a message from a task to the driver, in place of a key

MARK_LEVELS = 8  # the first bit of marks that stand for cases: needed in the first case, in the second, …

CONTENT_INDEX = 2
CONTENT_SIDECAR = 3

# One row per manifest list to read.
LISTS = pa.schema(
    [
        (TABLE, pa.int32()),
        ("format", pa.string()),
        ("uri", pa.string()),
        ("soft", pa.bool_()),
        ("data_files", pa.int64()),
        ("delete_files", pa.int64()),
        ("length", pa.int64()),
        (HOME, pa.string()),
    ]
)
# One row per manifest that a list names; `rows` and `live` are null where the list does not say.
# `content`: 0 data, 1 deletes, CONTENT_INDEX, or CONTENT_SIDECAR for a file beside a manifest that is not opened.
MANIFESTS = pa.schema(
    [
        (TABLE, pa.int32()),
        ("format", pa.string()),
        ("soft", pa.bool_()),
        ("path", pa.string()),
        ("length", pa.int64()),
        ("rows", pa.int64()),
        ("live", pa.int64()),
        ("content", pa.int32()),
        (HOME, pa.string()),
    ]
)
# MANIFESTS, and what their entries inherit where they do not say it themselves: the number of the commit that added them,
# and its snapshot. Null where a list does not say.
INHERITED = pa.schema([*MANIFESTS, ("sequence", pa.int64()), ("snapshot", pa.int64())])
# One row per reason why a key matters.
MARKS = pa.schema([(TABLE, pa.int32()), (KEY, pa.string()), (KIND, pa.int32()), (MARK, pa.int32())])

# One row per file that an entry of a manifest names: MARKS, and the size that the entry records, null where it does not.
NAMED = pa.schema([*MARKS, ("size", pa.int64())])

# One row per listed object.
LISTED = pa.schema(
    [
        (ROOT, pa.int32()),
        (KEY, pa.string()),
        (SIZE, pa.int64()),
        (MODIFIED, pa.timestamp("us", tz="UTC")),
        (ETAG, pa.string()),
        (FLAG, pa.string()),
    ]
)
# One row per listed or reachable object, ready to be judged. Live rows carry no key: they are only counted.
# `other` is a second table that needs the object, if one does.
JOINED = pa.schema([*LISTED, (TABLE, pa.int32()), (KIND, pa.int32()), (MARK, pa.int32()), ("other", pa.int32())])

# One row per file of a plan, as the Parquet files beside plan.json hold it.
PLAN_ROWS = pa.schema(
    [
        ("uri", pa.string()),
        ("table", pa.string()),
        ("verdict", pa.string()),
        ("reason", pa.string()),
        (KIND, pa.string()),
        (SIZE, pa.int64()),
        (MODIFIED, pa.timestamp("us", tz="UTC")),
        (ETAG, pa.string()),
        (ROOT, pa.int32()),
    ]
)


def level_mark(level: int) -> int:
    """The mark of what is needed in a case."""
    return 1 << (MARK_LEVELS + level)


def ddl(schema: pa.Schema) -> str:
    """The same shape in Spark's words."""
    return ", ".join(f"{field.name} {_spark_type(field.type)}" for field in schema)


def _spark_type(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"array<{_spark_type(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{field.name}: {_spark_type(field.type)}' for field in kind)}>"
    return _SPARK_TYPES[str(kind)]


_SPARK_TYPES = {
    "int32": "int",
    "int64": "bigint",
    "string": "string",
    "binary": "binary",
    "bool": "boolean",
    "double": "double",
    "timestamp[us, tz=UTC]": "timestamp",
}
