"""The thread in which a command works, and how it learns that nobody wants its words any more."""

from __future__ import annotations

import threading
from collections.abc import Callable

from lakewarden.model.stop import Stopped


class CommandThread(threading.Thread):
    """Does the work and keeps how it ended. No daemon: a process that ends before it does not wait for it either.

    Nothing is ever raised in it from outside. What is raised so may fall between the taking of a lock and the block
    that gives it back, in our code or in Python's own, and whoever takes that lock next waits for ever.
    """

    def __init__(self, work: Callable[[], int], at_end: Callable[[], None]) -> None:
        super().__init__(name="command")
        self._work = work
        self._at_end = at_end
        self._error: BaseException | None = None
        self._unwanted: Stopped | None = None
        self.code: int | None = None
        self.over = False

    def run(self) -> None:
        try:
            self.code = self._work()
        except BaseException as error:
            self._error = error
        self.over = True
        self._at_end()

    def outcome(self) -> int:
        """The exit code of work that is over. Raises what the work raised."""
        if self.code is not None:
            return self.code
        assert self._error is not None
        raise self._error

    def leave(self, stopped: Stopped) -> None:
        """Let the thread end by raising `stopped` at its next `check_wanted`. Returns at once."""
        self._unwanted = stopped

    def check(self) -> None:
        if self._unwanted is not None:
            raise self._unwanted


def check_wanted() -> None:
    """For a command that is about to print, or waits for an answer: raises Stopped where it is to leave instead."""
    thread = threading.current_thread()
    if isinstance(thread, CommandThread):
        thread.check()
