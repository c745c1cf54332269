"""A writer that changes a table by Spark's own statements, row by row deleted and merged beside the files."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from tests.jobs.compaction.workers.busy_lake import PARTS, BusyLake, Row, Writer
from tests.support.spark import REGION, add_postgres_catalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.storage import Seaweed

# What Iceberg's commits say when another one was quicker.
OVERTAKEN = (
    "CommitFailedException",
    "ValidationException",
    "Cannot commit",
    "Found conflicting",
    "Missing required files",
)
MODES = ", ".join(f"'write.{what}.mode'='merge-on-read'" for what in ("delete", "update", "merge"))
ROWS = 20


@dataclass
class SparkWriter(Writer):
    """INSERT, DELETE and MERGE; rows are deleted by position deletes."""

    spark: Any = None

    @property
    def name(self) -> str:
        """What Spark calls the table."""
        return f"{self.catalog.name}.{self.table}"

    def append(self) -> None:
        part = self.draw.choice(PARTS)
        first = self.number * 10**6 + self.acts["append"] * ROWS
        new = {first + n: (part, f"spark {self.draw.random()}") for n in range(ROWS)}
        self._run(f"INSERT INTO {self.name} VALUES {_values(new)}", new)
        self.rows |= new
        self.acts["append"] += 1

    def delete(self) -> None:
        gone = self.draw.choice(sorted(self.rows))
        self._run(f"DELETE FROM {self.name} WHERE id = {gone}", {gone: None})
        del self.rows[gone]
        self.acts["delete"] += 1

    def upsert(self) -> None:
        chosen = self.draw.sample(sorted(self.rows), min(3, len(self.rows)))
        new = {one: (self.draw.choice(PARTS), f"merged {self.draw.random()}") for one in chosen}
        new[self.number * 10**6 + 500_000 + self.acts["upsert"]] = ("a", "only merged")
        self._run(
            f"MERGE INTO {self.name} t USING (SELECT * FROM VALUES {_values(new)} AS v(id, part, text)) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
            new,
        )
        self.rows |= new
        self.acts["upsert"] += 1

    def act(self) -> None:
        """Each kind as often as the others: statements of Spark are few."""
        if not self.rows:
            self.append()
        else:
            self.draw.choice((self.append, self.delete, self.upsert))()

    def _run(self, statement: str, after: Mapping[int, Row]) -> None:
        for _ in range(200):
            try:
                self.spark.sql(statement)
                return
            except (Py4JJavaError, PySparkException) as error:
                if "CommitStateUnknownException" in str(error):
                    if self.landed(after, error):
                        return
                elif any(word in str(error) for word in OVERTAKEN):
                    self.acts["overtaken"] += 1
                else:
                    raise
            time.sleep(self.draw.uniform(0, 0.1))
        raise AssertionError(f"{self.table} could not be written to")


def _values(rows: dict[int, tuple[str, str]]) -> str:
    return ", ".join(f"(CAST({number} AS BIGINT), '{part}', '{text}')" for number, (part, text) in rows.items())


def add_spark_writer(lake: BusyLake, spark: SparkSession, seaweed: Seaweed) -> None:
    """One more writer of the lake's last table, by Spark."""
    properties = lake.site.catalogs[lake.catalog]
    if properties["type"] == "rest":
        io = {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO", "s3.path-style-access": "true", "client.region": REGION}
        keys = {key: value for key, value in properties.items() if key.startswith("s3.")}
        prefix = f"spark.sql.catalog.{lake.catalog}"
        spark.conf.set(prefix, "org.apache.iceberg.spark.SparkCatalog")
        for key, value in {"type": "rest", "uri": properties["uri"], "cache-enabled": "false", **io, **keys}.items():
            spark.conf.set(f"{prefix}.{key}", value)
    else:
        url = urlsplit(properties["uri"])
        jdbc = f"jdbc:postgresql://{url.hostname}:{url.port}{url.path}"
        user, password = url.username or "", url.password or ""
        add_postgres_catalog(spark, lake.catalog, jdbc, user, password, properties["warehouse"], seaweed)
    writer = SparkWriter(lake.open(), lake.tables[-1], 7, lake.writers[0].draw, spark=spark)
    spark.sql(f"ALTER TABLE {writer.name} SET TBLPROPERTIES ({MODES})")
    lake.writers.append(writer)
