"""How Paimon names what it writes, as patterns over the path below a directory that the table writes to.

Only names with a uuid are ever candidates: nobody can commit under such a name again, and nobody else writes it by
chance. What a newer Paimon may write under names that are not known here stays. RE2 has no way to say "but not", so the
patterns spell out what there is.
"""

from __future__ import annotations

from lakewarden.model.ports import FileNames
from lakewarden.model.verdict import Kind

_UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_N = "[0-9]+"

_BRANCH = r"(branch/branch-[^/]+/)?"
_PARTITIONS = r"([^/=]+=[^/]*/)*"
_BUCKET = rf"bucket-({_N}|postpone)"
_IN_BUCKET = rf"{_PARTITIONS}{_BUCKET}/"

# pypaimon ends a changelog's list in a word and its manifests in word and number, and numbers no index manifest.
_LIST = rf"manifest/manifest-list-{_UUID}-({_N}|changelog)"
_MANIFEST = rf"manifest/(manifest-{_UUID}(-changelog)?-{_N}|index-manifest-{_UUID}(-{_N})?)(\.avro\.sidecar)?"
_STATISTICS = rf"statistics/stat-{_UUID}-{_N}"

# Index files lie in index/, in a bucket's directory, or directly in a directory of their own outside the table.
_INDEX_NAME = rf"(index-{_UUID}-{_N}|[a-zA-Z0-9][a-zA-Z0-9_-]*-global-index-{_UUID}\.index)"
_INDEX = rf"(index/|{_IN_BUCKET})?{_INDEX_NAME}"

# The prefix of a data file is the table's to choose, and a postponed bucket's holds the writer's name. The real file of
# compacted changelogs (`…$0-123.cc-orc`) is named by entries that give other names, so it is never a candidate;
# neither is a managed blob (`….managed.blob`), which no manifest names at all.
_FORMAT = "(orc|parquet|avro|csv|json|text|lance|mosaic|vortex|row|blob)"
_CODEC = "(zstd|zst|lz4|lz4_raw|snappy|gzip|gz|bzip2|bz2|deflate|zlib|lzo|brotli|none|uncompressed)"
_DATA_NAME = rf"([^/._][^/]*)?{_UUID}-{_N}(\.vector)?(\.{_CODEC})?\.{_FORMAT}(\.{_CODEC})?"
_FILE_INDEX = rf"(-{_N})?\.index"
_BESIDE_DATA = rf"(\.blobref|\.row|\.{_N}\.[a-zA-Z0-9_-]+\.[a-zA-Z0-9_-]+\.lookup)"
_DATA = rf"{_IN_BUCKET}{_DATA_NAME}({_FILE_INDEX}|{_BESIDE_DATA})?"

# Every atomic write is a temporary file beside its target, renamed when it is whole; ours, too, on a local disk.
_METADATA_DIRECTORY = rf"{_BRANCH}(snapshot|schema|tag|changelog|consumer)/"
_UNFINISHED = rf"\.([^/]+\.{_UUID}|lakewarden-[0-9a-f]{{16}})\.tmp"
_TEMPORARY = rf"({_METADATA_DIRECTORY}|manifest/|index/|statistics/|{_IN_BUCKET}){_UNFINISHED}"

_REUSED = (
    rf"{_BRANCH}(snapshot/(snapshot-[^/]*|EARLIEST|LATEST)|changelog/(changelog-[^/]*|EARLIEST|LATEST)"
    r"|tag/tag-[^/]*|schema/schema-[^/]*|consumer/consumer-[^/]*)"
)

NAMES = FileNames(
    written=rf"^({_LIST}|{_MANIFEST}|{_STATISTICS}|{_INDEX}|{_DATA}|{_TEMPORARY})$",
    hidden=r"\.managed\.blob$",
    # Ids and tag names come again after a rollback: their bytes, not their name, say what they are.
    reused=rf"^{_REUSED}$",
    kinds=(
        (Kind.OTHER, r"\.tmp$"),
        (Kind.METADATA, rf"^{_REUSED}$"),
        (Kind.MANIFEST_LIST, rf"^{_LIST}$"),
        (Kind.MANIFEST, rf"^{_MANIFEST}$"),
        (Kind.STATISTICS, rf"^{_STATISTICS}$"),
        (Kind.INDEX, rf"^({_INDEX}|{_IN_BUCKET}{_DATA_NAME}{_FILE_INDEX})$"),
        (Kind.DATA, rf"^{_IN_BUCKET}[^/]+$"),
    ),
    foreign={
        "delta": r"(^|/)_delta_log/",
        "hudi": r"(^|/)\.hoodie/",
        "iceberg": r"(^|/)metadata/[^/]*\.metadata\.json(\.gz)?$",
    },
    directories=rf"^{_PARTITIONS}([^/=]+=[^/]*|{_BUCKET})/?$",
)
