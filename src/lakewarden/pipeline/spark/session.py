"""The Spark session: started when first needed, with what a sweep wants and what the user sets on top."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import DataFrame, SparkSession

from lakewarden.pipeline.spark.java import flags_for, found_version, use_java
from lakewarden.pipeline.spark.log_file import spark_failed, taking_words

LOG_SETTINGS = Path(__file__).with_name("log4j2.properties").as_uri()

__all__ = ["DataFrame", "SparkSession", "spark_session"]

# In the workers' environment: the modules that tasks name, such as the formats', which this room does not know.
MODULES = "LW_WORKER_MODULES"
# Classes that `pipeline.spark.class_archive` let a JVM write down.
ARCHIVE = Path(sys.prefix) / "share" / "lakewarden" / "spark.jsa"
LOOPBACK = "127.0.0.1"
# A socket's address has 108 characters at most, of which Spark takes 42 for its name.
LONGEST_SOCKET_DIRECTORY = 64

# Python's workers live on from task to task, and begin as copies of a daemon that has imported what they need.
FORKED = {"spark.python.worker.reuse": "true", "spark.python.daemon.module": "lakewarden.pipeline.spark.daemon"}
DEFAULTS = {
    **FORKED,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # Rows are few and evenly hashed: re-planning between stages costs more than it saves, and
    # joining small partitions would leave one task to read every manifest.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    "spark.sql.execution.arrow.pyspark.fallback.enabled": "false",
    "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
    "spark.sql.parquet.filterPushdown": "true",
}

# Rows are worked on in Arrow, not in the JVM, which mostly starts up: the quick compiler halves that. Its own messages
# would land on standard output, which is for data.
JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable -Xlog:all=error:stderr"


def spark_session(
    master: str, conf: Mapping[str, str], app: str, modules: Iterable[str] = (), logs: Path | None = None
) -> SparkSession:
    """The session of this process, its workers forked with these modules imported.

    What Spark and its JVM say goes to a new file under `logs`; without it, to our stderr.
    Raises JavaMissingError or SparkFailedError.
    """
    use_java()
    # Workers must run in this very environment, where the stores and the decoder are installed.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    local = master.startswith("local")
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    settings = SparkConf(loadDefaults=False).setMaster(master).setAppName(app)
    settings.setAll([*{**DEFAULTS, **(_local() if local else {}), **conf}.items()])
    try:
        _start_jvm(settings, logs)
        session = SparkSession.builder.config(conf=settings).getOrCreate()
    except Exception as error:
        raise spark_failed(f"Spark did not start on {master} ({type(error).__name__}: {error})") from error
    if local:
        # A session that somebody else started may name another Python.
        session.sparkContext.pythonExec = sys.executable
    if ahead := ",".join(sorted(modules)):
        # Once: workers with another environment are other workers.
        session.sparkContext.environment.setdefault(MODULES, ahead)
    if "spark.sql.shuffle.partitions" not in conf:
        # Two for each core: enough to balance, few enough to be cheap. Spark's own 200 would cost a small fleet a minute.
        session.conf.set("spark.sql.shuffle.partitions", str(max(2, 2 * session.sparkContext.defaultParallelism)))
    return session


def _start_jvm(settings: SparkConf, logs: Path | None) -> None:
    """Start the JVM of this process, unless it has one: then whoever started it has said where its words go.

    Only the child's descriptors lead elsewhere; those of this process stay as they are.
    """
    if SparkContext._gateway is None:
        with taking_words(logs) as out:
            gateway = launch_gateway(settings, {"stdout": out, "stderr": out})  # type: ignore[no-untyped-call]
        SparkContext._ensure_initialized(gateway=gateway, conf=settings)


def _local() -> dict[str, str]:
    """What a session within this machine wants on top."""
    archive = f" -XX:SharedArchiveFile={ARCHIVE}" if ARCHIVE.exists() else ""
    flags = flags_for(found_version())
    return {
        **quick_workers(),
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": f"{JVM_OPTIONS}{flags} -Dlog4j2.configurationFile={LOG_SETTINGS}{archive}",
    }


def quick_workers() -> dict[str, str]:
    """Workers on this machine that lose no time between tasks."""
    sockets = _sockets().name
    return {
        **FORKED,
        # Over the loopback every task waits 40 ms for an acknowledgement that the kernel holds back.
        "spark.python.unix.domain.socket.enabled": str(len(sockets) <= LONGEST_SOCKET_DIRECTORY).lower(),
        "spark.python.unix.domain.socket.dir": sockets,
    }


@cache
def _sockets() -> tempfile.TemporaryDirectory[str]:
    """This process's own, gone when it ends: Spark leaves its sockets lying."""
    return tempfile.TemporaryDirectory(prefix="lakewarden-spark-")
