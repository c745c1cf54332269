"""A process with thousands of open files hears signals, and answers, as any other does."""

from __future__ import annotations

import fcntl
import os
import pty
import resource
import signal
import sys
from collections.abc import Iterator

import pytest

from lakewarden.cli.asking import answer_to
from lakewarden.cli.heard import hearing

BEYOND = 1500


def moved(*files: int) -> tuple[int, ...]:
    """The same files beyond the first thousand that a process may have open."""
    found = tuple(fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, BEYOND) for one in files)
    for one in files:
        os.close(one)
    return found


@pytest.fixture
def many_open_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(soft, 2 * BEYOND) if soft != resource.RLIM_INFINITY else soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_pipe_beyond_the_first_thousand_files_is_heard(
    many_open_files: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = os.pipe
    monkeypatch.setattr(os, "pipe", lambda: moved(*pipe()))
    with hearing([signal.SIGUSR1]) as heard:
        assert heard.told >= BEYOND
        assert heard.next(0) is None
        os.kill(os.getpid(), signal.SIGUSR1)
        assert heard.next(5) == signal.SIGUSR1
        heard.wake()
        assert heard.next(None) is None


def test_an_answer_is_read_beyond_the_first_thousand_files(
    many_open_files: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyboard, terminal = pty.openpty()
    with os.fdopen(moved(terminal)[0], encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        os.write(keyboard, b"y\n")
        assert answer_to("Delete it?") is True
    os.close(keyboard)


def test_who_ends_after_the_wait_is_over_writes_into_nobody_elses_file() -> None:
    with hearing([signal.SIGUSR1]) as heard:
        number = heard.told
    out, into = os.pipe()
    other = into if into == number else os.dup2(into, number)  # the system gives the number to whoever opens next
    os.set_blocking(out, False)
    heard.wake()
    with pytest.raises(BlockingIOError):
        os.read(out, 1)
    for one in {out, into, other}:
        os.close(one)
