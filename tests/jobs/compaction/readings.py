"""The rows of a table of the histories, by everyone who can read them: what must be the same before and after."""

from __future__ import annotations

from tests.jobs.compaction.workshop import Workshop

# Java's own reader spells fixed bytes by where they lie, and finds columns without ids by their place in the file.
NOT_BY_JAVA = {"types_that_spark_lacks", "hive_import", "plain_import"}
# Times of day are nothing that Spark reads.
NOT_BY_SPARK = {"types_that_spark_lacks"}
# PyIceberg reads neither equality deletes nor defaults of columns, and no files of Avro.
NOT_BY_PYICEBERG = {"deletes_of_java", "vectors_and_values_v3", "defaults_v3", "other_formats", "risen_from_v1"}
LINEAGE = ", _row_id, _last_updated_sequence_number"
# Rows that bounds of files, and of partitions in manifests, must not hide.
FILTERS = {
    "odd_partitions": (
        "d = double('NaN')", "d IS NULL", "s = ''", "s LIKE 'a/%'", "m < 0", "m = 0", "y = X'00FF'", "y = X''",
        "at < TIMESTAMP '1970-01-01 00:00:00'", "at IS NULL", "n = -1", "n = 0", "n IS NULL",
    ),
    "bounds": ("s > 'y'", "s < 'b'", "d = double('NaN')", "d = 0", "n IS NULL", "n = 5", "st.x > 'a'", "st.x IS NULL"),
    "types_v1": (
        "d38 < -1", "d18 > 1", "day < DATE '1000-01-01'", "at < TIMESTAMP '1970-01-01 00:00:00 UTC'", "st.y.z = double('NaN')",
        "y = X'FFFF'", "local < TIMESTAMP_NTZ '0002-01-01 00:00:00'", "s LIKE 'zzzzzzzzzzzzzzzzzzzz%'", "i = -2147483648",
    ),
}  # fmt: skip

Readings = dict[str, list[str]]


def readings(w: Workshop, name: str) -> Readings:
    """The rows by everyone who can read them, on every branch and tag, as text: no number equals another one that is none."""
    metadata = w.table(name).metadata
    found: Readings = {}
    if name not in NOT_BY_JAVA:
        found["java"] = w.java(name).rows()
    if name not in NOT_BY_SPARK:
        more = LINEAGE if metadata.format_version >= 3 else ""
        for ref in metadata.refs:
            at = "" if ref == "main" else f"VERSION AS OF '{ref}'"
            rows = w.spark.sql(f"SELECT *{more if ref == 'main' else ''} FROM {w.name(name)} {at}").collect()
            found[f"spark {ref}"] = sorted(repr(tuple(row)) for row in rows)
    if filters := FILTERS.get(name):
        each = (f"SELECT {place}, count(*) FROM {w.name(name)} WHERE {some}" for place, some in enumerate(filters))
        found["filtered"] = [repr(tuple(row)) for row in w.spark.sql(" UNION ALL ".join(each)).collect()]
    if name not in NOT_BY_PYICEBERG:
        rows = w.table(name).scan().to_arrow().to_pylist()
        found["pyiceberg"] = sorted(repr(row) for row in rows)
    return found
