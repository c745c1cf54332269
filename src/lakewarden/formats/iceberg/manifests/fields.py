"""Which fields of Iceberg's manifest lists and manifests matter, under every name they have had."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime

from lakewarden.formats.iceberg.metadata.strangers import FileReads, Recogniser
from lakewarden.model.errors import UnsupportedTableError
from lakewarden.model.ports import FileNames
from lakewarden.model.table import TableState
from lakewarden.model.verdict import Kind

# Column of ours -> the names the format has used for it. The first that the file has is taken.
LIST_FIELDS = {
    "path": ("manifest_path",),
    "length": ("manifest_length",),
    "content": ("content",),
    "added": ("added_files_count", "added_data_files_count"),
    "existing": ("existing_files_count", "existing_data_files_count"),
    "deleted": ("deleted_files_count", "deleted_data_files_count"),
}
MANIFEST_FIELDS = {
    "path": ("data_file.file_path",),
    "status": ("status",),
    "content": ("data_file.content",),
}
PARTITION_FIELDS = {"status": ("status",), "snapshot": ("snapshot_id",)}
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
REQUIRED = frozenset({"path", "length", "status"})


class IcebergReader:
    """The Avro side of the format, carried to executors."""

    format = "iceberg"
    names = NAMES
    by_name = False
    keeps_deleted = False

    def recogniser(
        self, states: Iterable[TableState], since: datetime, abandoned: Collection[str]
    ) -> Callable[[str, str, FileReads], dict[str, object] | None]:
        """What tells whose an unknown metadata file is; None for one that is simply old."""
        return Recogniser.of([state for state in states if state.format == self.format], since, abandoned)

    def list_columns(self, names: Iterable[str]) -> Mapping[str, str]:
        return _pick(LIST_FIELDS, names, "manifest list")

    def manifest_columns(self, names: Iterable[str]) -> Mapping[str, str]:
        return _pick(MANIFEST_FIELDS, names, "manifest")

    def partition_columns(self, names: Iterable[str]) -> Mapping[str, str]:
        """The status, the snapshot, and the values p0, p1, … of the partition in the order of its spec."""
        present = list(names)
        fields = [name for name in present if re.fullmatch(r"data_file\.partition\.[^.]+", name)]
        return _pick(PARTITION_FIELDS, present, "manifest") | {f"p{place}": name for place, name in enumerate(fields)}


def _pick(wanted: Mapping[str, tuple[str, ...]], names: Iterable[str], what: str) -> dict[str, str]:
    present = set(names)
    picked: dict[str, str] = {}
    for column, options in wanted.items():
        found = next((name for name in options if name in present), None)
        if found is not None:
            picked[column] = found
        elif column in REQUIRED:
            raise UnsupportedTableError(f"a {what} has no field {options[0]}")
    return picked
