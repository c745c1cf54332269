"""Days of a service in fast-forward: daemons that share a ledger, a lake and a clock, and a writer that goes on meanwhile."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pyarrow as pa
from pyiceberg.exceptions import CommitFailedException

from lakewarden.ledger.requests import STALE, Request
from lakewarden.model.service import RequestKind, RequestStatus
from lakewarden.service.runner.loop import Runner
from lakewarden.service.schedule.tick import Scheduler
from lakewarden.settings import load_settings
from lakewarden.warden import Warden
from lakewarden.wiring import Wiring
from tests.night.lake import GOOD, NightLake

MINUTE = timedelta(minutes=1)


class Killed(BaseException):
    """The daemon dies here: nothing of it runs any more, and nobody was told."""


@dataclass
class Daemon:
    """A scheduler and a runner with connections of their own, as in a process of its own."""

    wiring: Wiring
    scheduler: Scheduler
    runner: Runner
    alive: bool = True
    worked_on: list[Request] = field(default_factory=list)

    @staticmethod
    def of(site: NightLake, name: str) -> Daemon:
        settings = load_settings(site.config(), env={})
        wiring = Wiring(settings, site.clock)
        runner = Runner(wiring.deployment, settings, Warden(wiring, settings), name, beat_seconds=0.5)
        return Daemon(wiring, Scheduler(wiring.ledger, settings, lambda: secrets.token_hex(8)), runner)

    def work(self) -> None:
        """Everything that there is to do now."""
        try:
            while self.alive and (done := self.runner.work_once()) is not None:
                self.worked_on.append(done)
        except Killed:
            self.alive = False


@dataclass
class Days:
    """The lake, its daemons, and the time that passes for all of them at once."""

    site: NightLake
    daemons: list[Daemon]
    appended: int = 0

    @property
    def now(self) -> datetime:
        return self.site.clock.now()

    def begin_at(self, hour: int, minute: int = 0) -> None:
        """Let it be the next such hour."""
        wanted = self.now.replace(hour=hour, minute=minute, second=0, microsecond=0)
        while wanted <= self.now:
            wanted += timedelta(days=1)
        self.site.clock.passed += wanted - self.now

    def pass_by(self, hours: float, step: timedelta = 30 * MINUTE, hourly: Callable[[], None] | None = None) -> None:
        """Let hours pass: every step each daemon looks at the clock and works, and every hour a writer commits meanwhile."""
        end = self.now + timedelta(hours=hours)
        written = self.now
        while self.now < end:
            self.site.clock.passed += step
            with ThreadPoolExecutor(1) as writer:
                writing: Future[None] | None = None
                if self.now - written >= timedelta(hours=1):
                    written = self.now
                    writing = writer.submit(self.write)
                self.settle()
                if writing is not None:
                    writing.result()
                    if hourly is not None:
                        hourly()

    def settle(self) -> None:
        """Until nothing is left to do. What a dead daemon holds is left to the others once it was silent for long enough."""
        for _ in range(20):
            for daemon in self.living:
                daemon.scheduler.tick(self.now)
            with ThreadPoolExecutor(len(self.daemons)) as pool:
                list(pool.map(Daemon.work, self.living))
            if not self.open_requests():
                return
            self.site.clock.passed += 2 * STALE
        raise AssertionError(f"never over: {self.open_requests()}")

    @property
    def living(self) -> list[Daemon]:
        return [daemon for daemon in self.daemons if daemon.alive]

    def open_requests(self) -> list[Request]:
        ledger = self.living[0].wiring.ledger
        return ledger.requests.list(status=[RequestStatus.QUEUED, RequestStatus.RUNNING])

    def write(self) -> None:
        """A writer commits a row of its own, again where a job has committed first."""
        self.appended += 1
        for _ in range(20):
            table = self.site.table(GOOD)
            schema = table.schema().as_arrow()
            row = {name: [1_000_000 + self.appended if name == "id" else None] for name in schema.names}
            with suppress(CommitFailedException):
                table.append(pa.Table.from_pydict(row, schema=schema))
                return
        raise AssertionError("the writer never got its turn")

    def scheduled(self) -> list[Request]:
        """Every run that the schedule asked for, in the order in which they ended."""
        ledger = self.living[0].wiring.ledger
        found = [one for one in ledger.requests.list(limit=1000) if one.kind is RequestKind.RUN]
        return sorted(found, key=lambda one: one.finished_at or self.now)

    def twice(self) -> dict[tuple[str | None, datetime | None], int]:
        """Slots that were run more than once: none."""
        counted = Counter((one.job, one.due_at) for one in self.scheduled())
        runs = self.living[0].wiring.ledger.runs.list(limit=1000)
        by_plan = Counter((run.job, None) for run in runs if run.plan_id is not None)
        expected = Counter((one.job, None) for one in self.scheduled())
        more = {key: number for key, number in by_plan.items() if number > expected[key]}
        return {**{key: number for key, number in counted.items() if number > 1}, **more}

    def close(self) -> None:
        for daemon in self.daemons:
            daemon.wiring.close()
