"""A command that is stopped is not torn apart: what it has taken, it gives back."""

from __future__ import annotations

import os
import signal
import threading
import time
from functools import partial

import pytest

from lakewarden.cli.command_thread import check_wanted
from lakewarden.cli.signals import obeying_signals
from lakewarden.model.stop import Stopped

STOPS = 200


def takes_it(condition: threading.Condition) -> int:
    threading.Timer(0.002, os.kill, (os.getpid(), signal.SIGINT)).start()
    over = time.monotonic() + 10
    while time.monotonic() < over:
        for _ in range(100):
            with condition:
                pass
        check_wanted()
    return 0


def test_nothing_stays_taken_by_a_command_that_was_stopped() -> None:
    for number in range(STOPS):
        # As in an Event, a Queue, a pool of threads: it is taken by a function in Python, and may be left before its end.
        condition = threading.Condition()
        with pytest.raises(Stopped, match="stopped by SIGINT"):
            obeying_signals(partial(takes_it, condition))
        assert condition.acquire(blocking=False), f"stop {number}"
