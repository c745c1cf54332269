"""The question before a change: only a yes is one, and no signal is lost, however short before the wait it comes."""

from __future__ import annotations

import os
import pty
import signal
import sys
import threading
from collections.abc import Iterator
from functools import partial

import pytest

from lakewarden.cli import asking
from lakewarden.cli.asking import ask
from lakewarden.cli.signals import obeying_signals
from lakewarden.model.errors import NeedsApprovalError
from lakewarden.model.stop import Stopped


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A terminal as standard input: what is written here is typed."""
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield ours
    os.close(ours)


def answered(keyboard: int, keys: str) -> None:
    os.write(keyboard, keys.encode())
    ask(lambda screen: None, "Delete it?")


@pytest.mark.parametrize("keys", ["y\n", "Y\n", " yes \n", "perhaps\ny\n"])
def test_yes(keyboard: int, keys: str) -> None:
    answered(keyboard, keys)


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ("n\n", "was no"),
        ("\n", "was no"),
        ("NO\n", "was no"),
        ("yess\nno\n", "was no"),
        ("\x04", "not answered"),
        ("eh\n\x04", "not answered"),
    ],
)
def test_everything_else_is_not_yes(keyboard: int, keys: str, why: str) -> None:
    with pytest.raises(NeedsApprovalError, match=why):
        answered(keyboard, keys)


def test_a_signal_at_any_moment_ends_the_wait(keyboard: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is sent around the moment at which the wait begins, five hundred times, and never is a key needed."""
    monkeypatch.setattr(asking, "SECONDS_OF_A_WAIT", 0.001)

    def asked_and_hit(after: float) -> int:
        threading.Timer(after, os.kill, (os.getpid(), signal.SIGINT)).start()
        ask(lambda screen: None, "Delete it?")
        return 0

    for number in range(500):
        with pytest.raises(Stopped, match="stopped by SIGINT"):
            obeying_signals(partial(asked_and_hit, number % 100 * 2e-5))
