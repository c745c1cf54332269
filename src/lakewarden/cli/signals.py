"""Ctrl-C and SIGTERM: stop at once where nothing is being changed, after the current batch where something is.

A command works in a thread of its own, and the main thread does nothing but wait for signals. Python calls a handler
wherever the main thread happens to be, and what the handler raises tears apart what it meets there: in the midst of a
call to Spark's JVM the answer would stay in the connection and be taken for the next call's, in a finaliser the stop
itself would be lost, and a lock that had just been taken would never be given back.

A command that has begun to stop and is sent one more signal ends where it is, as if it had been killed: every run can
go on after that.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from lakewarden.cli.command_thread import CommandThread
from lakewarden.cli.heard import hearing
from lakewarden.cli.streams import give_terminal_back
from lakewarden.model.errors import Exit
from lakewarden.model.stop import GOES_ON, Stopped, StopToken

_EXITS = {signal.SIGINT: Exit.INTERRUPTED, signal.SIGTERM: Exit.TERMINATED}

# How long a command that is stopped at once may take to get to its next place to stop: what waits for somebody else's
# answer, or counts for long, is then abandoned with the process.
SECONDS_TO_LEAVE = 1.0
UNTOUCHED = "Nothing was being changed. Run the command again."
OVER = "The work was over, and is on record."
UNKNOWN = "Whether it was recorded is not known. Look, and run the command again if it was not."
PLANS_ANEW = (
    "What was done, if anything, is in the journal. Run the same command again: it plans anew, and does what is left."
)


class Command:
    """One command and what a signal means to it by now."""

    def __init__(self) -> None:
        self.stop = StopToken()
        self.abandoned: list[Callable[[], None]] = []  # what to close of a command that cannot be waited for
        self._hint = UNTOUCHED
        self._first: str | None = None  # what is said of a first signal that does not stop at once
        self._waits: StopToken | None = None  # and whom it asks to stop
        self._stopping: Stopped | None = None
        self._leaves = False
        self._rest: Callable[[], int] | None = None

    def hand_over(self, rest: Callable[[], int]) -> int:
        """Let the main thread do the rest of the command as the last thing: a server that hears signals itself."""
        self._rest = rest
        return Exit.DONE

    def run(self, work: Callable[[], int]) -> int:
        """The exit code of the work. Raises what it raised, or Stopped once it was stopped at once."""
        if threading.current_thread() is not threading.main_thread():
            code = work()  # The host program keeps its signals.
            return self._rest() if self._rest is not None else code
        with hearing(_EXITS) as heard:
            thread = CommandThread(work, at_end=heard.wake)
            thread.start()
            while not thread.over:
                number = heard.next(SECONDS_TO_LEAVE if self._stopping else None)
                if number is not None:
                    self._obey(number, thread)
                elif self._stopping and not thread.over:
                    self._abandon()
                    break
        if self._stopping is not None and thread.code is None:
            raise self._stopping
        code = thread.outcome()
        return self._rest() if self._rest is not None else code

    def _obey(self, number: int, thread: CommandThread) -> None:
        name, code = signal.Signals(number).name, _EXITS[signal.Signals(number)]
        if self._stopping is not None or self._leaves:
            give_terminal_back()
            os._exit(code)
        stopped = Stopped(f"stopped by {name}", self._hint, code)
        if self._waits is not None and self._waits.requested is None:
            _say(f"{self._first}; a second signal stops at once.\n")
            self._waits.request(stopped)
            return
        self._stopping = stopped
        thread.leave(stopped)
        self.stop.request(stopped)

    def _abandon(self) -> None:
        for close in self.abandoned:
            with suppress(Exception):  # nothing that is shown may hide that the command was stopped
                close()

    @contextmanager
    def asked_first(self, words: str, hint: str, token: StopToken) -> Iterator[None]:
        """Meanwhile a first signal asks `token`, and only a second one stops at once."""
        before, self._hint = self._hint, hint
        self._first, self._waits = words, token
        try:
            yield
        except Stopped:
            self._leaves = True  # One more signal must not tear apart what Stopped has set going.
            raise
        except BaseException:
            self._hint, self._waits = before, None
            raise
        self._hint, self._waits = OVER, None


_commands = [Command()]


def command() -> Command:
    """The command that is at work in this process."""
    return _commands[-1]


def obeying_signals(work: Callable[[], int]) -> int:
    """Do the work of one command, and end it as signals say."""
    _commands[:] = [Command()]
    return command().run(work)


@contextmanager
def stopping_between_batches(hint: str = GOES_ON) -> Iterator[None]:
    """A first signal waits for the work's next place to stop."""
    now = command()
    with now.asked_first("Stopping after the current batch", hint, now.stop):
        yield


@contextmanager
def finishing_first() -> Iterator[None]:
    """A signal does not stop a change that is one short step: the command does it, and says so. A second one does."""
    with command().asked_first("Finishing this step", UNKNOWN, StopToken()):
        yield


def _say(words: str) -> None:
    sys.stderr.write(words)
    sys.stderr.flush()
