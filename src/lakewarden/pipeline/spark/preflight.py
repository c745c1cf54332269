"""Before any work on a cluster: one tiny job that shows whether its machines can do ours.

On this machine tasks run in the same environment and on the same disk. On a cluster none of that is certain, and what
is missing would show late and in Java's words: as a lost executor, or as a plan whose files lie on disks of workers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import uuid4
from weakref import WeakKeyDictionary

from pyspark import SparkContext
from pyspark.sql import SparkSession

from lakewarden.model.errors import NoExecutorError
from lakewarden.pipeline.masters import is_local
from lakewarden.pipeline.spark.complaints import failed, judge
from lakewarden.pipeline.spark.probe import Asked, Told, probe
from lakewarden.storage.stores import Stores

T = TypeVar("T")
# Several for each executor, so that most of them answer; a cluster of a thousand is sampled.
TASKS_AN_EXECUTOR, MOST_TASKS = 4, 64
# Executors that are there and busy with other work are waited for so many times as long.
BUSY_TIMES = 5
GLANCE_SECONDS = 0.2

_passed: WeakKeyDictionary[SparkContext, set[Asked]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Cluster:
    """The executors of a session, and how long to wait for the first of them."""

    session: SparkSession
    wait_seconds: float = 60.0

    def check(self, stores: Stores, asked: Asked) -> None:
        """Raise for whatever an executor cannot do; once for each question. Asks nothing where tasks run on this machine."""
        context = self.session.sparkContext
        known = _passed.setdefault(context, set())
        if is_local(context.master) or asked in known:
            return
        with asked.prepared(stores) as question:
            told = self._run(lambda: _tell(context, probe(question)))
        judge(told, asked)
        known.add(asked)

    def check_java(self) -> None:
        """Raise where no executor comes; for work that needs no Python there."""
        if not is_local(self.session.sparkContext.master):
            self._run(lambda: self.session.range(1).count())

    def _run(self, work: Callable[[], T]) -> T:
        """Do this in a thread of its own, and give it up where no executor takes it."""
        context = self.session.sparkContext
        group = f"lakewarden-preflight-{uuid4().hex}"
        answers: list[T] = []
        errors: list[Exception] = []

        def run() -> None:
            context.setJobGroup(group, "lakewarden: what can the executors do?", interruptOnCancel=True)
            try:
                answers.append(work())
            except Exception as error:
                errors.append(error)

        thread = threading.Thread(target=run, name="spark-preflight", daemon=True)
        thread.start()
        try:
            self._wait(context, thread)
        except NoExecutorError:
            context.cancelJobGroup(group)
            raise
        if errors:
            raise failed(errors[0], context) from errors[0]
        return answers[0]

    def _wait(self, context: SparkContext, thread: threading.Thread) -> None:
        began, seen = time.monotonic(), 0
        while thread.is_alive():
            thread.join(GLANCE_SECONDS)
            seen = max(seen, executors(context))
            waited = time.monotonic() - began
            if waited > self.wait_seconds * (BUSY_TIMES if seen else 1):
                there = f"{seen} executors are there, and none of them had a free core" if seen else "no executor came"
                raise NoExecutorError(
                    f"{there} within {waited:.0f} s (master {context.master}, application {context.applicationId}); "
                    "nothing was done"
                )


def executors(context: SparkContext) -> int:
    """How many are registered by now. The driver counts itself among them."""
    java: Any = context._jsc
    return int(java.sc().getExecutorMemoryStatus().size()) - 1


def _tell(context: SparkContext, step: Callable[[Any], Any]) -> Sequence[Told]:
    tasks = min(MOST_TASKS, TASKS_AN_EXECUTOR * max(1, executors(context)))
    return [Told(**answer) for answer in context.parallelize(range(tasks), tasks).mapPartitions(step).collect()]
