"""Histories of tables in a bucket behind a REST catalog: compaction leaves the same rows there as on a disk."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.jobs.compaction import histories
from tests.jobs.compaction.readings import readings
from tests.jobs.compaction.true_metrics import wrong_metrics
from tests.jobs.compaction.workshop import Workshop
from tests.jobs.snapshot_expiry.expiry_site import Site
from tests.support.buckets import Bucket
from tests.support.rest import Serve
from tests.support.spark import REGION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LAKE = "afar"
# Those that need no disk of their own.
BUILDS = (
    histories.types_v1,
    histories.types_v3,
    histories.types_of_java,
    histories.evolved_columns,
    histories.defaults_v3,
    histories.deletes_of_java,
    histories.vectors_and_values_v3,
    histories.positions_of_many_files,
    histories.odd_partitions,
    histories.bounds,
    histories.branches_with_deletes,
    histories.partitions_of_pyiceberg,
)


@pytest.mark.soak
def test_every_history_reads_the_same(bucket: Bucket, serve: Serve, spark: SparkSession, tmp_path: Path) -> None:
    keys = {
        "s3.endpoint": bucket.server.endpoint,
        "s3.access-key-id": bucket.server.access_key,
        "s3.secret-access-key": bucket.server.secret_key,
    }
    java = {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO", "s3.path-style-access": "true", "client.region": REGION}
    server = serve({"warehouse": f"s3://{bucket.name}/wh", **java, **keys})
    spark.conf.set(f"spark.sql.catalog.{LAKE}", "org.apache.iceberg.spark.SparkCatalog")
    for key, value in {"type": "rest", "uri": server.uri, "cache-enabled": "false", **java, **keys}.items():
        spark.conf.set(f"spark.sql.catalog.{LAKE}.{key}", value)
    properties = {"type": "rest", "uri": server.uri, "s3.region": REGION, **keys}
    with Site(tmp_path, {LAKE: properties}) as site:
        site.sections["compaction"] = {"min_input_files": 2}
        spark.sql(f"CREATE NAMESPACE {LAKE}.t")
        workshop = Workshop(spark, LAKE, site.catalog(LAKE), tmp_path)
        names = [build.__name__ for build in BUILDS]
        for build in BUILDS:
            build(workshop)
        before = {name: readings(workshop, name) for name in names}
        plan = site.plan("compaction")
        result = site.apply(plan)
        assert (result.status, result.kept) == ("done", {})
        for name in names:
            assert plan.table(workshop.name(name)).changes["groups"], name
            assert readings(workshop, name) == before[name], name
            assert wrong_metrics(workshop.table(name), result.run_id) == []
