"""The Spark jobs of one piece of work, told apart from all others of the process by a tag.

A process has one session, and several pieces of work may share it: threads of a scheduler, requests of the service one
after the other, a notebook's own. Whoever stops one of them must end its jobs and no other.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


class Starting(Protocol):
    """A session that starts in the background."""

    def result(self) -> SparkSession:
        """The session, once it is there. Raises why it did not start."""


@dataclass
class SparkWork:
    """Jobs that are started by threads which took their session from here."""

    tag: str = field(default_factory=lambda: f"lakewarden-work-{uuid.uuid4().hex}")
    _context: SparkContext | None = None

    def warming(self, warm_spark: Callable[..., Starting], *given: Any, **named: Any) -> Starting:
        """What `warm_spark` starts, for a thread of this work."""
        return _Joining(self, warm_spark(*given, **named))

    def join(self, session: SparkSession) -> None:
        """From here on the jobs of this thread are this work's."""
        context = session.sparkContext
        if _threads_are_told_apart(context):
            context.addJobTag(self.tag)
            self._context = context

    @contextmanager
    def joined(self) -> Iterator[None]:
        """The jobs that this thread starts afterwards are not this work's any more."""
        try:
            yield
        finally:
            if self._context is not None:
                with suppress(Exception):  # a JVM that is gone has no threads
                    self._context.removeJobTag(self.tag)

    def cancel(self) -> None:
        """End the jobs of this work that are at it now. In any thread, any number of times."""
        if self._context is not None:
            with suppress(Exception):  # a JVM that is gone is at nothing
                self._context.cancelJobsWithTag(self.tag)


@dataclass(frozen=True)
class _Joining:
    """The jobs of whichever thread takes the session are a piece of work's."""

    work: SparkWork
    session: Starting

    def result(self) -> SparkSession:
        session = self.session.result()
        self.work.join(session)
        return session


def _threads_are_told_apart(context: SparkContext) -> bool:
    """Unless somebody set PYSPARK_PIN_THREAD to false, a thread of Python's has one of Java's, which bears its tags."""
    from py4j.clientserver import ClientServer

    return isinstance(context._gateway, ClientServer)
