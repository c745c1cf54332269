"""Which released files something needs again. Such a file begins to wait anew: when what needs it goes too, its readers
have the whole delay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakewarden.model.plan import Tally
from lakewarden.model.roots import Root
from lakewarden.model.verdict import Verdict
from lakewarden.pipeline.compare.candidates import Candidates
from lakewarden.pipeline.compare.holders import Holders
from lakewarden.pipeline.spark.work import Starting
from lakewarden.steps.compare.compare import Ground, compare
from lakewarden.steps.compare.findings import Findings
from lakewarden.steps.compare.rules import release_rules
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.in_spark import in_spark
from lakewarden.steps.observe.fleet import Fleet


@dataclass(frozen=True)
class Released:
    """Released files that are due, as files of LISTED rows under these roots; and the whole fleet that may need one."""

    fleet: Fleet
    parts: Sequence[str]
    roots: Sequence[Root]
    directory: str
    session: Starting


def needed_again(deployment: Deployment, released: Released, chosen: frozenset[str]) -> Findings:
    """Each released file: needed again by some table of the fleet, or free to go."""
    fleet = released.fleet
    holders = Holders.of(((n, state, state.held) for n, state in enumerate(fleet.states)), fleet.homes)
    ground = Ground(fleet, released.roots, released.directory, released.session, count_needs=True)
    rules = release_rules(deployment, fleet, chosen)
    findings = compare(deployment, ground, holders, Candidates(listed=released.parts), rules)
    if any(tallies.get(Verdict.LIVE, Tally()).files for tallies in findings.verdicts.values()):
        _let_wait_anew(deployment, released, findings)
    return findings


def _let_wait_anew(deployment: Deployment, released: Released, findings: Findings) -> None:
    from lakewarden.pipeline.read.frames import left_out

    judged = [released.directory + part.name for part in findings.parts]
    needed = in_spark(lambda: left_out(released.session.result(), released.parts, judged, deployment.stores))
    deployment.ledger.pending.renew(needed.to_pylist(), deployment.clock.now())
