"""Signals as they come, one after the other, whichever thread the system gives them to."""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

ENDED = 0  # no signal has this number


class Heard:
    """A pipe into which Python writes the number of each signal, before any handler of ours is called."""

    def __init__(self, numbers: Iterable[int]) -> None:
        self._numbers = frozenset(numbers)
        self._out, self._in = os.pipe()
        os.set_blocking(self._in, False)
        self._closed = False
        self._turn = threading.Lock()
        self._ready = select.poll()  # select() knows no file beyond the first thousand that a process has open
        self._ready.register(self._out, select.POLLIN)

    @property
    def told(self) -> int:
        return self._in

    def next(self, seconds: float | None) -> int | None:
        """The next signal's number; None if somebody calls `wake`, or none comes for so long."""
        while True:
            if not self._ready.poll(None if seconds is None else seconds * 1000):
                return None
            number = os.read(self._out, 1)[0]
            if number == ENDED:
                return None
            if number in self._numbers:
                return number

    def wake(self) -> None:
        """End the wait. Does nothing once nobody waits any more: the pipe's number may be another file's by then."""
        with self._turn, suppress(OSError):  # full: whoever waits is awake
            if not self._closed:
                os.write(self._in, bytes([ENDED]))

    def close(self) -> None:
        with self._turn:
            self._closed = True
            os.close(self._out)
            os.close(self._in)


@contextmanager
def hearing(numbers: Iterable[int]) -> Iterator[Heard]:
    """Meanwhile these signals do nothing but be heard. Only for the main thread."""
    heard = Heard(numbers)
    told_before = signal.set_wakeup_fd(heard.told, warn_on_full_buffer=False)
    before = [(number, signal.signal(number, lambda number, _: None)) for number in numbers]
    try:
        yield heard
    finally:
        for number, handler in before:
            signal.signal(number, handler)
        signal.set_wakeup_fd(told_before)
        heard.close()
