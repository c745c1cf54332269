"""Writes one Paimon table step by step, and keeps account of the rows that each of its refs must show."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pypaimon import CatalogFactory, Schema
from pypaimon.consumer.consumer import Consumer
from pypaimon.schema.data_types import AtomicType, PyarrowFieldParser
from pypaimon.schema.schema_change import SchemaChange
from pypaimon.write.table_delete import TableDeleteByRowId

from tests.formats.paimon import java
from tests.formats.paimon.reading import Ref, Row, Rows, branch_path, in_order, open_table, refs_of

DATABASE = "lake"

REFS = ("schema", "snapshot", "tag", "branch", "consumer", "changelog")
"""Directories of small documents that are never orphans; everything else in a table is named by them."""

COLUMNS = pa.schema([("dt", pa.string()), ("id", pa.int32()), ("v", pa.string())])


@dataclass(frozen=True, slots=True)
class History:
    """A table as some course of events left it."""

    name: str
    shows: str
    warehouse: Path
    location: Path
    refs: Mapping[Ref, Rows]
    """What every retained snapshot and tag of every branch must show."""
    external: tuple[Path, ...] = ()
    """Directories outside the table that hold its data files."""
    leftovers: frozenset[str] = frozenset()
    """Files in the table, by their path in it, that a writer made and nothing names any more."""
    opens_in_java: bool = True
    """Java 1.4 refuses some combinations of options that pypaimon writes."""

    @property
    def identifier(self) -> str:
        return f"{DATABASE}.{self.name}"

    def files(self) -> set[str]:
        """Every file of the table, by its path in it; those outside by their whole path."""
        outside = {str(path) for root in self.external for path in root.rglob("*") if path.is_file()}
        return files_of(self.location) | outside


def files_of(location: Path) -> set[str]:
    """Every file below a table's directory, by its path in it."""
    return {str(path.relative_to(location)) for path in location.rglob("*") if path.is_file()}


@dataclass(slots=True)
class Story:
    """A table while it is written. Each step is one deed of a writer, by pypaimon unless its name says Java."""

    name: str
    warehouse: Path
    columns: pa.Schema
    primary_keys: tuple[str, ...]
    shown_when_compacted: bool
    never_shown: bool
    states: dict[Ref, Rows] = field(default_factory=dict)
    now: dict[str, list[Row]] = field(default_factory=lambda: {"main": []})

    @classmethod
    def begin(
        cls,
        warehouse: Path,
        name: str,
        *,
        columns: pa.Schema = COLUMNS,
        partition_keys: Sequence[str] = (),
        primary_keys: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
    ) -> Story:
        """Create the table; columns of a primary key become NOT NULL."""
        typed = pa.schema([pa.field(one.name, one.type, nullable=one.name not in primary_keys) for one in columns])
        catalog = CatalogFactory.create({"warehouse": f"file://{warehouse}"})
        catalog.create_database(DATABASE, True)
        chosen = dict(options or {})
        schema = Schema.from_pyarrow_schema(typed, list(partition_keys), list(primary_keys), chosen)
        catalog.create_table(f"{DATABASE}.{name}", schema, False)
        vectors = bool(primary_keys) and chosen.get("deletion-vectors.enabled") == "true"
        return cls(name, warehouse, typed, tuple(primary_keys), vectors, chosen.get("bucket") == "-2")

    @property
    def location(self) -> Path:
        return self.warehouse / f"{DATABASE}.db" / self.name

    def end(
        self, shows: str, *, external: Iterable[Path] = (), leftovers: Iterable[str] = (), opens_in_java: bool = True
    ) -> History:
        refs = {ref: self.states[ref] for ref in refs_of(self.location)}
        outside, left = tuple(external), frozenset(leftovers)
        return History(self.name, shows, self.warehouse, self.location, refs, outside, left, opens_in_java)

    def content(self) -> set[str]:
        """The files that hold data or describe it, by their path in the table: all but the refs and schemas."""
        return {path for path in files_of(self.location) if path.partition("/")[0] not in REFS}

    def append(self, rows: Sequence[Row], branch: str = "main") -> None:
        self._commit(rows, branch, None)

    def overwrite(self, partition: Mapping[str, Any], rows: Sequence[Row], branch: str = "main") -> None:
        """Replace the rows of one partition, or of the table when it is empty."""
        self._drop(partition, branch)
        self._commit(rows, branch, partition)

    def _commit(self, rows: Sequence[Row], branch: str, overwrite: Mapping[str, Any] | None) -> None:
        builder = open_table(self.location, branch).new_batch_write_builder()
        if overwrite is not None:
            builder = builder.overwrite(dict(overwrite))
        write, commit = builder.new_write(), builder.new_commit()
        values = zip(*rows, strict=True)
        arrays = [pa.array(one, kind) for one, kind in zip(values, self.columns.types, strict=True)]
        write.write_arrow(pa.Table.from_arrays(arrays, schema=self.columns))
        commit.commit(write.prepare_commit())
        write.close()
        commit.close()
        self._apply(rows, ["+I"] * len(rows), branch)

    def truncate(self, partition: Mapping[str, Any], branch: str = "main") -> None:
        commit = open_table(self.location, branch).new_batch_write_builder().new_commit()
        commit.truncate_partitions([dict(partition)])
        commit.close()
        self._drop(partition, branch)
        self._settle(branch)

    def delete_by_row_id(self, ids: Sequence[int], rows: Sequence[Row]) -> None:
        """Delete those rows of an append table by deletion vectors; ids count the rows in the order of writing."""
        table = open_table(self.location)
        commit = table.new_batch_write_builder().new_commit()
        commit.commit(TableDeleteByRowId(table).delete(ids))
        commit.close()
        self.now["main"] = [row for row in self.now["main"] if row not in rows]
        self._settle("main")

    def add_column(self, name: str, kind: str) -> None:
        """A new schema: rows of now have null there, snapshots of before do not have the column."""
        catalog = CatalogFactory.create({"warehouse": f"file://{self.warehouse}"})
        change = SchemaChange.add_column(name, AtomicType(kind))
        catalog.alter_table(f"{DATABASE}.{self.name}", [change], False)
        self.columns = PyarrowFieldParser.from_paimon_schema(open_table(self.location).fields)
        self.now["main"] = [(*row, None) for row in self.now["main"]]

    def write_by_java(
        self,
        rows: Sequence[Row],
        *,
        kinds: Sequence[str] | None = None,
        branch: str = "main",
        bucket: int = -1,
        overwrite: Mapping[str, str] | None = None,
        compact: bool = False,
        options: Mapping[str, str] | None = None,
    ) -> None:
        java.write(
            self.location,
            rows,
            kinds=kinds,
            branch=branch,
            bucket=bucket,
            overwrite=overwrite,
            compact=compact,
            options=options,
        )
        if overwrite is not None:
            self._drop(overwrite, branch)
        self._apply(rows, kinds or ["+I"] * len(rows), branch)

    def compact_by_java(self, partition: Sequence[str] = (), bucket: int = 0, branch: str = "main") -> None:
        java.compact(self.location, partition, bucket, branch=branch)
        self._settle(branch)

    def truncate_by_java(self, partition: Mapping[str, str], branch: str = "main") -> None:
        java.truncate_partitions(self.location, [partition], branch)
        self._drop(partition, branch)
        self._settle(branch)

    def analyze_by_java(self) -> None:
        java.analyze(self.location)
        self._settle("main")

    def compact_manifests_by_java(self) -> None:
        java.compact_manifests(self.location)
        self._settle("main")

    def expire_by_java(self, retain: int, options: Mapping[str, str] | None = None) -> None:
        """Keep only that many of main's snapshots."""
        java.expire(self.location, retain_max=retain, retain_min=retain, time_retained_ms=0, options=options)

    def tag(self, name: str, snapshot: int, branch: str = "main", time_retained: str | None = None) -> None:
        open_table(self.location, branch).create_tag(name, snapshot, time_retained=time_retained)
        self.states[Ref(branch, tag=name)] = self.states[Ref(branch, snapshot=snapshot)]

    def delete_tag(self, name: str) -> None:
        """pypaimon removes the tag's own file and nothing else."""
        open_table(self.location).delete_tag(name)

    def branch(self, name: str, tag: str) -> None:
        open_table(self.location).branch_manager().create_branch(name, tag)
        self.now[name] = list(self.states[Ref(tag=tag)])
        self.states[Ref(name, tag=tag)] = self.states[Ref(tag=tag)]
        self._settle(name)

    def consumer(self, name: str, next_snapshot: int) -> None:
        open_table(self.location).consumer_manager().reset_consumer(name, Consumer(next_snapshot))

    def roll_back(self, snapshot: int, *, by_java: bool = False) -> None:
        """Forget main's later snapshots and tags; their ids will be used again."""
        if by_java:
            java.rollback(self.location, snapshot)
        else:
            open_table(self.location).rollback_to(snapshot)
        self._forget_what_is_gone("main")
        self.now["main"] = list(self.states[Ref(snapshot=snapshot)])

    def fast_forward_by_java(self, branch: str) -> None:
        """Main becomes what the branch is."""
        java.fast_forward(self.location, branch)
        self._forget_what_is_gone("main")
        for ref, rows in list(self.states.items()):
            if ref.branch == branch:
                self.states[Ref(snapshot=ref.snapshot, tag=ref.tag)] = rows
        self.now["main"] = list(self.now[branch])

    def lose_snapshot(self, number: int) -> set[str]:
        """A snapshot file removed by hand: a gap in the ids. Returns the manifest lists that only it had."""
        path = self.location / "snapshot" / f"snapshot-{number}"
        snapshot = json.loads(path.read_text())
        path.unlink()
        return {f"manifest/{snapshot[key]}" for key in ("baseManifestList", "deltaManifestList")}

    def lose_hints(self) -> None:
        for name in ("EARLIEST", "LATEST"):
            (self.location / "snapshot" / name).unlink(missing_ok=True)

    def _apply(self, rows: Sequence[Row], kinds: Sequence[str], branch: str) -> None:
        if self.never_shown:
            rows, kinds = [], []
        state = self.now[branch]
        for row, kind in zip(rows, kinds, strict=True):
            plain = in_order([row])[0]
            if self.primary_keys:
                state = [one for one in state if self._key(one) != self._key(plain)]
            if kind in ("+I", "+U"):
                state = [*state, plain]
        before, self.now[branch] = self.now[branch], state
        self._settle(branch, before)

    def _drop(self, partition: Mapping[str, Any], branch: str) -> None:
        wanted = dict(zip(partition, in_order([tuple(partition.values())])[0], strict=True))
        places = [(self.columns.names.index(key), value) for key, value in wanted.items()]
        self.now[branch] = [row for row in self.now[branch] if any(row[at] != value for at, value in places)]

    def _key(self, row: Row) -> Row:
        return tuple(row[self.columns.names.index(name)] for name in self.primary_keys)

    def _settle(self, branch: str, before: list[Row] | None = None) -> None:
        """Every snapshot that is new shows the rows of now.

        With deletion vectors on a primary key, readers skip files that no compaction has seen: there the APPEND
        snapshot before the compaction still shows the rows of before.
        """
        for ref in refs_of(self.location):
            if ref.branch == branch and ref not in self.states:
                old = before is not None and self.shown_when_compacted and self._kind_of(ref) == "APPEND"
                self.states[ref] = in_order(before if before is not None and old else self.now[branch])

    def _kind_of(self, ref: Ref) -> str:
        path = branch_path(self.location, ref.branch) / "snapshot" / f"snapshot-{ref.snapshot}"
        return str(json.loads(path.read_text())["commitKind"])

    def _forget_what_is_gone(self, branch: str) -> None:
        left = set(refs_of(self.location))
        self.states = {ref: rows for ref, rows in self.states.items() if ref.branch != branch or ref in left}


def move(history: History, warehouse: Path) -> History:
    """A copy in another warehouse, with the same modification times; not for tables with files outside."""
    target = warehouse / f"{DATABASE}.db" / history.name
    shutil.copytree(history.location, target)
    return replace(history, warehouse=warehouse, location=target)
