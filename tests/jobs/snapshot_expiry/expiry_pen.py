"""Writes one Iceberg table step by step, by Spark SQL or by PyIceberg."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType
from pyspark.sql import SparkSession

SCHEMA = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "part", StringType(), required=False))
BY_PART = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "part"))
MERGE_ON_READ = {f"write.{kind}.mode": "merge-on-read" for kind in ("delete", "update", "merge")}


@dataclass(frozen=True)
class Pen:
    """A table that is being written: `lake.histories.<name>`."""

    spark: SparkSession
    catalog: Catalog
    lake: str
    identifier: str
    base: Path

    @property
    def name(self) -> str:
        return f"{self.lake}.{self.identifier}"

    def table(self) -> Table:
        return self.catalog.load_table(self.identifier)

    def create(self, version: int = 2, *, partitioned: bool = True, **properties: str) -> None:
        """By PyIceberg, which does it in a few milliseconds; version 3 it cannot make, so that is raised by Spark."""
        given = {name.replace("__", "-").replace("_", "."): value for name, value in properties.items()}
        none = {f"write.{kind}distribution-mode": "none" for kind in ("", "delete.", "update.", "merge.")}
        spec = BY_PART if partitioned else PartitionSpec()
        first = {"format-version": str(min(version, 2)), **none, **given}
        self.catalog.create_table(self.identifier, SCHEMA, partition_spec=spec, properties=first)
        if version > 2:
            self.set(**{"format__version": str(version)})

    def set(self, **properties: str) -> None:
        named = {name.replace("__", "-").replace("_", "."): value for name, value in properties.items()}
        self.alter("SET TBLPROPERTIES (" + ", ".join(f"'{key}'='{value}'" for key, value in named.items()) + ")")

    def alter(self, change: str) -> None:
        self.spark.sql(f"ALTER TABLE {self.name} {change}")

    def sql(self, statement: str) -> None:
        """A statement in which `{t}` is the table."""
        self.spark.sql(statement.format(t=self.name))

    def append(self, first: int, count: int = 4, *, branch: str | None = None) -> None:
        """Rows first … first + count - 1 by PyIceberg, half in part a, half in part b."""
        self.table().append(arrow(first, count), branch=branch or "main")

    def overwrite(self, first: int, count: int = 4) -> None:
        """Everything replaced, by PyIceberg."""
        self.table().overwrite(arrow(first, count))

    def insert(self, first: int, count: int = 4, *, branch: str = "") -> None:
        """The same as `append` by Spark."""
        rows = ", ".join(f"({number}, '{'ab'[number % 2]}')" for number in range(first, first + count))
        self.spark.sql(f"INSERT INTO {self.name}{f'.branch_{branch}' if branch else ''} VALUES {rows}")

    def stage(self, first: int, wap_id: str) -> None:
        """Rows in a snapshot that no ref points at."""
        self.spark.conf.set("spark.wap.id", wap_id)
        try:
            self.insert(first)
        finally:
            self.spark.conf.unset("spark.wap.id")

    def call(self, procedure: str, *arguments: str) -> None:
        given = ", ".join((f"table => '{self.identifier}'", *arguments))
        self.spark.sql(f"CALL {self.lake}.system.{procedure}({given})")

    def snapshots(self) -> list[int]:
        """Ids, oldest first."""
        found = self.table().snapshots()
        return [s.snapshot_id for s in sorted(found, key=lambda s: (s.timestamp_ms, s.sequence_number or 0))]


def arrow(first: int, count: int = 4) -> pa.Table:
    ids = list(range(first, first + count))
    return pa.table({"id": pa.array(ids, pa.int64()), "part": ["ab"[i % 2] for i in ids]})


@dataclass(frozen=True)
class History:
    """A course of events, the limits it is tried with in our words and in Java's, and where ours keeps more."""

    name: str
    build: Callable[[Pen], None]
    policy: Mapping[str, Any] = field(default_factory=dict)
    older_than_hours: float | None = 1.0
    """Our `retain_hours`, Java's `older_than`; None leaves the matter to the table's own properties."""
    retain_last: int | None = None
    keeps: str = ""
    """Why ours keeps files that Java deletes, if it does."""
    trims: bool = False
    """Ours lets go of metadata files that the log has no room for; Java's procedure does not look at them."""


HISTORIES: dict[str, History] = {}


def history(**how: Any) -> Callable[[Callable[[Pen], None]], Callable[[Pen], None]]:
    """Register a builder under its name."""

    def register(build: Callable[[Pen], None]) -> Callable[[Pen], None]:
        HISTORIES[build.__name__] = History(build.__name__, build, **how)
        return build

    return register
