"""The question before a change: only a yes is one, and no signal is lost, however short before the wait it comes."""

from __future__ import annotations

import os
import pty
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

import pytest

from lakewarden.cli.asking import ask
from lakewarden.model.errors import NeedsApprovalError


class Hit(BaseException):
    """What the handler raises."""


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


def test_a_signal_at_any_moment_ends_the_wait(keyboard: int) -> None:
    """The kernel sends it around the moment at which the wait begins, two thousand times."""

    def hit(number: int, frame: FrameType | None) -> None:
        raise Hit

    def asked_and_hit(after: float) -> None:
        signal.setitimer(signal.ITIMER_REAL, after)
        ask(lambda screen: None, "Delete it?")

    def press_keys() -> None:
        before = -1
        while not over.wait(10):
            if before == reached[0]:
                pressed.append(os.write(keyboard, b"n\n"))
            before = reached[0]

    reached = [0]
    pressed: list[int] = []
    over = threading.Event()
    before = signal.signal(signal.SIGALRM, hit)
    threading.Thread(target=press_keys).start()
    try:
        for number in range(2000):
            reached[0] = number
            with pytest.raises(Hit):
                asked_and_hit((1 + number % 200) * 1e-6)
            assert not pressed, "the signal was heard only when a key was pressed"
    finally:
        over.set()
        signal.signal(signal.SIGALRM, before)
