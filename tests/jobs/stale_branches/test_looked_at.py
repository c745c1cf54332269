"""A change whose answer settles nothing: looked for once or for a while, and never believed without being seen."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lakewarden.formats.iceberg.branches import looked_at
from lakewarden.formats.iceberg.branches.looked_at import changed
from lakewarden.model.errors import CatalogUnavailableError, DoubtfulCommitError, TableMovedError

DOUBT, REFUSED = DoubtfulCommitError("no answer"), TableMovedError("no")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looked_at, "FIRST_LOOK", 0.01)
    monkeypatch.setattr(looked_at, "LOOK_FOR", 0.3)


def raising(error: Exception) -> Callable[[], bool]:
    def change() -> bool:
        raise error

    return change


def looks(*found: bool | Exception) -> Callable[[], bool]:
    """What each look finds; the last one for ever."""
    left = list(found)

    def made() -> bool:
        now = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(now, Exception):
            raise now
        return now

    return made


def test_an_answer_that_settles_it_needs_no_look() -> None:
    changed("lake.db.t", lambda: None, raising(AssertionError("nobody asked")))


@pytest.mark.parametrize("error", [DOUBT, REFUSED])
def test_what_is_seen_was_made(error: Exception) -> None:
    changed("lake.db.t", raising(error), looks(CatalogUnavailableError("503"), True))


def test_what_comes_late_is_waited_for() -> None:
    changed("lake.db.t", raising(DOUBT), looks(False, False, True))


def test_what_was_refused_and_is_not_there_was_refused() -> None:
    with pytest.raises(TableMovedError) as raised:
        changed("lake.db.t", raising(REFUSED), looks(False, True))
    assert raised.value is REFUSED


def test_without_a_trace_it_stays_in_doubt() -> None:
    with pytest.raises(DoubtfulCommitError, match=r"no answer; lake\.db\.t was looked at .* without a trace"):
        changed("lake.db.t", raising(DOUBT), looks(False))


@pytest.mark.parametrize("error", [DOUBT, REFUSED])
def test_what_cannot_be_looked_at_is_in_doubt(error: Exception) -> None:
    with pytest.raises(DoubtfulCommitError, match=r"could not be looked at .*503.* may or may not have been made"):
        changed("lake.db.t", raising(error), looks(CatalogUnavailableError("503")))


def test_somebody_elses_is_said_at_once() -> None:
    with pytest.raises(TableMovedError, match="theirs"):
        changed("lake.db.t", raising(DOUBT), looks(TableMovedError("theirs"), True))
