"""When each job is due, by its cron line or interval, and why. Pure: settings and a moment in, moments and words out."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice

from cronsim import CronSim

from lakewarden.jobs.registry import JOBS
from lakewarden.ledger.schedules import Schedule
from lakewarden.model.windows import Window, opens, windows_of
from lakewarden.settings import Settings
from lakewarden.settings.sections import ALL_JOBS
from lakewarden.steps.job import JobSpec

# A job that is due every minute and was away for a week has some ten thousand slots: more are not looked at.
_MOST_SLOTS = 20_000
QUIET = 3
DRILL = "restore-drill"
_MOST_SPARSE = 8


@dataclass(frozen=True, slots=True)
class NextRun:
    """When a job runs next, as far as is known now; never where `due_at` is None. `why` is for people."""

    job: str
    due_at: datetime | None
    why: str


@dataclass(frozen=True, slots=True)
class Rhythm:
    """The moments at which one job is due: a cron line or a number of hours, shifted a little; the windows it keeps to."""

    words: str
    cron: str | None
    hours: int | None
    shift: timedelta
    windows: tuple[Window, ...] = ()

    def after(self, moment: datetime) -> Iterator[datetime]:
        """Every slot after a moment, in order."""
        if self.cron is not None:
            for slot in CronSim(self.cron, moment - self.shift):
                yield slot + self.shift
            return
        step = timedelta(hours=self.hours or 1)
        epoch = datetime(1970, 1, 1, tzinfo=moment.tzinfo)
        count = (moment - self.shift - epoch) // step
        while True:
            count += 1
            yield epoch + count * step + self.shift

    def between(self, after: datetime, until: datetime) -> list[datetime]:
        """The slots after one moment, until another."""
        found = []
        for slot in islice(self.after(after), _MOST_SLOTS):
            if slot > until:
                break
            found.append(slot)
        return found


def rhythm_of(settings: Settings, spec: JobSpec) -> Rhythm | None:
    """How often a job is due; None for one without a cron line or interval.

    A cron line wins over an interval where both are written; an interval that is written wins over the default line.
    """
    section, service = settings.job(spec.name), settings.service
    said, hours = section.model_fields_set, getattr(section, "cleanup_interval_hours", None)
    by_hours = hours is not None and "cleanup_interval_hours" in said and "cron" not in said
    if not by_hours and section.cron is None:
        return None
    text = service.windows.get(spec.section, service.windows.get(ALL_JOBS))
    return Rhythm(
        words=("every hour" if hours == 1 else f"every {hours} hours") if by_hours else f"cron {section.cron}",
        cron=None if by_hours else section.cron,
        hours=hours if by_hours else None,
        shift=timedelta(seconds=_shift(spec.name, service.jitter_seconds)),
        windows=windows_of(text) if text else (),
    )


def drill_rhythm(settings: Settings) -> Rhythm | None:
    """How often a restore drill is due; None where it is switched off."""
    section, service = settings.restore_drill, settings.service
    if not section.enabled:
        return None
    shift = timedelta(seconds=_shift(DRILL, service.jitter_seconds))
    text = service.windows.get(ALL_JOBS)
    return Rhythm(f"cron {section.cron}", section.cron, None, shift, windows_of(text) if text else ())


def _shift(job: str, most: int) -> int:
    """A number of seconds that every daemon makes of a job's name alike."""
    return int.from_bytes(hashlib.sha256(job.encode()).digest()[:4]) % (most + 1)


def enabled_by_settings(settings: Settings) -> set[str]:
    """The jobs that the configuration enables somewhere. A table's own properties may enable more."""
    found = set()
    for spec in JOBS.values():
        given = [over.given(spec.section) for over in settings.overrides]
        if settings.job(spec.name).enabled or any(one is not None and one.enabled for one in given):
            found.add(str(spec.name))
    return found


def sparse(schedule: Schedule | None, adaptive: bool) -> int:
    """Every how manieth slot is taken: fewer after several runs that had nothing to do."""
    quiet = schedule.quiet_runs if schedule is not None and adaptive else 0
    return min(2 ** (quiet - QUIET + 1), _MOST_SPARSE) if quiet >= QUIET else 1


def next_runs(
    settings: Settings,
    now: datetime,
    enabled: Collection[str],
    known: Mapping[str, Schedule] | None = None,
) -> list[NextRun]:
    """Every job with its next run and why, the next one first. What is due already is due now."""
    found = [_next_run(settings, spec, now, enabled, (known or {}).get(spec.name)) for spec in JOBS.values()]
    return sorted(found, key=lambda one: (one.due_at is None, one.due_at or now))


def _next_run(
    settings: Settings, spec: JobSpec, now: datetime, enabled: Collection[str], known: Schedule | None
) -> NextRun:
    name = str(spec.name)
    if name not in enabled:
        return NextRun(
            name, None, f"not enabled for any table ([{spec.section}] enabled, or an override or table property)"
        )
    rhythm = rhythm_of(settings, spec)
    if rhythm is None:
        return NextRun(name, None, f"[{spec.section}] has no cron line")
    each = sparse(known, settings.service.adaptive)
    since = known.last_due if known is not None and known.last_due is not None else now
    slot = next(islice(rhythm.after(since), each - 1, None))
    begins = opens(rhythm.windows, max(slot, now))
    why = rhythm.words
    if each > 1:
        why += f"; every {each}th time, after {known.quiet_runs if known else 0} runs with nothing to do"
    if slot <= now:
        why += f"; due since {slot:%Y-%m-%d %H:%M} UTC"
    if begins > max(slot, now):
        why += "; waits for its window"
    return NextRun(name, begins, why)
