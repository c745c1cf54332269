"""Work that is asked to end: where it may, by whichever thread, and only the work's own."""

from __future__ import annotations

import threading
import time

import pytest

from lakewarden.model import stop as module
from lakewarden.model.stop import Stopped, StopToken


def test_the_first_one_who_asks_is_told_of() -> None:
    token, first = StopToken(), Stopped("ada asked")
    token.check()
    token.request(first)
    token.request(Stopped("bob asked"))
    with pytest.raises(Stopped) as found:
        token.check()
    assert (found.value, token.requested) == (first, first)
    assert not isinstance(first, Exception)


def test_each_call_of_progress_is_a_place_to_stop_after_it_was_told() -> None:
    token, told = StopToken(), []
    progress = token.at_each(lambda *step: told.append(step))
    progress("delete", 1, 3)
    token.request(Stopped("ada asked"))
    with pytest.raises(Stopped):
        progress("delete", 2, 3)
    assert told == [("delete", 1, 3), ("delete", 2, 3)]


def test_threads_of_the_work_are_not_torn_out_of_what_they_do() -> None:
    token = StopToken()
    progress = token.at_each(lambda *_: None)
    token.request(Stopped("ada asked"))
    ended: list[str] = []
    beside = threading.Thread(target=lambda: (progress("delete", 1, 3), ended.append("well")))
    beside.start()
    beside.join()
    assert ended == ["well"]


def test_what_goes_on_is_interrupted_until_the_block_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cancelled Spark job may be followed by the next one of the same plan."""
    monkeypatch.setattr(module, "SECONDS_UNTIL_AGAIN", 0.01)
    token, calls = StopToken(), threading.Semaphore(0)

    def work() -> None:
        with token.interrupting(calls.release):
            token.request(Stopped("ada asked"))
            assert all(calls.acquire(timeout=10) for _ in range(3))
            raise RuntimeError("the job was cancelled")

    with pytest.raises(Stopped, match="ada asked"):
        work()
    while any(thread.name == "interrupt" for thread in threading.enumerate()):
        time.sleep(0.01)


def test_an_interrupt_under_way_is_over_before_the_block_is_left() -> None:
    """Whoever works next in this process must not be hit by what was meant for the one before."""
    token, begun, told = StopToken(), threading.Event(), []

    def interrupt() -> None:
        begun.set()
        time.sleep(0.3)
        told.append("interrupted")

    with token.interrupting(interrupt):
        token.request(Stopped("ada asked"))
        assert begun.wait(10)
    assert told == ["interrupted"]


def test_nobody_who_was_not_asked_to_stop_is_interrupted_or_keeps_a_thread() -> None:
    token, before = StopToken(), threading.active_count()
    with token.interrupting(lambda: pytest.fail("nobody asked")):
        assert threading.active_count() == before
    token.request(Stopped("too late"))
    assert threading.active_count() == before
    with pytest.raises(Stopped), token.interrupting(lambda: None):
        pytest.fail("the block was entered")
