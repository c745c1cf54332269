"""What an object store lists, as rows. Arrow is loaded with the first listing: most commands need none."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.storage.store import DUPLICATE, MARKER

LISTING_SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        ("size", pa.int64()),
        ("modified", pa.timestamp("us", tz="UTC")),
        ("etag", pa.string()),
        ("flag", pa.string()),
    ]
)


def listed_rows(
    found: pa.RecordBatch, address: str, prefix: str, after: str | None, until: str | None
) -> pa.RecordBatch:
    """LISTING_SCHEMA of one page, keys under `prefix` in (after, until]; `address` is the bucket's own."""
    # A directory marker of the listed directory itself comes back as the directory's name.
    keep = pc.starts_with(found["path"], prefix)
    flag = _flags(found)
    if after is not None:
        keep = pc.and_(keep, pc.greater(found["path"], after))
    if until is not None:
        keep = pc.and_(keep, pc.less_equal(found["path"], until))
    columns = [
        pc.binary_join_element_wise(pa.scalar(address), found["path"].cast(pa.string()), ""),
        found["size"].cast(pa.int64()),
        found["last_modified"].cast(pa.timestamp("us", tz="UTC")),
        found["e_tag"].cast(pa.string()),
        flag,
    ]
    return pa.record_batch(columns, schema=LISTING_SCHEMA).filter(keep)


def _flags(found: pa.RecordBatch) -> pa.Array:
    """`marker` or `duplicate` where a listed name may stand for another object, else null.

    obstore drops a trailing slash: the marker `t/z/` is listed as `t/z`. Anything empty, and any name
    that is also a directory here, is therefore never taken for a file.
    """
    path = found["path"].cast(pa.string())
    if not len(path):
        return pa.nulls(0, pa.string())
    parents = pc.unique(pc.replace_substring_regex(path, pattern="/[^/]*$", replacement=""))
    counts = path.value_counts()
    twice = counts.field(0).filter(pc.greater(counts.field(1), 1))
    marker = pc.or_(pc.equal(found["size"], 0), pc.is_in(path, value_set=parents))
    nothing = pa.scalar(None, pa.string())
    return pc.if_else(
        pc.is_in(path, value_set=twice), pa.scalar(DUPLICATE), pc.if_else(marker, pa.scalar(MARKER), nothing)
    ).cast(pa.string())
