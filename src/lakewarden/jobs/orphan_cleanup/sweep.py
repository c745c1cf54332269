"""One sweep: what it looks at, and the rules by which a listed file is an orphan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from lakewarden.jobs.orphan_cleanup.confirmations import confirmed
from lakewarden.model.actor import Trigger
from lakewarden.model.policy import OrphanPolicy
from lakewarden.model.roots import Root
from lakewarden.pipeline.compare.candidates import Candidates
from lakewarden.pipeline.compare.holders import Holders, everything
from lakewarden.pipeline.compare.verdicts import Rules
from lakewarden.pipeline.spark.work import Starting
from lakewarden.steps.compare.compare import Ground, compare
from lakewarden.steps.compare.findings import Findings
from lakewarden.steps.compare.rules import owners_of
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.observe.fleet import Fleet
from lakewarden.steps.observe.shards import listing_of
from lakewarden.steps.plan.document import Request

if TYPE_CHECKING:
    from lakewarden.pipeline.compare.compare import Memory


@dataclass(frozen=True)
class Sweep:
    """What one sweep looks at: the fleet, the roots to list, the policies, the tables that may be changed."""

    fleet: Fleet
    roots: tuple[Root, ...]
    policies: Mapping[str, OrphanPolicy]
    chosen: frozenset[str]
    request: Request
    now: datetime
    session: Starting

    @property
    def scheduled(self) -> bool:
        return self.request.actor.trigger is Trigger.SCHEDULE

    @property
    def longest_grace(self) -> timedelta:
        return max((policy.grace for policy in self.policies.values()), default=timedelta())


def sweep_roots(deployment: Deployment, sweep: Sweep) -> Findings:
    """Every file of the roots, judged against everything that any table reaches."""
    holders = Holders.of((everything(n, state) for n, state in enumerate(sweep.fleet.states)), sweep.fleet.homes)
    candidates = listing_of(deployment, sweep.fleet, sweep.roots, inventories=True)
    return judge_files(deployment, sweep, holders, candidates, complete=True)


def judge_files(
    deployment: Deployment, sweep: Sweep, holders: Holders, candidates: Candidates, *, complete: bool = False
) -> Findings:
    """These candidates, judged by the rules of the sweep and what is remembered of them."""
    ground = Ground(sweep.fleet, sweep.roots, sweep.request.directory, sweep.session, complete=complete)
    return compare(deployment, ground, holders, candidates, rules_of(deployment, sweep), memory_of(deployment, sweep))


def rules_of(deployment: Deployment, sweep: Sweep) -> Rules:
    """The cut-off, selection and confirmation of each table by number; who owns which directory; live writers."""
    policies = [sweep.policies[state.identifier] for state in sweep.fleet.states]
    formats = sorted(deployment.readers)
    return Rules(
        owners=owners_of(sweep.fleet, sweep.fleet.claims),
        cutoffs=tuple(_micros(sweep.now - policy.grace) for policy in policies),
        selected=tuple(state.identifier in sweep.chosen for state in sweep.fleet.states),
        confirm=tuple(sweep.scheduled and policy.confirmations > 1 for policy in policies),
        writer_prefixes={
            number: state.writer_prefixes for number, state in enumerate(sweep.fleet.states) if state.writer_prefixes
        },
        heartbeats=tuple(deployment.ledger.heartbeats.protecting(sweep.now)),
        names=tuple(deployment.readers[name].names for name in formats),
        formats=tuple(formats.index(state.format) for state in sweep.fleet.states),
    )


def memory_of(deployment: Deployment, sweep: Sweep) -> Memory:
    """Files that an expiry released, and, for a scheduled sweep, those that earlier plans called orphans."""
    from lakewarden.pipeline.compare.compare import Memory

    return Memory(
        pending=deployment.ledger.pending.iter_uris,
        pending_count=deployment.ledger.pending.count(),
        seen=confirmed(deployment, sweep.policies, sweep.fleet.claims, sweep.now) if sweep.scheduled else None,
    )


def _micros(instant: datetime) -> int:
    return int(instant.timestamp() * 1_000_000)
