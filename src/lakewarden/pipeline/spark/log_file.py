"""The file that takes what Spark, its JVM and its workers say, so that a terminal shows our words alone.

The JVM of this process writes to it, at the level of file descriptors: log4j, Ivy, the launcher's shell script and the
workers' daemon all end there. This module needs no Spark.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from lakewarden.model.errors import SparkFailedError
from lakewarden.model.errors.base import UNCHANGED
from lakewarden.storage.scratch import drop_logs, log_name

LOGS = "logs"  # the directory for them, under the state's
KEPT = 10  # files of earlier sessions, by their last change: one that is still written to is not old


@dataclass(slots=True)
class _Session:
    log: Path | None = None


_session = _Session()


@contextmanager
def taking_words(directory: Path | None) -> Iterator[BinaryIO | int]:
    """Where a JVM that starts now shall write: a new file under `directory`, or our stderr without one."""
    if directory is None:
        _session.log = None
        yield 2
        return
    with _new_file(directory) as file:
        _session.log = Path(file.name)
        _keep_words_of_py4j(_session.log)
        yield file


def spark_failed(message: str) -> SparkFailedError:
    """The error for a user, pointing to the file."""
    if _session.log is None:
        return SparkFailedError(message)
    return SparkFailedError(message, hint=f"{UNCHANGED}See the message, and Spark's log: {_session.log}")


def _new_file(directory: Path) -> BinaryIO:
    """A file that only its user reads; where `directory` cannot be written to, among the system's temporary ones.

    A log that cannot be kept anywhere stops nobody.
    """
    name = directory / log_name(datetime.now(UTC))
    with suppress(OSError):
        directory.mkdir(parents=True, exist_ok=True)
        drop_logs(str(directory), KEPT)
        return open(name, "ab", opener=lambda path, flags: os.open(path, flags, 0o600))
    with suppress(OSError):
        descriptor, path = tempfile.mkstemp(prefix="lakewarden-spark-", suffix=".log")
        os.close(descriptor)
        return open(path, "ab")
    return open(os.devnull, "ab")


def _keep_words_of_py4j(log: Path) -> None:
    """What the Python end of the connection to the JVM has to say, in the same file."""
    py4j = logging.getLogger("py4j")
    py4j.handlers[:] = [logging.FileHandler(log)]
    py4j.setLevel(logging.WARNING)
    py4j.propagate = False
