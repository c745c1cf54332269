"""Spark and PyIceberg through the gateway to a real Nessie on the S3 server: neither goes around it."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import BadRequestError

import lakewarden
from tests.support.buckets import Bucket
from tests.support.gateways import gateway
from tests.support.missing import missing
from tests.support.nessie import start_nessie
from tests.support.rest import JarsMissingError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})


@pytest.fixture
def nessie_uri(bucket: Bucket, tmp_path: Path) -> Iterator[str]:
    try:
        uri, stop = start_nessie(tmp_path / "nessie.log", f"s3://{bucket.name}/wh/", bucket.server, signing=False)
    except JarsMissingError as error:
        missing(error)
    yield uri
    stop()


@pytest.mark.timeout(420)
def test_clients_of_nessie_stay_with_the_gateway(
    spark: SparkSession, nessie_uri: str, bucket: Bucket, tmp_path: Path
) -> None:
    server = bucket.server
    said = lakewarden.lineage("ingest-1")
    keys = {
        "s3.endpoint": server.endpoint, "s3.access-key-id": server.access_key,
        "s3.secret-access-key": server.secret_key,
    }  # fmt: skip
    with gateway(tmp_path / "gateway", nessie_uri) as running:
        with urllib.request.urlopen(f"{running.uri}/v1/config", timeout=20) as answer:
            config: dict[str, Any] = json.load(answer)
        handed = {**config["defaults"], **config["overrides"]}
        assert handed["uri"].rstrip("/") == running.uri
        assert handed["nessie.iceberg-base-uri"].rstrip("/") == running.uri
        catalog = load_catalog("lake", type="rest", uri=running.uri, **{"s3.region": "us-east-1"}, **keys)
        catalog.create_namespace("sales")
        table = catalog.create_table("sales.orders", ROWS.schema)
        with pytest.raises(BadRequestError, match=r"lake\.sales\.orders .*writer\.id is missing"):
            table.append(ROWS)
        table.append(ROWS, snapshot_properties=said.properties(table=table))

        java = {
            "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            "s3.path-style-access": "true",
            "client.region": "us-east-1",
        }
        for key, value in {"type": "rest", "uri": running.uri, "cache-enabled": "false", **java, **keys}.items():
            spark.conf.set(f"spark.sql.catalog.nessied.{key}", value)
        spark.conf.set("spark.sql.catalog.nessied", "org.apache.iceberg.spark.SparkCatalog")
        with pytest.raises(Exception, match=r"writer\.id is missing; trigger\.type is missing"):
            spark.sql("INSERT INTO nessied.sales.orders VALUES (3)")
        with said.session(spark, table="nessied.sales.orders"):
            spark.sql("INSERT INTO nessied.sales.orders VALUES (3)")
        assert spark.sql("SELECT count(*) AS n FROM nessied.sales.orders").collect()[0].n == 3
        # Nessie shows the newest snapshot alone.
        newest = table.refresh().current_snapshot()
        assert newest is not None
        assert newest.summary is not None
        assert newest.summary.additional_properties["writer.id"] == "ingest-1"
