"""Ctrl-C and SIGTERM: stop at once where nothing is being changed, after the current batch where something is."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from lakewarden.model.errors import Exit

_EXITS = {signal.SIGINT: Exit.INTERRUPTED, signal.SIGTERM: Exit.TERMINATED}
_Handler = Callable[[int, FrameType | None], None]


class Stopped(BaseException):
    """A signal asked the command to end. Not an Exception, so that no retry or refusal swallows it."""

    code = "LW-CORE-002"
    hint = "What was done is in the journal. Run the same command again: apply goes on where it stopped."

    def __init__(self, number: int) -> None:
        self.exit_code = _EXITS[signal.Signals(number)]
        self.message = f"stopped by {signal.Signals(number).name}"
        super().__init__(self.message)


class SafePoint:
    """Remembers a signal until the work says that this is a good place to stop."""

    def __init__(self) -> None:
        self._number: int | None = None

    def request(self, number: int, _: FrameType | None) -> None:
        if self._number is not None:
            raise Stopped(number)
        self._number = number
        sys.stderr.write("Stopping after the current batch; a second signal stops at once.\n")

    def check(self) -> None:
        """Raise Stopped if a signal came. Called between batches, when every file has its outcome on record."""
        if self._number is not None:
            raise Stopped(self._number)


def _at_once(number: int, _: FrameType | None) -> None:
    raise Stopped(number)


@contextmanager
def stopping_at_once() -> Iterator[None]:
    """Signals end the command where it is."""
    with _handled_by(_at_once):
        yield


@contextmanager
def stopping_between_batches() -> Iterator[SafePoint]:
    """Signals wait for `check`; a second one does not."""
    point = SafePoint()
    with _handled_by(point.request):
        yield point


@contextmanager
def _handled_by(handler: _Handler) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # Only the main thread may set handlers; elsewhere the host program keeps its own.
        return
    before = {number: signal.signal(number, handler) for number in _EXITS}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)
