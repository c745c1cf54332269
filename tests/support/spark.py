"""The one Spark session of a test process, with Iceberg's and Paimon's own Java beside ours, and catalogs added while it runs."""

from __future__ import annotations

import fcntl
import hashlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JARS = (
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
    "org.apache.iceberg:iceberg-aws-bundle:1.12.0",
    "org.xerial:sqlite-jdbc:3.50.3.0",
    "org.postgresql:postgresql:42.7.7",
    # Everything Paimon's Java library needs, but for what Spark carries in its own versions.
    "org.apache.paimon:paimon-bundle:1.4.2",
)
CARRIED_BY_SPARK = (
    "at.yawk.lz4:lz4-java",
    "com.google.code.findbugs:jsr305",
    "org.slf4j:slf4j-api",
    "org.xerial.snappy:snappy-java",
)

SETTLED = Path(sys.prefix) / f"spark-{hashlib.sha256(repr((JARS, CARRIED_BY_SPARK)).encode()).hexdigest()[:8]}.jars"

# A test session mostly starts up and runs everything once: the quick compiler takes half as long as the thorough one.
JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"

REGION = "us-east-1"


class S3Server(Protocol):
    """An S3 server the tests started: where it listens and who may enter."""

    @property
    def endpoint(self) -> str: ...

    @property
    def access_key(self) -> str: ...

    @property
    def secret_key(self) -> str: ...


def start_session(scratch: Path, conf: Mapping[str, str] | None = None) -> SparkSession:
    """A local session of two cores with the Iceberg and Paimon runtimes; `scratch` takes its warehouse and spill files."""
    # Imported here, so that tests without Spark do not pay for it.
    from lakewarden.pipeline.spark.session import spark_session

    settings = {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.driver.extraJavaOptions": JVM_OPTIONS,
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.local.dir": str(scratch / "spill"),
    }
    with _jars() as jars:
        # Lakewarden's own: it works with no session that it did not start, unless one is handed in.
        session = spark_session("local[2]", {**settings, **jars, **(conf or {})}, "lakewarden-tests")
        if not SETTLED.exists():
            SETTLED.write_text(session.conf.get("spark.jars"), encoding="utf-8")
    return session


@contextmanager
def _jars() -> Iterator[dict[str, str]]:
    """The settings that bring the jars: where they lie, once a session has fetched them.

    One test process fetches and the others wait for it: Ivy's downloads of one jar by two processes spoil each other.
    """
    with SETTLED.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = SETTLED.read_text(encoding="utf-8").split(",") if SETTLED.exists() else []
        if known and all(Path(urlsplit(jar).path).exists() for jar in known):
            fcntl.flock(lock, fcntl.LOCK_UN)
            yield {"spark.jars": ",".join(known)}
            return
        SETTLED.unlink(missing_ok=True)
        yield {"spark.jars.packages": ",".join(JARS), "spark.jars.excludes": ",".join(CARRIED_BY_SPARK)}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one session of this test process."""
    session = start_session(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture(scope="session")
def java() -> None:
    """For a test whose own processes start a JVM: a machine without Java fails here, by name."""
    from lakewarden.pipeline.spark.java import use_java

    use_java()


def add_sqlite_catalog(
    spark: SparkSession, name: str, database: Path, warehouse: str, s3: S3Server | None = None
) -> dict[str, str]:
    """Let Spark and PyIceberg share one SQLite catalog; returns the properties for PyIceberg.

    PyIceberg must load it under the same name, since the rows are keyed by it. Which tests share a process is chance:
    a name that another test used before is this test's from now on.
    """
    from pyiceberg.catalog.sql import SqlCatalog

    properties = {"type": "sql", "uri": f"sqlite:///{database}", "warehouse": warehouse}
    if s3 is not None:
        properties |= {
            "s3.endpoint": s3.endpoint,
            "s3.access-key-id": s3.access_key,
            "s3.secret-access-key": s3.secret_key,
            "s3.region": REGION,
        }
    # PyIceberg makes the tables of the catalog in schema V1; Java would make V0 unless told.
    SqlCatalog(name, **properties).close()
    _set_catalog(spark, name, f"jdbc:sqlite:{database}", warehouse, s3)
    return properties


def add_postgres_catalog(
    spark: SparkSession,
    name: str,
    jdbc_uri: str,
    user: str,
    password: str,
    warehouse: str,
    s3: S3Server | None = None,
) -> None:
    """Let Spark use a PostgreSQL catalog; `jdbc_uri` is `jdbc:postgresql://host:port/database`."""
    _set_catalog(spark, name, jdbc_uri, warehouse, s3, {"jdbc.user": user, "jdbc.password": password})


def _set_catalog(
    spark: SparkSession,
    name: str,
    uri: str,
    warehouse: str,
    s3: S3Server | None,
    more: Mapping[str, str] | None = None,
) -> None:
    settings = {
        "type": "jdbc",
        "uri": uri,
        "warehouse": warehouse,
        "jdbc.schema-version": "V1",
        # Spark would serve a table for 30 s as it was, while PyIceberg has committed to it.
        "cache-enabled": "false",
        **(more or {}),
    }
    if s3 is not None:
        settings |= {
            "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            "s3.endpoint": s3.endpoint,
            "s3.access-key-id": s3.access_key,
            "s3.secret-access-key": s3.secret_key,
            "s3.path-style-access": "true",
            "client.region": REGION,
        }
    prefix = f"spark.sql.catalog.{name}"
    if spark.conf.get(prefix, None) is not None:
        # Spark keeps every catalog that it has begun to use, whatever the settings say by now.
        spark._jsparkSession.sessionState().catalogManager().reset()
    spark.conf.set(prefix, "org.apache.iceberg.spark.SparkCatalog")
    for key, value in settings.items():
        spark.conf.set(f"{prefix}.{key}", value)
