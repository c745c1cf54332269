"""The schedule at work: what is due becomes a request, exactly once, however many daemons look at the same clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from lakewarden.jobs.registry import JOBS
from lakewarden.ledger.database import Ledger
from lakewarden.ledger.requests import SCHEDULED, Request
from lakewarden.ledger.schedules import Schedule
from lakewarden.model.actor import Actor, Trigger
from lakewarden.model.service import RequestKind, RequestStatus
from lakewarden.model.windows import opens
from lakewarden.service.approval import UNATTENDED, close_expired
from lakewarden.service.schedule.slots import (
    DRILL,
    Rhythm,
    drill_rhythm,
    enabled_by_settings,
    next_runs,
    rhythm_of,
    sparse,
)
from lakewarden.settings import Settings

OBSERVE = "observe"
OPERATOR = "schedule"
APART = timedelta(minutes=15)


class Scheduler:
    """Looks at the clock when told to, and asks for what is due."""

    def __init__(self, ledger: Ledger, settings: Settings, new_id: Callable[[], str]) -> None:
        self._ledger = ledger
        self._settings = settings
        self._new_id = new_id
        self._actor = Actor(OPERATOR, settings.worker.id, Trigger.SCHEDULE)
        self._rhythms = {spec.name: rhythm_of(settings, spec) for spec in JOBS.values()}
        self._drills = drill_rhythm(settings)

    def tick(self, now: datetime) -> list[Request]:
        """Ask for every job that is due now, and write down when each is due next. What was asked for."""
        close_expired(self._ledger, now)
        made = self._observe(now)
        known = {one.job: self._in_time(one, now) for one in self._ledger.schedules.list()}
        enabled = self.enabled()
        for run in next_runs(self._settings, now, enabled, known):
            rhythm, before = self._rhythms[JOBS_BY_NAME[run.job].name], known.get(run.job)
            if run.due_at is None or rhythm is None:
                left = before or Schedule(run.job, None, run.why)
                self._remember(before, replace(left, next_due=None, why=run.why, last_due=None))
            elif before is None or before.last_due is None:
                # Seen for the first time: what was due before that moment was nobody's.
                self._ledger.schedules.put(Schedule(run.job, run.due_at, run.why, last_due=now))
            else:
                made += self._due(before, rhythm, now, run.due_at, run.why)
        return made + self._drill(known.get(DRILL), now)

    def enabled(self) -> set[str]:
        """The jobs that are enabled for some table: by the configuration, or by what the last look at the tables found."""
        seen = self._ledger.requests.list(status=[RequestStatus.DONE], job=OBSERVE, limit=1)
        found = seen[0].result.get("enabled", []) if seen and seen[0].result else []
        return enabled_by_settings(self._settings) | set(found)

    def _drill(self, before: Schedule | None, now: datetime) -> list[Request]:
        """A restore drill, where one is due. It changes no table, so it waits for no job, nor does any for it."""
        if self._drills is None:
            why = "[restore_drill] enabled = false"
            self._remember(before, replace(before or Schedule(DRILL, None, why), next_due=None, why=why, last_due=None))
            return []
        since = before.last_due if before is not None and before.last_due is not None else now
        due = opens(self._drills.windows, max(next(self._drills.after(since)), now))
        if before is None or before.last_due is None:
            self._ledger.schedules.put(Schedule(DRILL, due, self._drills.words, last_due=now))
            return []
        return self._due(before, self._drills, now, due, self._drills.words, RequestKind.RESTORE_DRILL)

    def _due(
        self,
        before: Schedule,
        rhythm: Rhythm,
        now: datetime,
        next_due: datetime,
        why: str,
        kind: RequestKind = RequestKind.RUN,
    ) -> list[Request]:
        assert before.last_due is not None
        each = sparse(before, self._settings.service.adaptive)
        slots = rhythm.between(before.last_due, now)
        if len(slots) < each:
            self._remember(before, replace(before, next_due=next_due, why=why))
            return []
        slot = slots[-1]
        if (waits := self._waits(before, rhythm, now)) is not None:
            self._remember(before, replace(before, next_due=next_due, why=f"{why}; {waits}"))
            return []
        late = timedelta(hours=self._settings.service.catch_up_hours)
        # From when it could begin: no clock is looked at in the very moment, and a window may open much later.
        if now - opens(rhythm.windows, slot) > max(late, APART):
            words = (
                f"missed at {slot:%Y-%m-%d %H:%M} UTC, longer ago than catch_up_hours = {late // timedelta(hours=1)}"
            )
            after = next(rhythm.after(now))
            self._ledger.schedules.put(replace(before, next_due=after, why=words, last_due=slot))
            return []
        made = self._ask(kind, before.job, slot)
        missed = f"; {len(slots) - each} missed before it are made up for by this one" if len(slots) > each else ""
        self._ledger.schedules.put(
            replace(
                before,
                next_due=opens(rhythm.windows, next(rhythm.after(now))),
                why=f"{rhythm.words}; the last at {slot:%Y-%m-%d %H:%M} UTC{missed}",
                last_due=slot,
                last_request=made.request_id,
                # A clock that was put back comes to the same slot again: what came of it then still stands.
                last_outcome=str(made.status) if made.status.is_over else None,
            )
        )
        return [made]

    def _waits(self, before: Schedule, rhythm: Rhythm, now: datetime) -> str | None:
        """Why a job that is due is not asked for yet."""
        if (frozen := self._ledger.switches.frozen()) is not None:
            return f"frozen by {frozen.who}"
        if opens(rhythm.windows, now) > now:
            return "waits for its window"
        last = self._ledger.requests.get(before.last_request) if before.last_request else None
        if last is not None and not last.status.is_over and last.status is not RequestStatus.WAITING:
            return f"request {last.request_id} is not over"
        return None

    def _observe(self, now: datetime) -> list[Request]:
        """A look at the fleet, every so many minutes."""
        step = timedelta(minutes=self._settings.service.observe_minutes)
        slot = now - (now - datetime(1970, 1, 1, tzinfo=now.tzinfo)) % step
        before = self._ledger.schedules.get(OBSERVE)
        if before is not None and before.last_due is not None and slot <= before.last_due <= now + APART:
            return []
        if before is not None and before.last_request:
            asked = self._ledger.requests.get(before.last_request)
            if asked is not None and not asked.status.is_over:
                return []
        made = self._ask(RequestKind.OBSERVE, OBSERVE, slot)
        minutes = self._settings.service.observe_minutes
        every = "every minute" if minutes == 1 else f"every {minutes} minutes"
        self._ledger.schedules.put(Schedule(OBSERVE, slot + step, every, last_due=slot, last_request=made.request_id))
        return [made]

    def _ask(self, kind: RequestKind, job: str, slot: datetime) -> Request:
        return self._ledger.requests.create(
            self._new_id(),
            kind,
            self._actor,
            job=job,
            arguments={UNATTENDED: True} if kind is RequestKind.RUN else {},
            idempotency_key=f"{SCHEDULED}{job}/{slot.isoformat()}",
            due_at=slot,
        )

    def _in_time(self, known: Schedule, now: datetime) -> Schedule:
        """What is known of a job. Where the clock went ahead and was put back, nothing would be due until then.

        Daemons of one deployment may be minutes apart, and leave each other's slots alone.
        """
        if known.job == OBSERVE or known.last_due is None or known.last_due <= now + APART:
            return known
        back = replace(known, last_due=now)
        self._ledger.schedules.put(back)
        return back

    def _remember(self, before: Schedule | None, now: Schedule) -> None:
        """Written only where something is new: a look at the clock is no write."""
        if before is None or (before.next_due, before.why) != (now.next_due, now.why):
            self._ledger.schedules.put(now)


JOBS_BY_NAME = {str(spec.name): spec for spec in JOBS.values()}
