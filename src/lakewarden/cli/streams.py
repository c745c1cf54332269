"""Standard streams that outlive their reader, and an ending without a trace on the terminal."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn, TextIO

from lakewarden.leaving import end_process

# The reader went away (`| head -1`), or the terminal was closed. What a command did, and its exit code, stay the same.
GONE = (errno.EPIPE, errno.EIO)
# Talk goes here. Nobody needs it to know what a command did, so no failure to write it may stop one: a log on a full
# disk would else end an apply at its first line of progress.
TALK = 2


COMPLETING = "_LAKEWARDEN_COMPLETE"
SIGN, WIPE = "⠋ start\r".encode(), b"\r\x1b[2K"
SHOW_CURSOR = b"\x1b[?25h"


class _SignOfLife:
    """A word on the terminal while Python loads what the command needs. The first thing that is printed wipes it out."""

    def __init__(self) -> None:
        self._shown = False

    def show(self, arguments: Sequence[str]) -> None:
        wanted = os.environ.get("TERM") != "dumb" and "--quiet" not in arguments
        # A shell that asks for completions has the user's half-written line on this terminal.
        if wanted and COMPLETING not in os.environ and sys.stderr.isatty():
            self._shown = True
            self._draw(SIGN)

    def wipe(self) -> None:
        if self._shown:
            self._shown = False
            self._draw(WIPE)

    def _draw(self, what: bytes) -> None:
        with suppress(OSError):  # The terminal was closed.
            os.write(TALK, what)


sign_of_life = _SignOfLife()


def give_terminal_back() -> None:
    """For a process that ends where it is: progress hides the cursor while it is drawn, and leaves a line begun.

    What other threads still draw goes nowhere: behind the end of the line it would be the shell's line.
    """
    sign_of_life.wipe()
    with suppress(OSError):
        if os.isatty(TALK):
            terminal = os.dup(TALK)
            _Descriptor(TALK, "w", closefd=False).lead_nowhere()
            os.write(terminal, (b"" if os.environ.get("TERM") == "dumb" else SHOW_CURSOR) + b"\n")


class _Descriptor(io.FileIO):
    """A stream's descriptor, which leads to nowhere from the moment that nobody reads it."""

    def write(self, data: object) -> int:
        try:
            sign_of_life.wipe()
            return super().write(data)  # type: ignore[arg-type]
        except OSError as error:
            if error.errno not in GONE and self.fileno() != TALK:
                raise
            self.lead_nowhere()
            return memoryview(data).nbytes  # type: ignore[arg-type]

    def lead_nowhere(self) -> None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)


def use_lasting_streams() -> None:
    """Give this process a standard output and error that do not fail when their reader has gone."""
    _open_closed_ones()
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115
    sys.stdout, sys.stderr = _lasting(sys.stdout, 1), _lasting(sys.stderr, TALK)


def _open_closed_ones() -> None:
    """A descriptor below 3 that is closed would be given to the next file that is opened, such as the database.

    Whatever then prints, a library or a child, would write into that file.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # The lowest one that is free is this one.


def _lasting(stream: TextIO | None, descriptor: int) -> io.TextIOWrapper:
    """The same stream around such a descriptor. A character that its encoding lacks is escaped."""
    if stream is not None:
        stream.flush()
    raw = _Descriptor(descriptor, "w", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=stream.encoding if stream is not None else "utf-8",
        errors="backslashreplace",
        line_buffering=descriptor == TALK or raw.isatty(),
    )


def leave(code: int) -> NoReturn:
    """End this process once everything that was printed has been written; 1 in place of 0 where it could not be."""
    try:
        sign_of_life.wipe()
        sys.stdout.flush()
    except OSError as error:
        _Descriptor(1, "w", closefd=False).lead_nowhere()  # What is left over is not tried again.
        sys.stderr.write(f"The output could not be written: {error.strerror}.\n")
        code = code or 1
    end_process(code)
