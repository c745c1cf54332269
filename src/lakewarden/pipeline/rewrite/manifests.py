"""Manifests rewritten in order of partition by Iceberg's own Spark action, up to the commit, which is not made here.

The action runs in a transaction of Iceberg's Java library that is never committed: it leaves the new manifests, their
list, and the snapshot that would be. So no second client of the catalog is needed, nothing of ours has to be taken
back when another writer was quicker, and what was rewritten can be checked before anybody sees it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from py4j.java_gateway import JavaPackage
from pyspark.sql import SparkSession

from lakewarden.model.errors import LakewardenError, SparkFailedError
from lakewarden.model.manifests import JavaTable
from lakewarden.pipeline.spark.log_file import spark_failed

RUNTIME = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
# The runtime can open an S3 store only with this beside it.
AWS = "org.apache.iceberg:iceberg-aws-bundle:1.12.0"
NAMESPACE = "lakewarden"
FILE_IO = "org.apache.iceberg.io.ResolvingFileIO"  # what it is depends on each address


def packages_for(locations: Iterable[str]) -> tuple[str, ...]:
    """The jars, by Maven coordinates, that rewriting tables at these addresses needs."""
    return (RUNTIME, AWS) if any(location.startswith("s3") for location in locations) else (RUNTIME,)


def rewrite_manifests(
    spark: SparkSession, table: JavaTable, spec: int, properties: Mapping[str, str]
) -> dict[str, Any] | None:
    """The snapshot, as metadata has it, in which the manifests of this spec are rewritten; None if there is nothing to do.

    Raises SparkFailedError.
    """
    jvm: Any = spark._jvm
    check_runtime(jvm)
    try:
        pending = in_transaction(spark, table)
        action = jvm.org.apache.iceberg.spark.actions.SparkActions.get(spark._jsparkSession)
        action = action.rewriteManifests(pending).specId(spec)
        for name, value in properties.items():
            action = action.snapshotProperty(name, value)
        before = pending.currentSnapshot().snapshotId()
        action.execute()
        made = pending.currentSnapshot()
        if made.snapshotId() == before:
            return None
        found: dict[str, Any] = json.loads(jvm.org.apache.iceberg.SnapshotParser.toJson(made))
        return found
    except LakewardenError:
        raise
    except Exception as error:
        raise spark_failed(
            f"the manifests of {table.name} could not be rewritten ({first_line(error)}); nothing of it was changed"
        ) from error


def check_runtime(jvm: Any) -> None:
    """Raise SparkFailedError if Iceberg's runtime is not on Spark's class path."""
    if isinstance(jvm.org.apache.iceberg.spark.actions.SparkActions, JavaPackage):
        raise SparkFailedError(
            "Spark has no Iceberg runtime on its class path; no manifest was rewritten",
            hint=f'Set "spark.jars.packages" = "{RUNTIME}" in [spark.conf], or "spark.jars" to the path of that jar.',
        )


def in_transaction(spark: SparkSession, table: JavaTable) -> Any:
    """The table within a transaction: what is committed to it stays there."""
    jvm: Any = spark._jvm
    jsc: Any = spark._jsc
    properties = jvm.java.util.HashMap()
    for name, value in table.properties.items():
        properties.put(name, value)
    opened = jvm.org.apache.iceberg.CatalogUtil.loadFileIO(FILE_IO, properties, jsc.hadoopConfiguration())
    catalog = jvm.org.apache.iceberg.inmemory.InMemoryCatalog()
    catalog.initialize(NAMESPACE, properties)
    # This catalog keeps its files in memory, and has no setting for others.
    field = catalog.getClass().getDeclaredField("io")
    field.setAccessible(True)
    field.set(catalog, opened)
    identifier = jvm.org.apache.iceberg.catalog.TableIdentifier.parse(f"{NAMESPACE}.t")
    catalog.createNamespace(identifier.namespace())
    registered = catalog.registerTable(identifier, table.metadata_location)
    operations = registered.newTransaction().table().operations()
    return jvm.org.apache.iceberg.BaseTable(operations, table.name)


def first_line(error: Exception) -> str:
    java = getattr(error, "java_exception", None)
    return str(java.toString() if java is not None else error).splitlines()[0][:300]
