"""The Spark session: started when first needed, with what a sweep wants and what the user sets on top."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import DataFrame, SparkSession

from lakewarden.pipeline.active import BY_WORK, SHUFFLE
from lakewarden.pipeline.masters import is_local
from lakewarden.pipeline.spark.borrowed import derived, refuse_foreign
from lakewarden.pipeline.spark.connect import refuse_connect, refuse_connected
from lakewarden.pipeline.spark.failure import cause_of
from lakewarden.pipeline.spark.java import flags_for, found_version, use_java
from lakewarden.pipeline.spark.log_file import spark_failed, taking_words
from lakewarden.pipeline.spark.masters import refuse_silent

LOG_SETTINGS = Path(__file__).with_name("log4j2.properties").as_uri()

__all__ = ["DataFrame", "SparkSession", "is_local", "session_beside", "spark_session"]

# In the workers' environment: the modules that tasks name, such as the formats', which this room does not know.
MODULES = "LW_WORKER_MODULES"
# Classes that `pipeline.spark.class_archive` let a JVM write down.
ARCHIVE = Path(sys.prefix) / "share" / "lakewarden" / "spark.jsa"
LOOPBACK = "127.0.0.1"
# A socket's address has 108 characters at most, of which Spark takes 42 for its name.
LONGEST_SOCKET_DIRECTORY = 64


@dataclass
class _Started:
    """The context that this process started, if it did."""

    context: SparkContext | None = None
    lock: Lock = field(default_factory=Lock)


_started = _Started()

# Python's workers live on from task to task, and begin as copies of a daemon that has imported what they need.
FORKED = {"spark.python.worker.reuse": "true", "spark.python.daemon.module": "lakewarden.pipeline.spark.daemon"}
# What a session can be told while it runs.
SQL = {
    "spark.sql.session.timeZone": "UTC",
    # Rows are few and evenly hashed: re-planning between stages costs more than it saves, and
    # joining small partitions would leave one task to read every manifest.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    "spark.sql.execution.arrow.pyspark.fallback.enabled": "false",
    "spark.sql.parquet.filterPushdown": "true",
}
DEFAULTS = {
    **SQL,
    "spark.python.worker.reuse": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
}

# Rows are worked on in Arrow, not in the JVM, which mostly starts up: the quick compiler halves that. Its own messages
# would land on standard output, which is for data.
JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable -Xlog:all=error:stderr"


def spark_session(
    master: str, conf: Mapping[str, str], app: str, modules: Iterable[str] = (), logs: Path | None = None
) -> SparkSession:
    """The session that this process started, its workers forked with these modules imported.

    What Spark and its JVM say goes to a new file under `logs`; without it, to our stderr.
    Raises JavaMissingError, SparkFailedError, SparkConnectError, or ForeignSessionError where somebody else's runs here.
    """
    master = conf.get("spark.master", master)
    refuse_connect(master, conf)
    use_java()
    # One at a time: what another thread of ours is about to start is nobody else's.
    with _started.lock:
        refuse_foreign(_started.context, master)
        session = _start(master, conf, app, logs)
        _started.context = session.sparkContext
    session.sparkContext.pythonExec = _python_of_workers(conf, session.sparkContext.master)
    if ahead := ",".join(sorted(modules)):
        # Once: workers with another environment are other workers.
        session.sparkContext.environment.setdefault(MODULES, ahead)
    _settle_partitions(session, conf)
    return session


def is_gone() -> bool:
    """Whether the session that this process started has died: its JVM is gone, or its context was stopped by a failure."""
    context = _started.context
    if context is None:
        return False
    try:
        return context._jsc is None or bool(context._jsc.sc().isStopped())
    except Exception:
        return True  # nobody answers on the other side


def runs_without(packages: Iterable[str]) -> bool:
    """Whether the session of this process is there already, and has not the jars of these coordinates. It gets no others."""
    context = _started.context
    if context is None or is_gone():
        return False
    # Spark itself adds here what it has fetched by coordinates.
    jars = (context.getConf().get("spark.jars") or "").split(",")
    wanted = ("-".join(coordinates.split(":")[1:3]) + ".jar" for coordinates in packages)
    return not all(any(jar.endswith(name) for jar in jars) for name in wanted)


def _start(master: str, conf: Mapping[str, str], app: str, logs: Path | None) -> SparkSession:
    refuse_silent(master)
    local = is_local(master)
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    settings = SparkConf(loadDefaults=False).setMaster(master).setAppName(app)
    settings.setAll([*{**DEFAULTS, **(_local() if local else {}), **conf}.items()])
    try:
        _start_jvm(settings, logs)
        return SparkSession.builder.config(conf=settings).getOrCreate()
    except Exception as error:
        raise spark_failed(f"Spark did not start on {master} ({cause_of(error)}); nothing was done") from error


def session_beside(session: Any, conf: Mapping[str, str]) -> SparkSession:
    """A session of ours that shares the context of the one that was handed in, and leaves that as it is.

    Of `conf` it has what can be set while Spark runs. Raises SparkConnectError or SparkFailedError.
    """
    refuse_connected(session)
    # A session's own name for what `spark.hadoop.` sets for a whole context.
    ours = derived(session, {**SQL, "parquet.page.verify-checksum.enabled": "true"}, conf)
    _settle_partitions(ours, conf)
    return ours


def _python_of_workers(conf: Mapping[str, str], master: str | None) -> str:
    """Within this machine this very environment, where the stores and the decoder are installed, unless it is said otherwise."""
    said = conf.get("spark.pyspark.python")
    return said or (sys.executable if is_local(master) else os.environ.get("PYSPARK_PYTHON", sys.executable))


def _settle_partitions(session: SparkSession, conf: Mapping[str, str]) -> None:
    """Two for each core: enough to balance, few enough to be cheap. Spark's own 200 would cost a small fleet a minute.

    On a cluster, where cores come and go, joins ask for more by their size.
    """
    if SHUFFLE not in conf:
        least = str(max(2, 2 * session.sparkContext.defaultParallelism))
        session.conf.set(SHUFFLE, least)
        session.conf.set(BY_WORK, least)


def _start_jvm(settings: SparkConf, logs: Path | None) -> None:
    """Start the JVM of this process, unless it has one: then whoever started it has said where its words go.

    Only the child's descriptors lead elsewhere; those of this process stay as they are. The JVM is in a process group of
    its own: what a terminal or a scheduler sends to ours is for us to obey, and a JVM that died of it first would make a
    failure of a stop. It ends when its standard input does, however we end.
    """
    if SparkContext._gateway is None:
        with taking_words(logs) as out:
            gateway = launch_gateway(  # type: ignore[no-untyped-call]
                settings, {"stdout": out, "stderr": out, "process_group": 0}
            )
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
