"""How Iceberg names what it writes, as patterns over the path below a directory that the table writes to."""

from __future__ import annotations

from lakewarden.model.ports import FileNames
from lakewarden.model.verdict import Kind

# What Iceberg writes: data, deletes, vectors, statistics, manifests, metadata.
NAMES = FileNames(
    written=r"\.(parquet|orc|avro|puffin|stats|metadata\.json|metadata\.json\.gz)$",
    # A hidden segment, unless it is a partition directory (`_day=3/`). A file's own name is never one.
    hidden=r"(^|/)(\.[^/]*|_[^/=]*)/|(^|/)[._][^/]*$",
    # Names that a later commit may use again: their bytes, not their name, say what they are.
    reused=r"(^|/)(version-hint\.text|v\d+(\.gz)?\.metadata\.json(\.gz)?)$",
    kinds=(
        (Kind.METADATA, r"(\.metadata\.json(\.gz)?|version-hint\.text)$"),
        (Kind.MANIFEST_LIST, r"(^|/)snap-[^/]*\.avro$"),
        (Kind.MANIFEST, r"(^|/)metadata/[^/]*\.avro$"),
        (Kind.STATISTICS, r"(\.stats|(^|/)metadata/[^/]*\.puffin|partition-stats[^/]*)$"),
        (Kind.DELETE, r"(-deletes\.(parquet|orc|avro)|\.puffin)$"),
        (Kind.DATA, r"\.(parquet|orc|avro)$"),
    ),
    foreign={"delta": r"(^|/)_delta_log/", "hudi": r"(^|/)\.hoodie/", "paimon": r"(^|/)snapshot/(LATEST|EARLIEST)$"},
)
