"""When jobs are due, and that what is due is asked for exactly once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest

from lakewarden.jobs.registry import JOBS
from lakewarden.ledger.database import Ledger, open_ledger
from lakewarden.ledger.requests import Ended
from lakewarden.ledger.schedules import Schedule, Schedules
from lakewarden.model.actor import Actor
from lakewarden.model.errors import ConfigError
from lakewarden.model.policy import Job
from lakewarden.model.service import RequestStatus
from lakewarden.model.windows import opens, windows_of
from lakewarden.service.schedule.slots import DRILL, drill_rhythm, next_runs, rhythm_of
from lakewarden.service.schedule.tick import OBSERVE, Scheduler
from lakewarden.settings import Settings, load_settings
from tests.support.ledger import SteppedClock, ledger_url

__all__ = ["ledger_url"]
NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
ORPHANS = "orphan-cleanup"


def settings_of(folder: Path, text: str = "") -> Settings:
    file = folder / "lakewarden.toml"
    file.write_text(f'[state]\nlocation = "file://{folder}/state"\n{text}', "utf-8")
    return load_settings(str(file), env={})


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-03-{text}+00:00")


@pytest.mark.parametrize(
    ("job", "first"),
    [
        (Job.SNAPSHOT_EXPIRY, "05 00:00"),
        (Job.PARTITION_EXPIRY, "05 00:30"),
        (Job.TIER_HANDOFF, "05 02:00"),
        (Job.PHYSICAL_DELETION, "05 04:00"),
        (Job.ORPHAN_CLEANUP, "05 06:00"),
        (Job.MANIFEST_REWRITE, "08 02:00"),
    ],
)
def test_the_order_of_a_day_is_the_default(tmp_path: Path, job: Job, first: str) -> None:
    rhythm = rhythm_of(settings_of(tmp_path), JOBS[job])
    assert rhythm is not None
    assert next(rhythm.after(NOON)) == at(first)


def test_a_written_interval_wins_over_the_default_line_and_a_written_line_over_both(tmp_path: Path) -> None:
    hours = rhythm_of(settings_of(tmp_path, "[orphan_cleanup]\ncleanup_interval_hours = 8\n"), JOBS[Job.ORPHAN_CLEANUP])
    assert hours is not None
    assert list(islice(hours.after(NOON), 2)) == [at("04 16:00"), at("05 00:00")]
    both = '[orphan_cleanup]\ncleanup_interval_hours = 8\ncron = "15 3 * * *"\n'
    line = rhythm_of(settings_of(tmp_path, both), JOBS[Job.ORPHAN_CLEANUP])
    assert line is not None
    assert next(line.after(NOON)) == at("05 03:15")


def test_a_line_that_is_none_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="99 6"):
        rhythm_of(settings_of(tmp_path, '[orphan_cleanup]\ncron = "99 6 * * *"\n'), JOBS[Job.ORPHAN_CLEANUP])


def test_jitter_is_the_same_for_every_daemon_and_another_for_each_job(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, "[service]\njitter_seconds = 600\n")
    shifts = [rhythm.shift for spec in JOBS.values() if (rhythm := rhythm_of(settings, spec)) is not None]
    assert all(timedelta() <= shift <= timedelta(seconds=600) for shift in shifts)
    assert len(set(shifts)) > len(shifts) // 2
    again = rhythm_of(settings, JOBS[Job.ORPHAN_CLEANUP])
    assert again is not None
    assert next(again.after(NOON)) == at("05 06:00") + again.shift


@pytest.mark.parametrize(
    ("text", "moment", "opened"),
    [
        ("20:00-06:00", "04 12:00", "04 20:00"),
        ("20:00-06:00", "04 23:00", "04 23:00"),
        ("20:00-06:00", "04 05:59", "04 05:59"),
        ("20:00-06:00", "04 06:00", "04 20:00"),
        ("01:00-02:00, 13:00-14:00", "04 12:00", "04 13:00"),
        ("01:00-02:00", "04 12:00", "05 01:00"),
        ("00:00-24:00", "04 23:59", "04 23:59"),
    ],
)
def test_windows_open(text: str, moment: str, opened: str) -> None:
    assert opens(windows_of(text), at(moment)) == at(opened)


@pytest.mark.parametrize("text", ["", "20-6", "25:00-26:00", "20:00-20:00", "20:00-06:00,"])
def test_other_texts_are_no_windows(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError):
        settings_of(tmp_path, f'[service.windows]\nall = "{text}"\n')


def test_the_next_run_and_why_are_always_known(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, '[snapshot_expiry]\nenabled = true\n[service.windows]\nall = "20:00-23:00"\n')
    found = {run.job: run for run in next_runs(settings, NOON, {"snapshot-expiry"})}
    assert found["snapshot-expiry"].due_at == at("05 20:00")
    assert found["snapshot-expiry"].why == "cron 0 0 * * *; waits for its window"
    assert found[ORPHANS].due_at is None
    assert "not enabled" in found[ORPHANS].why
    assert len(found) == len(JOBS)


class Daemons:
    """Schedulers that share a ledger and a clock."""

    def __init__(self, ledger: Ledger, settings: Settings, clock: SteppedClock, number: int = 1) -> None:
        ids = count()
        self.ledger, self.clock = ledger, clock
        self.all = [Scheduler(ledger, settings, lambda: f"q{next(ids)}") for _ in range(number)]

    def at(self, moment: datetime) -> list[Any]:
        """The jobs that all of them ask for at a moment."""
        return [request for request in self.everything_at(moment) if request.job not in (OBSERVE, DRILL)]

    def everything_at(self, moment: datetime) -> list[Any]:
        self.clock.at = moment
        return [request for one in self.all for request in one.tick(moment)]

    def end(self, request: Any, status: RequestStatus = RequestStatus.DONE, **result: Any) -> None:
        while (claimed := self.ledger.requests.claim("w")) is not None and claimed.request_id != request.request_id:
            self.ledger.requests.finish(claimed.request_id, "w", Ended(RequestStatus.DONE))
        assert self.ledger.requests.finish(request.request_id, "w", Ended(status, result=result))


@pytest.fixture
def ledger(ledger_url: str) -> Iterator[Ledger]:
    clock = SteppedClock()
    with open_ledger(ledger_url, clock) as opened:
        opened.test_clock = clock  # type: ignore[attr-defined]
        yield opened


def daemons(ledger: Ledger, folder: Path, more: str = "", number: int = 1, job: str = "") -> Daemons:
    text = f"[orphan_cleanup]\nenabled = true\n{job}{more}"
    return Daemons(ledger, settings_of(folder, text), ledger.test_clock, number)  # type: ignore[attr-defined]


def test_a_slot_is_asked_for_once_by_however_many_daemons(ledger: Ledger, tmp_path: Path) -> None:
    found = daemons(ledger, tmp_path, number=3)
    assert found.at(at("04 05:00")) == []
    assert found.at(at("04 05:59")) == []
    made = found.at(at("04 06:00"))
    assert {request.request_id for request in made} == {made[0].request_id}
    assert (made[0].job, made[0].due_at, made[0].actor.operator) == (ORPHANS, at("04 06:00"), "schedule")
    assert found.at(at("04 06:01")) == []
    assert len([one for one in ledger.requests.list() if one.job == ORPHANS]) == 1


def test_two_daemons_that_look_at_the_same_moment_ask_once(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has read that the slot is free before the other has taken it."""
    found = daemons(ledger, tmp_path, number=2)
    found.at(at("04 05:00"))
    both, real = threading.Barrier(2), Schedules.list

    def read_together(this: Schedules) -> list[Schedule]:
        known = real(this)
        both.wait(30)
        return known

    monkeypatch.setattr(Schedules, "list", read_together)
    found.clock.at = at("04 06:00")
    with ThreadPoolExecutor(2) as pool:
        made = [pool.submit(one.tick, at("04 06:00")) for one in found.all]
        asked = [request for one in made for request in one.result() if request.job == ORPHANS]
    assert len(asked) == 2
    assert len({request.request_id for request in asked}) == 1
    assert len([one for one in ledger.requests.list() if one.job == ORPHANS]) == 1


def test_what_was_missed_is_made_up_for_once(ledger: Ledger, tmp_path: Path) -> None:
    found = daemons(ledger, tmp_path, job='cron = "0 */2 * * *"\n')
    found.at(at("04 05:00"))
    made = found.at(at("04 15:30"))
    assert [request.due_at for request in made] == [at("04 14:00")]
    found.end(made[0])
    assert found.at(at("04 15:31")) == []
    schedule = ledger.schedules.get(ORPHANS)
    assert schedule is not None
    assert schedule.next_due == at("04 16:00")


def test_what_was_missed_too_long_ago_is_let_go(ledger: Ledger, tmp_path: Path) -> None:
    found = daemons(ledger, tmp_path, "[service]\ncatch_up_hours = 1\n")
    found.at(at("04 05:00"))
    assert found.at(at("04 08:00")) == []
    schedule = ledger.schedules.get(ORPHANS)
    assert schedule is not None
    assert "missed at 2026-03-04 06:00" in schedule.why
    assert [request.due_at for request in found.at(at("05 06:10"))] == [at("05 06:00")]


def test_nothing_is_stacked_on_a_run_that_is_not_over(ledger: Ledger, tmp_path: Path) -> None:
    found = daemons(ledger, tmp_path, job='cron = "0 * * * *"\n')
    found.at(at("04 05:30"))
    first = found.at(at("04 06:00"))[0]
    assert found.at(at("04 07:00")) == found.at(at("04 08:00")) == []
    found.end(first)
    assert [request.due_at for request in found.at(at("04 08:30"))] == [at("04 08:00")]


def test_a_window_and_a_freeze_hold_what_is_due(ledger: Ledger, tmp_path: Path) -> None:
    found = daemons(ledger, tmp_path, '[service.windows]\norphan_cleanup = "22:00-23:00"\n')
    found.at(at("04 05:00"))
    assert found.at(at("04 06:30")) == []
    schedule = ledger.schedules.get(ORPHANS)
    assert schedule is not None
    assert schedule.next_due == at("04 22:00")
    assert "window" in schedule.why
    ledger.switches.freeze(Actor("ada", "w"), "looking")
    assert found.at(at("04 22:00")) == []
    assert "frozen by ada" in str(ledger.schedules.get(ORPHANS))
    ledger.switches.unfreeze(Actor("ada", "w"))
    assert [request.due_at for request in found.at(at("04 22:10"))] == [at("04 06:00")]


def test_a_job_with_nothing_to_do_is_visited_less_often(ledger: Ledger, tmp_path: Path) -> None:
    found = daemons(ledger, tmp_path, "[service]\nadaptive = true\n", job='cron = "0 * * * *"\n')
    found.at(at("04 00:30"))
    ledger.schedules.put(Schedule(ORPHANS, None, "", last_due=at("04 00:30"), quiet_runs=3))
    assert found.at(at("04 01:00")) == []
    made = found.at(at("04 02:00"))
    assert [request.due_at for request in made] == [at("04 02:00")]
    found.end(made[0])
    ledger.schedules.put(Schedule(ORPHANS, None, "", last_due=at("04 02:00"), quiet_runs=0))
    assert len(found.at(at("04 03:00"))) == 1


def test_a_table_property_that_enables_a_job_is_heard_of(ledger: Ledger, tmp_path: Path) -> None:
    found = Daemons(ledger, settings_of(tmp_path), ledger.test_clock)  # type: ignore[attr-defined]
    assert found.all[0].enabled() == set()
    found.at(at("04 05:00"))
    observed = ledger.requests.list(job=OBSERVE)[0]
    found.end(observed, enabled=["compaction"])
    assert found.all[0].enabled() == {"compaction"}


def test_the_fleet_is_looked_at_every_so_often(ledger: Ledger, tmp_path: Path) -> None:
    found = daemons(ledger, tmp_path, "[service]\nobserve_minutes = 15\n", number=2)
    found.at(at("04 05:01"))
    found.at(at("04 05:10"))
    assert len(ledger.requests.list(job=OBSERVE)) == 1
    found.end(ledger.requests.list(job=OBSERVE)[0])
    found.at(at("04 05:15"))
    assert len(ledger.requests.list(job=OBSERVE)) == 2


def test_a_clock_that_went_ahead_and_was_put_back_stops_nothing(ledger: Ledger, tmp_path: Path) -> None:
    found = daemons(ledger, tmp_path)
    found.at(at("04 05:00"))
    found.end(ledger.requests.list(job=OBSERVE)[0])
    ahead = found.at(at("04 06:10") + timedelta(days=400))
    assert len(ahead) == 1
    found.ledger.test_clock.at = at("04 06:05")  # type: ignore[attr-defined]
    claimed = [ledger.requests.claim("w"), ledger.requests.claim("w")]
    assert ahead[0].request_id in [one.request_id for one in claimed if one], (
        "it would hold back all later jobs for a year"
    )
    for one in claimed:
        assert one is not None
        ledger.requests.finish(one.request_id, "w", Ended(RequestStatus.DONE))
    found.at(at("04 06:06"))
    schedule = ledger.schedules.get(ORPHANS)
    assert schedule is not None
    assert schedule.next_due == at("05 06:00")
    assert [request.due_at for request in found.at(at("05 06:01"))] == [at("05 06:00")]
    looks = [one.due_at for one in ledger.requests.list(job=OBSERVE)]
    assert at("04 06:00") in looks, "the fleet is looked at again"


def test_a_slot_that_comes_twice_is_run_once(ledger: Ledger, tmp_path: Path) -> None:
    found = daemons(ledger, tmp_path)
    found.at(at("04 05:00"))
    first = found.at(at("04 06:10"))
    found.end(first[0])
    assert found.at(at("04 05:30")) == []
    again = found.at(at("04 06:10"))
    assert {one.request_id for one in again} <= {first[0].request_id}
    assert len(ledger.requests.list(job=ORPHANS)) == 1


def test_a_restore_drill_is_asked_for_once_a_day_by_however_many(ledger: Ledger, tmp_path: Path) -> None:
    clock = ledger._connections.clock
    assert isinstance(clock, SteppedClock)
    found = Daemons(ledger, settings_of(tmp_path), clock, 2)
    found.at(at("04 05:00"))
    due = ledger.schedules.get(DRILL)
    assert due is not None
    assert (due.next_due, due.why) == (at("04 09:30"), "cron 30 9 * * *")
    asked = [one for one in found.everything_at(at("04 09:31")) if one.job == DRILL]
    assert [(one.kind, one.request_id) for one in asked] == [("restore-drill", asked[0].request_id)]
    found.end(asked[0])
    assert [one for one in found.everything_at(at("04 15:00")) if one.job == DRILL] == []
    off = Daemons(ledger, settings_of(tmp_path, "[restore_drill]\nenabled = false\n"), clock)
    assert [one for one in off.everything_at(at("05 09:31")) if one.job == DRILL] == []
    assert "enabled = false" in str(ledger.schedules.get(DRILL))


def test_a_drill_with_a_line_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"restore_drill\.cron must have five fields"):
        drill_rhythm(settings_of(tmp_path, '[restore_drill]\ncron = "never"\n'))


def test_what_is_due_is_run_although_nothing_is_caught_up(ledger: Ledger, tmp_path: Path) -> None:
    found = daemons(ledger, tmp_path, "[service]\ncatch_up_hours = 0\n")
    found.at(at("04 05:00"))
    assert [request.due_at for request in found.at(at("04 06:00") + timedelta(seconds=4))] == [at("04 06:00")]


def test_what_waited_for_its_window_was_not_missed(ledger: Ledger, tmp_path: Path) -> None:
    text = '[service]\ncatch_up_hours = 1\n[service.windows]\norphan_cleanup = "22:00-23:59"\n'
    found = daemons(ledger, tmp_path, text)
    found.at(at("04 05:00"))
    assert found.at(at("04 12:00")) == []
    assert [request.due_at for request in found.at(at("04 22:10"))] == [at("04 06:00")]
