"""The peer as a script of its own: start Spark, call the procedure for each table, print what it found."""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path

from bench.peer import GRACE


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--catalog", required=True)
    parser.add_argument("--database", type=Path, required=True)
    parser.add_argument("--warehouse", required=True)
    parser.add_argument("--jars", required=True, help="resolved already: looking them up is not what is measured")
    parser.add_argument("tables", nargs="+")
    asked = parser.parse_args()
    from pyspark.sql import SparkSession

    prefix = f"spark.sql.catalog.{asked.catalog}"
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", asked.jars)
        .config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "4g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "4")
        .config(prefix, "org.apache.iceberg.spark.SparkCatalog")
        .config(f"{prefix}.type", "jdbc")
        .config(f"{prefix}.uri", f"jdbc:sqlite:{asked.database}")
        .config(f"{prefix}.warehouse", asked.warehouse)
        .config(f"{prefix}.jdbc.schema-version", "V1")
        .getOrCreate()
    )
    older = f"{datetime.now(UTC) - GRACE:%Y-%m-%d %H:%M:%S}"
    found = 0
    for table in asked.tables:
        arguments = f"table => '{table}', older_than => TIMESTAMP '{older}', dry_run => true"
        found += len(spark.sql(f"CALL {asked.catalog}.system.remove_orphan_files({arguments})").collect())
    print(json.dumps({"orphans": found}))
    spark.stop()


if __name__ == "__main__":
    main()
