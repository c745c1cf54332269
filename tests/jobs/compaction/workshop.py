"""One catalog in the hands of Spark, of Java and of PyIceberg: where the tables of the histories are made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import NestedField

from tests.jobs.compaction.java_tables import JavaTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Workshop:
    """A catalog that Spark, Java and PyIceberg share."""

    spark: SparkSession
    lake: str
    catalog: Catalog
    base: Path

    def name(self, table: str) -> str:
        return f"{self.lake}.t.{table}"

    def create(self, table: str, columns: str, by: str = "", version: int = 2, more: str = "", place: str = "") -> str:
        name = self.name(table)
        self.spark.sql(
            f"CREATE TABLE {name} ({columns}) USING iceberg {f'PARTITIONED BY ({by})' if by else ''} "
            f"{f'LOCATION {place!r}' if place else ''} TBLPROPERTIES ('format-version'='{version}', "
            "'write.distribution-mode'='none', 'write.merge.distribution-mode'='none', "
            f"'write.delete.distribution-mode'='none', 'write.update.distribution-mode'='none'{f', {more}' if more else ''})"
        )
        return name

    def java(self, table: str) -> JavaTable:
        return JavaTable(self.spark, self.name(table))

    def make(self, table: str, *fields: NestedField, by: PartitionSpec | None = None) -> None:
        self.catalog.create_table(f"t.{table}", Schema(*fields), partition_spec=by or PartitionSpec())

    def table(self, table: str) -> Table:
        return self.catalog.load_table(f"t.{table}")

    def put(self, table: str, *rows: dict[str, Any]) -> None:
        """One file, by PyIceberg."""
        found = self.table(table)
        found.append(pa.Table.from_pylist(list(rows), schema=found.schema().as_arrow()))
