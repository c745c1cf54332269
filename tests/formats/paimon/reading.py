"""Reads a Paimon table back, row for row: each retained snapshot, tag and branch, by pypaimon and by Java."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.formats.paimon import java

if TYPE_CHECKING:
    from pypaimon.table.file_store_table import FileStoreTable

Row = tuple[Any, ...]
Rows = tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Ref:
    """A snapshot by its id, or a tag by its name, in a branch."""

    branch: str = "main"
    snapshot: int | None = None
    tag: str | None = None

    def __str__(self) -> str:
        return f"{self.branch}@{self.snapshot}" if self.tag is None else f"{self.branch}#{self.tag}"


def all_refs(location: Path, read: Callable[[Path, Ref], Rows] | None = None) -> dict[Ref, Rows]:
    """Every retained snapshot and tag of every branch with the rows it shows; by default read by pypaimon."""
    reader = read or rows_by_pypaimon
    return {ref: reader(location, ref) for ref in refs_of(location)}


def refs_of(location: Path) -> list[Ref]:
    """The snapshots and tags that lie in the table's directories, whatever any hint says."""
    refs = []
    for branch in branches_of(location):
        home = branch_path(location, branch)
        ids = sorted(int(path.name.removeprefix("snapshot-")) for path in home.glob("snapshot/snapshot-*"))
        refs += [Ref(branch, snapshot=number) for number in ids]
        refs += [Ref(branch, tag=path.name.removeprefix("tag-")) for path in sorted(home.glob("tag/tag-*"))]
    return refs


def branches_of(location: Path) -> list[str]:
    """main and the other branches, by their directories."""
    return ["main", *sorted(path.name.removeprefix("branch-") for path in location.glob("branch/branch-*"))]


def branch_path(location: Path, branch: str) -> Path:
    """Where a branch keeps its snapshots, tags and schemas."""
    return location if branch == "main" else location / "branch" / f"branch-{branch}"


def rows_by_java(location: Path, ref: Ref) -> Rows:
    """The rows Java reads there."""
    return in_order(java.rows(location, ref.branch, snapshot=ref.snapshot, tag=ref.tag))


def rows_by_pypaimon(location: Path, ref: Ref) -> Rows:
    """The rows pypaimon reads there."""
    options = {"scan.tag-name": ref.tag} if ref.tag is not None else {"scan.snapshot-id": str(ref.snapshot)}
    builder = open_table(location, ref.branch).copy(options).new_read_builder()
    table = builder.new_read().to_arrow(builder.new_scan().plan().splits())
    return in_order(tuple(row.values()) for row in table.to_pylist())


def open_table(location: Path, branch: str = "main") -> FileStoreTable:
    """pypaimon's table at that place, with the schema of that branch."""
    from pypaimon.common.file_io import FileIO
    from pypaimon.common.identifier import Identifier
    from pypaimon.common.options import Options
    from pypaimon.schema.schema_manager import SchemaManager
    from pypaimon.table.file_store_table import FileStoreTable

    path = f"file://{location}"
    file_io = FileIO.get(path, Options({}))
    schema = SchemaManager(file_io, path, branch=branch).latest()
    identifier = Identifier.create("lake", location.name, branch=None if branch == "main" else branch)
    return FileStoreTable(file_io, identifier, path, schema)


def in_order(rows: Iterable[Row]) -> Rows:
    """Rows as values that compare the same whoever read them, in one order; equal rows stay as many as they are."""
    return tuple(sorted((tuple(map(_plain, row)) for row in rows), key=repr))


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date | datetime) else value
