"""How work is asked to end early: by a signal to a command, by whoever cancels a run of the service.

Work is never torn apart in the middle of a batch. Whoever wants it to end asks, in any thread, and the work ends where
its record is whole: at its next call of `progress`, which is made between batches, tables and steps.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lakewarden.model.errors import Exit
from lakewarden.model.ports import Progress

SECONDS_UNTIL_AGAIN = 0.2
GOES_ON = "What was done is in the journal. Run the same command again: it goes on where it stopped."


class Stopped(BaseException):
    """Somebody asked the work to end. Not an Exception, so that no retry or refusal swallows it."""

    code = "LW-CORE-002"

    def __init__(self, message: str, hint: str = GOES_ON, exit_code: Exit = Exit.INTERRUPTED) -> None:
        self.message = message
        self.hint = hint
        self.exit_code = exit_code
        super().__init__(message)


class StopToken:
    """Asks one piece of work to end. It may be asked from any thread and more than once; the first one who asks is told of."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stopped: Stopped | None = None
        self._interrupts: set[_Interrupts] = set()

    def request(self, stopped: Stopped) -> None:
        """Let the work end by raising `stopped` at its next place to stop. Returns at once."""
        with self._lock:
            if self._stopped is not None:
                return
            self._stopped = stopped
            going_on = list(self._interrupts)
        for interrupts in going_on:
            threading.Thread(target=interrupts.go_on, name="interrupt", daemon=True).start()

    @property
    def requested(self) -> Stopped | None:
        return self._stopped

    def check(self) -> None:
        """A place to stop: raises what was requested."""
        if self._stopped is not None:
            raise self._stopped

    def at_each(self, progress: Progress) -> Progress:
        """The same callback, each call of which by this very thread is a place to stop.

        The work's other threads are not torn out of what they do: this one waits for them.
        """
        own = threading.get_ident()

        def report(stage: str, done: int, total: int) -> None:
            progress(stage, done, total)
            if threading.get_ident() == own:
                self.check()

        return report

    @contextmanager
    def interrupting(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """For work that changes nothing and may take long: once a stop is requested, `interrupt` ends what goes on.

        It is called by a thread of its own, again and again until the block is left, and not after that: what it ended
        may be followed by more of the kind. Whatever error the block ends with then, it was stopped.
        """
        interrupts = _Interrupts(interrupt)
        with self._lock:
            self.check()
            self._interrupts.add(interrupts)
        try:
            yield
        except Exception as error:
            if self._stopped is not None:
                raise self._stopped from error
            raise
        finally:
            with self._lock:
                self._interrupts.discard(interrupts)
            interrupts.end()


class _Interrupts:
    """The interrupts of one block, one after the other."""

    def __init__(self, interrupt: Callable[[], None]) -> None:
        self._interrupt = interrupt
        self._over = threading.Event()
        self._at_it = threading.Lock()

    def go_on(self) -> None:
        while True:
            with self._at_it:
                if self._over.is_set():
                    return
                self._interrupt()
            self._over.wait(SECONDS_UNTIL_AGAIN)

    def end(self) -> None:
        """Wait for the one that is under way. There is none afterwards."""
        self._over.set()
        with self._at_it:
            pass
