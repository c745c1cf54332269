"""Ctrl-C and SIGTERM: stop at once where nothing is being changed, after the current batch where something is.

A command that has begun to stop and is sent one more signal ends where it is, as if it had been killed: every run can
go on after that.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

from lakewarden.model.errors import Exit

_EXITS = {signal.SIGINT: Exit.INTERRUPTED, signal.SIGTERM: Exit.TERMINATED}
_Handler = Callable[[int, FrameType | None], None]

SECONDS_UNTIL_AGAIN = 0.02
UNTOUCHED = "Nothing was being changed. Run the command again."
OVER = "The work was over, and is on record."
GOES_ON = "What was done is in the journal. Run the same command again: it goes on where it stopped."
UNKNOWN = "Whether it was recorded is not known. Look, and run the command again if it was not."
PLANS_ANEW = (
    "What was done, if anything, is in the journal. Run the same command again: it plans anew, and does what is left."
)


class Stopped(BaseException):
    """A signal asked the command to end. Not an Exception, so that no retry or refusal swallows it."""

    code = "LW-CORE-002"

    def __init__(self, number: int, hint: str = GOES_ON) -> None:
        self.number = number
        self.exit_code = _EXITS[signal.Signals(number)]
        self.message = f"stopped by {signal.Signals(number).name}"
        self.hint = hint
        super().__init__(self.message)


class SafePoint:
    """Remembers a signal until the work says that this is a good place to stop."""

    def __init__(self, first: str, hint: str) -> None:
        self._first = first
        self._hint = hint
        self._number: int | None = None

    def request(self, number: int, _: FrameType | None) -> None:
        if self._number is not None:
            _stop(number, self._hint)
        self._number = number
        _say(f"{self._first}; a second signal stops at once.\n")

    def check(self) -> None:
        """Raise Stopped if a signal came. Called between batches, when every file has its outcome on record."""
        if self._number is not None:
            _stop(self._number, self._hint)


def _say(words: str) -> None:
    """Write from within a handler, which may have been called in the midst of another write."""
    try:
        sys.stderr.write(words)
    except RuntimeError:
        os.write(2, words.encode())


def _stop(number: int, hint: str) -> NoReturn:
    """Raise Stopped, once. One more signal must not tear apart what Stopped has set going, nor end in a trace."""
    for each in _EXITS:
        _handle(each, lambda number, _: os._exit(_EXITS[signal.Signals(number)]))
    raise Stopped(number, hint)


def _raise_again(otherwise: Callable[[Any], Any]) -> Callable[[Any], None]:
    """What to do about exceptions that Python drops: for a Stopped, raise it once more, a moment later.

    A handler may be called within a finaliser or the callback of a weak reference, such as the import system has. What is
    raised there goes nowhere, and the command would go on as if nobody had stopped it.
    """

    def told(dropped: Any) -> None:
        stop = dropped.exc_value
        if not isinstance(stop, Stopped):
            otherwise(dropped)
            return
        for each in _EXITS:
            _handle(each, lambda number, _: _stop(number, stop.hint))
        later = threading.Timer(SECONDS_UNTIL_AGAIN, os.kill, (os.getpid(), stop.number))
        later.daemon = True
        later.start()

    return told


_hints = [UNTOUCHED]  # What is true of a command that is stopped at once, by now.


@contextmanager
def stopping_at_once() -> Iterator[None]:
    """Signals end the command where it is."""
    _hints[:] = [UNTOUCHED]
    told_before, sys.unraisablehook = sys.unraisablehook, _raise_again(sys.unraisablehook)
    before = [(number, _handle(number, lambda number, _: _stop(number, _hints[-1]))) for number in _EXITS]
    try:
        yield
    finally:
        _restore(before)
        sys.unraisablehook = told_before


@contextmanager
def stopping_between_batches(hint: str = GOES_ON) -> Iterator[SafePoint]:
    """Signals wait for `check`; a second one does not."""
    point = SafePoint("Stopping after the current batch", hint)
    with _meanwhile(point.request):
        yield point
    _hints.append(OVER)


@contextmanager
def finishing_first() -> Iterator[None]:
    """A signal does not stop a change that is one short step: the command does it, and says so. A second one does."""
    with _meanwhile(SafePoint("Finishing this step", UNKNOWN).request):
        yield
    _hints.append(OVER)


@contextmanager
def _meanwhile(handler: _Handler) -> Iterator[None]:
    """Another handler for a part of the command. Once it is stopped, no earlier one comes back."""
    before = [(number, _handle(number, handler)) for number in _EXITS]
    try:
        yield
    except Stopped:
        raise
    except BaseException:
        _restore(before)
        raise
    _restore(before)


def _restore(before: Iterable[tuple[int, object]]) -> None:
    for number, handler in before:
        _handle(number, handler)


def _handle(number: int, handler: object) -> object:
    """Only the main thread may set handlers; elsewhere the host program keeps its own."""
    if threading.current_thread() is not threading.main_thread():
        return None
    return signal.signal(number, handler)  # type: ignore[arg-type]
