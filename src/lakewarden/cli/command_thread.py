"""The thread in which a command works, and how it is made to leave what it is at."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from lakewarden.model.stop import Stopped

SECONDS_UNTIL_AGAIN = 0.02


class CommandThread(threading.Thread):
    """Does the work and keeps how it ended. No daemon: a process that ends before it does not wait for it either."""

    def __init__(self, work: Callable[[], int], at_end: Callable[[], None]) -> None:
        super().__init__(name="command")
        self._work = work
        self._at_end = at_end
        self._error: BaseException | None = None
        self._ending = threading.Lock()
        self.code: int | None = None
        self.over = False

    def run(self) -> None:
        try:
            try:
                self.code = self._work()
            except BaseException as error:
                self._error = error
            with self._ending:
                self.over = True  # From here on nothing is raised in this thread.
        except Stopped:
            self.over = True
        self._at_end()

    def outcome(self) -> int:
        """The exit code of work that is over. Raises what the work raised."""
        if self.code is not None:
            return self.code
        assert self._error is not None
        raise self._error

    def raise_there(self, stopped: Stopped) -> None:
        """Raise this in the thread, at its next step in Python. What waits outside of Python goes on waiting."""

        class Now(Stopped):
            """A thread can only be given a class to raise."""

            def __init__(self) -> None:
                super().__init__(stopped.message, stopped.hint, stopped.exit_code)

        self._raise(Now)

    def _raise(self, kind: type[BaseException]) -> None:
        with self._ending:
            if not self.over and self.ident is not None:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.ident), ctypes.py_object(kind))

    @contextmanager
    def raising_what_is_dropped(self) -> Iterator[None]:
        """Meanwhile a Stopped that Python drops is raised once more, a moment later.

        The thread may be made to raise within a finaliser or the callback of a weak reference, such as the import system
        has. What is raised there goes nowhere, and the command would go on as if nobody had stopped it.
        """
        before = sys.unraisablehook

        def dropped(found: Any) -> None:
            if not isinstance(found.exc_value, Stopped):
                before(found)
                return
            again = threading.Timer(SECONDS_UNTIL_AGAIN, self._raise, [type(found.exc_value)])
            again.daemon = True
            again.start()

        sys.unraisablehook = dropped
        try:
            yield
        finally:
            sys.unraisablehook = before
