"""The forecast: what snapshot expiry would release at each of several retentions, and what the lake grows a day.

By the formats' own rules of retention and by the comparison that expiry's plan asks, at all retentions in one pass over
the reachable files. Nothing is changed, released or planned.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from lakewarden.model.actor import Actor
from lakewarden.model.errors import Refusal
from lakewarden.model.expiry import Expiration
from lakewarden.model.forecast import GROWTH_DAYS, RETENTIONS, FileClass, Forecast, Release, TableForecast, growth_of
from lakewarden.model.health import SMALL_FILE_BYTES
from lakewarden.model.holding import in_all_cases
from lakewarden.model.plan import Tally
from lakewarden.model.policy import ExpiryPolicy, Job
from lakewarden.model.ports import Progress
from lakewarden.model.table import Holder, TableState
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.compare.holders import Holders
from lakewarden.steps.compare.by_level import Case, count_cases
from lakewarden.steps.compare.compare import Ground
from lakewarden.steps.compare.findings import Findings, refusals_of
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.observe.expirations import surveys
from lakewarden.steps.observe.fleet import Fleet, load_fleet
from lakewarden.steps.observe.shards import listing_of
from lakewarden.steps.plan.document import Request, chosen_of, policies_of, under_one_name, without_strangers

NO_LIMIT = 2**31 - 1  # a run may be limited to so many snapshots; a forecast is about as many runs as it takes


@dataclass(frozen=True)
class _Surveyed:
    """What the formats said of one table: the counts of each retention, and who needs files at which of them.

    Lines of thousands of snapshots, six times over, are not kept. `going` says at which retentions anything goes.
    """

    refusal: Refusal | None
    releases: tuple[Release, ...] = ()
    going: tuple[bool, ...] = ()
    holders: tuple[tuple[int, Holder], ...] = ()


Surveyed = Mapping[int, _Surveyed]


def forecast(
    deployment: Deployment,
    select: Sequence[str],
    exclude: Sequence[str],
    progress: Progress,
    retentions: Sequence[int] = RETENTIONS,
) -> Forecast:
    """What would be released of the tables that match, by retention in days."""
    now = deployment.clock.now()
    session = deployment.telling(progress).warm_spark()
    request = Request(Actor("", deployment.worker), deployment.state, tuple(select), tuple(exclude))

    progress("load tables", 0, 0)
    loaded = load_fleet(deployment, now)
    policies, fleet = policies_of(deployment, loaded, request, Job.SNAPSHOT_EXPIRY, ExpiryPolicy.of)
    fleet = without_strangers(deployment, under_one_name(fleet))
    chosen = chosen_of(fleet, request, policies)

    progress("decide", 0, 0)
    by_retention = [surveys(deployment, fleet, _kept_for(policies, days), chosen, now) for days in retentions]
    found = {
        several[0][0]: _surveyed(fleet.states[several[0][0]], retentions, [one for _, one in several])
        for several in zip(*by_retention, strict=True)
    }
    asked = {fleet.states[number].identifier for number, one in found.items() if one.refusal is None}
    roots = [root for root in fleet.roots if root.refusal is None and asked.intersection(root.tables)]

    progress("compare", 0, 0)
    ground = Ground(fleet, roots, deployment.state, session)
    findings, counts = _count(deployment, ground, found, asked, retentions, now) if roots else (Findings(), [])
    tables = _tables(fleet, chosen, found, findings, _Counted(counts, len(retentions)), now)
    return Forecast(now, tuple(retentions), tuple(tables))


def _kept_for(policies: Mapping[str, ExpiryPolicy], days: int) -> dict[str, ExpiryPolicy]:
    """Each table's policy with another retention, and without a limit of snapshots for one run."""
    keep = timedelta(days=days)
    return {name: replace(policy, retain=keep, max_expire=NO_LIMIT) for name, policy in policies.items()}


def _surveyed(state: TableState, retentions: Sequence[int], several: Sequence[Expiration]) -> _Surveyed:
    """What the format said of a table at each retention."""
    if (why := next((one.refusal for one in several if one.refusal), None)) is not None:
        return _Surveyed(why)
    cases = {c.level_mark(level): one.holders if one else state.held for level, one in enumerate(several)}
    return _Surveyed(
        None,
        tuple(
            Release(days, len(one.expired), len(one.refs_expired), one.changelogs)
            for days, one in zip(retentions, several, strict=True)
        ),
        tuple(map(bool, several)),
        tuple(in_all_cases({c.MARK_RELEASED: state.held, **cases})),
    )


def _count(
    deployment: Deployment,
    ground: Ground,
    found: Surveyed,
    asked: Collection[str],
    retentions: Sequence[int],
    now: datetime,
) -> tuple[Findings, list[dict[str, Any]]]:
    """LEVEL_COUNTS of each retention, and last of everything that the tables name now."""
    states = ground.fleet.states
    marks = [c.level_mark(level) for level in range(len(retentions))]
    touching = {name for root in ground.roots for name in root.tables}
    numbered = [
        (number, state, holder, mark)
        for number, state in enumerate(states)
        if state.identifier in touching
        for mark, holder in (found[number].holders if state.identifier in asked else _always(state, marks))
    ]
    cases = [
        Case(mark, {states[number].identifier for number, one in found.items() if one.going and one.going[level]})
        for level, mark in enumerate(marks)
    ]
    return count_cases(
        deployment,
        ground,
        Holders.marked(numbered, ground.fleet.homes),
        listing_of(deployment, ground.fleet, ground.roots, inventories=False),
        [*cases, Case(0, asked)],
        small_bytes=SMALL_FILE_BYTES,
        since=int((now - timedelta(days=GROWTH_DAYS)).timestamp() * 1_000_000),
    )


def _always(state: TableState, marks: Sequence[int]) -> list[tuple[int, Holder]]:
    """A neighbour of which nothing is asked: it needs its files at every retention."""
    return [(sum(marks), holder) for holder in state.held]


class _Counted:
    """Rows of LEVEL_COUNTS, to be asked by table. The last case is what is named now."""

    def __init__(self, rows: Iterable[Mapping[str, Any]], levels: int) -> None:
        self._levels = levels
        self._rows: dict[int, list[Mapping[str, Any]]] = {}
        for row in rows:
            self._rows.setdefault(row[c.TABLE], []).append(row)

    def released(self, table: int, level: int) -> Tally:
        return self._sum(table, level)

    def now(self, table: int, *flags: str) -> Tally:
        """What is named now: all of it, or what has these flags (`data`, `small`, `recent`)."""
        return self._sum(table, self._levels, *flags)

    def classes(self, table: int) -> Iterator[FileClass]:
        """The data files that are named now, by size and age."""
        every, small, recent, both = (
            self.now(table, "data", *flags) for flags in ((), ("small",), ("recent",), ("small", "recent"))
        )
        yield FileClass(True, True, both)
        yield FileClass(True, False, _less(small, both))
        yield FileClass(False, True, _less(recent, both))
        yield FileClass(False, False, _less(_less(_less(every, small), recent), Tally(-both.files, -both.bytes)))

    def _sum(self, table: int, level: int, *flags: str) -> Tally:
        mine = (row for row in self._rows.get(table, ()) if row["level"] == level and all(row[name] for name in flags))
        return sum((Tally(row["files"], row["bytes"] or 0) for row in mine), Tally())


def _less(whole: Tally, part: Tally) -> Tally:
    return Tally(whole.files - part.files, whole.bytes - part.bytes)


def _tables(
    fleet: Fleet,
    chosen: frozenset[str],
    found: Surveyed,
    findings: Findings,
    counted: _Counted,
    now: datetime,
) -> Iterable[TableForecast]:
    reasons = refusals_of(fleet, findings)
    for number, state in enumerate(fleet.states):
        if state.identifier not in chosen:
            continue
        one = found.get(number, _Surveyed(None))
        if why := next(iter(reasons[state.identifier]), one.refusal):
            yield TableForecast(state.identifier, state.format, why)
            continue
        yield TableForecast(
            state.identifier,
            state.format,
            snapshots=len(state.snapshot_ids),
            now=counted.now(number),
            data=counted.now(number, "data"),
            small=counted.now(number, "data", "small"),
            releases=tuple(
                replace(release, tally=counted.released(number, level)) for level, release in enumerate(one.releases)
            ),
            growth=growth_of(state.commits, now, counted.now(number, "data", "recent")),
            classes=tuple(counted.classes(number)),
        )
