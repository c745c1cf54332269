"""Fleets made up for the report page: tables of every status, with a forecast and runs, without a lake."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from lakewarden.jobs.registry import JOBS
from lakewarden.ledger.pending import Waiting
from lakewarden.ledger.runs import Run
from lakewarden.model.actor import Actor
from lakewarden.model.cost import Cost
from lakewarden.model.errors import Refusal
from lakewarden.model.forecast import RETENTIONS, Forecast, Growth, Release, Source, TableForecast
from lakewarden.model.health import TableFacts, health_of
from lakewarden.model.plan import Tally
from lakewarden.model.run import FailedFile, RunResult, RunStatus
from lakewarden.model.table import TableState
from lakewarden.reports.overview import Overview
from lakewarden.reports.page.content import content_of
from lakewarden.reports.page.render import render
from lakewarden.reports.page.runs import last_runs
from lakewarden.steps.observe.fleet import Fleet

NOW = datetime(2026, 11, 18, 5, 0, tzinfo=UTC)
GIB = 1 << 30
REFUSALS = (
    Refusal("LW-TABLE-002", "manifest 7f3a-m0.avro has 8,101 of 8,192 bytes; nothing was touched", "Restore the manifest from a backup, then plan again."),
    Refusal("LW-TABLE-004", "gc.enabled=false; nothing was touched", "Ask the table's owner, then set gc.enabled to true."),
    Refusal("LW-ROOT-002", "its directory holds metadata of table 9c1d0b7e, which no configured catalog knows", "Add that table's catalog to the configuration, or abandon the table."),
)  # fmt: skip
SPACES = ("sales", "web", "finance", "ops", "iot")
NAMES = ("orders", "clicks", "ledger", "events", "readings", "sessions", "invoices", "devices", "returns", "carts")


def facts_of(number: int, name: str) -> TableFacts:
    """A table of the fleet: every eleventh is refused, some have orphans, many snapshots or small files."""
    live = Tally(900 + 37 * (number % 41), (3 + number * number % 97) * GIB)
    orphans = Tally(0, 0) if number % 4 else Tally(40 + number, live.bytes // (12 + number % 5))
    found = TableFacts(
        name, snapshots=20 + (number * 53) % 240, planned=True, live=live, orphans=orphans,
        data=Tally(live.files, live.bytes), small=Tally(live.files // 9, GIB),
    )  # fmt: skip
    if number % 11 == 3:
        return replace(found, refusal=REFUSALS[number % 3], live=None, orphans=None)
    if number % 17 == 5:
        return replace(found, snapshots=1400 + number)
    if number % 13 == 6:
        return replace(found, small=Tally(live.files * 3 // 4, GIB))
    return replace(found, planned=False, live=None, orphans=None) if number % 19 == 7 else found


def forecast_of(facts: TableFacts) -> TableForecast:
    if facts.refusal is not None:
        return TableForecast(facts.identifier, "iceberg", facts.refusal)
    live = facts.live or Tally(10, GIB)
    releases = tuple(
        Release(days, facts.snapshots * share // 100, tally=Tally(live.files * share // 160, live.bytes * share // 160))
        for days, share in zip(RETENTIONS, (92, 78, 60, 41, 17, 2), strict=True)
    )
    growth = Growth(live.bytes // 3, 30.0, Source.SNAPSHOTS)
    small, data = facts.small or Tally(), facts.data or Tally()
    return TableForecast(facts.identifier, "iceberg", None, facts.snapshots, live, data, small, releases, growth)


def runs() -> list[Run]:
    actor = Actor("scheduler", "host-1")

    def one(number: int, job: str, status: str, hours: float, minutes: int, **result: Any) -> Run:
        began = NOW - timedelta(hours=hours)
        told = RunResult(f"a1b2c3d4e5f6070{number}", f"p{number}", job, RunStatus(status), **result)
        ended = began + timedelta(minutes=minutes)
        return Run(told.run_id, job, told.plan_id, status, actor, began, ended, told.as_json())

    slow = FailedFile("s3://b/x", "LW-STORE-002", "slow")
    return [
        one(4, "orphan-cleanup", "done", 1, 3, deleted=Tally(1106, 31 * GIB), changed={"files": 1106}),
        one(3, "physical-deletion", "partial", 3, 6, deleted=Tally(2841, 96 * GIB), failed=(slow,)),
        one(2, "tier-handoff", "done", 4, 2, changed={"files": 118}),
        one(1, "snapshot-expiry", "done", 5, 4, changed={"snapshots": 412, "refs": 2}),
    ]


def names(count: int) -> list[str]:
    return [f"prod.{SPACES[i % 5]}.{NAMES[i // 5 % 10]}{'' if i < 50 else f'_{i // 50}'}" for i in range(count)]


def overview(identifiers: list[str], **more: Any) -> Overview:
    facts = {name: facts_of(number, name) for number, name in enumerate(identifiers)}
    states = tuple(
        TableState(name, "iceberg" if i % 6 else "paimon", f"u{i}", f"s3://b/{i}/m.json", f"s3://b/{i}", (f"s3://b/{i}",))
        for i, name in enumerate(identifiers)
    )  # fmt: skip
    given: dict[str, Any] = {
        "at": NOW, "fleet": Fleet(states, (), ()), "planned": {}, "maintained": frozenset(), "refused": {},
        "facts": facts, "health": {name: health_of(known) for name, known in facts.items()}, "newest_plan": None,
        "waiting": {n: Waiting(Tally(120, 7 * GIB), NOW) for n in identifiers[1::9]}, "frozen": None, **more,
    }  # fmt: skip
    return Overview(**given)


def deployment(cost: Cost | None = None, ran: list[Run] | None = None) -> Any:
    """What the page asks of a deployment besides the fleet."""
    return SimpleNamespace(
        worker="host-1",
        cost=cost or Cost(),
        clock=SimpleNamespace(now=lambda: NOW),
        leases=SimpleNamespace(list=lambda: []),
        # Tables whose snapshots cannot be read, and of which no check is known: no part on lineage.
        format_of=lambda identifier: SimpleNamespace(historian=None),
        ledger=SimpleNamespace(
            runs=SimpleNamespace(list=lambda limit: runs() if ran is None else ran),
            plans=SimpleNamespace(list=lambda job, limit: []),
            activity=SimpleNamespace(reclaimed=lambda since: [(NOW, 3 << 30)]),
        ),
    )


def page(identifiers: list[str], *, forecast: bool = True, **more: Any) -> str:
    """The page of a made-up fleet."""
    found = overview(identifiers, **more)
    predicted = Forecast(NOW, RETENTIONS, tuple(map(forecast_of, found.facts.values()))) if forecast else None
    asked = deployment()
    content = content_of(asked, found, predicted, None)
    return render("page.html", {**content, "runs": last_runs(asked, JOBS, NOW)})
