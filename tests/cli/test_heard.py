"""A process with thousands of open files hears signals as any other does."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
from collections.abc import Iterator

import pytest

from lakewarden.cli.heard import hearing

BEYOND = 1500


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

    def far() -> tuple[int, int]:
        near = pipe()
        found = tuple(fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, BEYOND) for one in near)
        for one in near:
            os.close(one)
        return found[0], found[1]

    monkeypatch.setattr(os, "pipe", far)
    with hearing([signal.SIGUSR1]) as heard:
        assert heard.told >= BEYOND
        assert heard.next(0) is None
        os.kill(os.getpid(), signal.SIGUSR1)
        assert heard.next(5) == signal.SIGUSR1
        heard.wake()
        assert heard.next(None) is None
