"""The record of a batch, written while the next one is at work: the journal is never more than one batch behind.

Only what has happened is late. What is about to happen is announced, and durable, before it begins; so a crash leaves
at most two batches open, and both are settled when the run goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self


class Recorder:
    """Use as a context manager: leaving waits, and raises what the last record raised."""

    def __init__(self) -> None:
        self._writer = ThreadPoolExecutor(1)
        self._last: Future[None] | None = None

    def write(self, record: Callable[[], None]) -> None:
        """Write this record beside what comes next, once the one before is written. Raises what that one raised."""
        self.wait()
        self._last = self._writer.submit(record)

    def wait(self) -> None:
        """Until everything is written. Raises what the writing raised."""
        last, self._last = self._last, None
        if last is not None:
            last.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Its error goes before any other: a run whose journal has a gap must not be closed.
        with self._writer:
            self.wait()
