"""Which Paimon tables can be compacted exactly; the others are refused by name."""

from __future__ import annotations

from lakewarden.formats.paimon.compaction.layout import UNAWARE, keeps_order
from lakewarden.formats.paimon.data.stats import modes_of
from lakewarden.formats.paimon.data.types import BY_PAIMON, columns_of
from lakewarden.formats.paimon.data.write import Form
from lakewarden.formats.paimon.metadata.options import memory, truth, whole
from lakewarden.formats.paimon.metadata.table import Schema
from lakewarden.model.compaction import MAIN, CompactionPolicy
from lakewarden.model.errors import UnsupportedTableError

TARGET, TARGET_BYTES = "target-file-size", 256 << 20
# What a table may have beside its data files, or in them, that only Paimon's own writers keep up.
_KEPT_UP_BY_PAIMON = (
    "file-index.",
    "global-index.",
    "blob",
    "vector",
    "variant.",
    "video-",
    "clustering.",
    "btree-index.",
    "bitmap-index.",
    "full-text",
)
_HARMLESS = frozenset({"file-index.read.enabled", "global-index.enabled"})


def check_supported(schema: Schema, policy: CompactionPolicy) -> None:
    """Raise UnsupportedTableError for a table whose files this version cannot write exactly as its owner wants them."""
    options = schema.options
    if schema.primary_keys:
        raise _refused("has a primary key, whose files are merged by Paimon's own writers")
    if policy.branch != MAIN:
        raise _refused(f"is to be compacted on its branch {policy.branch}, and only main is there for Paimon")
    if policy.strategy != "binpack":
        raise _refused(f"is to be compacted by {policy.strategy}, and only binpack is there for Paimon")
    if truth(options, "data-evolution.enabled"):
        raise _refused("has data-evolution.enabled=true, and the columns of a row may lie in several files")
    if (form := options.get("file.format", "parquet").strip().lower()) != "parquet":
        raise _refused(f"has file.format={form}, and only parquet is written")
    for key in sorted(options):
        kept_up = key.startswith(_KEPT_UP_BY_PAIMON) or key.endswith(".map.storage-layout")
        if kept_up and key not in _HARMLESS:
            raise _refused(f"has {key}, which only Paimon's own writers keep up")
        if key.startswith("fields.") and key.endswith(".default-value"):
            raise _refused(f"has {key}, and whether a value was given or is the default cannot be told")
    if options.get("metadata.iceberg.storage", "disabled").strip().lower() != "disabled":
        raise _refused("has metadata.iceberg.storage, and Iceberg metadata is written by Paimon's own commits only")
    if options.get("commit.callbacks", "").strip():
        raise _refused("has commit.callbacks, and only Paimon's own commits tell what wants to hear of each")
    if whole(options, "bucket", UNAWARE) != UNAWARE and not truth(options, "write-only"):
        raise _refused("has buckets that its own writers compact, as write-only=true is not set")
    if keeps_order(options) and tracked(schema):
        raise _refused("keeps the order of rows in its buckets and tracks them, and one number cannot tell both")
    columns = columns_of(schema.fields)
    modes_of(options, columns)
    Form.of(options)


def target_of(schema: Schema, policy: CompactionPolicy) -> int:
    """The size that new files should have."""
    return policy.target_file_size_bytes or memory(schema.options, TARGET, TARGET_BYTES)


def tracked(schema: Schema) -> bool:
    """Whether rows have ids that they keep."""
    return truth(schema.options, "row-tracking.enabled")


def _refused(why: str) -> UnsupportedTableError:
    return UnsupportedTableError(f"the table {why}; nothing was touched", hint=BY_PAIMON)
