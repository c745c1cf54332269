"""Why a file is there, or gone: through what it is live, what the newest plan says of it, who deleted it. No Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow.compute as pc

from lakewarden.model.errors import LakewardenError, NotFoundError
from lakewarden.model.policy import DeletionPolicy, Job
from lakewarden.model.run import PlanResult
from lakewarden.model.verdict import Outcome, Verdict
from lakewarden.pipeline import columns as c
from lakewarden.reports.asked_file import address_of
from lakewarden.reports.audit.facts import snapshot_facts
from lakewarden.reports.audit.snapshots import Snapshots
from lakewarden.reports.audit.written import written_by
from lakewarden.reports.compacted import compacted
from lakewarden.reports.ways import Way, ways_to
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.observe.fleet import Fleet, load_fleet
from lakewarden.steps.plan.rows import rows_of

PLANS_LOOKED_AT = 50
SHOWN_WAYS = 20
GONE = (Outcome.DELETED, Outcome.HIDDEN, Outcome.QUARANTINED)

Facts = dict[str, Any]


def explain(deployment: Deployment, uri: str) -> Facts:
    """What is known of one file. Raises NotFoundError if nothing is."""
    key = address_of(uri)
    fleet = load_fleet(deployment, deployment.clock.now())
    found, unread = ways_to(deployment, fleet, key)
    ways = [way.facts for way in found]
    released = _released(deployment, fleet, key)
    planned = list(_planned(deployment, key))
    deletions = [_deletion(found) for found in deployment.ledger.journal.find(key)]
    there = deployment.stores.head(key) is not None
    rewritten = list(compacted(deployment, key))
    if not (ways or planned or deletions or there or released or rewritten):
        raise NotFoundError(f"{key} is in no table, no plan, no journal and no store")
    status = _status(ways, planned, deletions, there, released is not None)
    answer: Facts = {"uri": key, "status": status, "exists": there}
    if released:
        answer["released"] = released
    if refused := list(_left_alone(fleet, key)):
        answer["left_alone"] = refused
    if ways:
        answer |= {"live_through": ways[:SHOWN_WAYS], "ways": len(ways)}
    if unread:
        # Any of these may need the file too.
        answer["unread_tables"] = unread
    if written := _written(deployment, key, found):
        answer["written_by"] = written
    if planned:
        answer |= {"newest_plan": planned[0], "first_listed_at": planned[-1]["created_at"]}
    if rewritten:
        answer["compaction"] = rewritten
    if deletions:
        answer["journal"] = deletions
    return answer


def _status(ways: list[Facts], planned: list[Facts], deletions: list[Facts], there: bool, released: bool) -> str:
    if ways:
        return "live"
    if not there:
        return "deleted" if any(found["outcome"] in GONE for found in deletions) else "gone"
    if released:
        return str(Verdict.PENDING)
    return str(planned[0]["verdict"]) if planned else "unseen"


def _released(deployment: Deployment, fleet: Fleet, key: str) -> Facts | None:
    """Of a file that expiry released: since when, by which run, and until when physical deletion leaves it alone."""
    found = deployment.ledger.pending.find(key)
    if found is None:
        return None
    # The longest delay counts of all tables that share the directory.
    inside = {name for root in fleet.roots if key.startswith(root.prefix) for name in root.tables}
    delays = [
        DeletionPolicy.of(policy.values).visibility_delay
        for state in fleet.states
        if state.identifier in inside
        and (policy := deployment.policy_for(
            Job.PHYSICAL_DELETION, state.identifier, state.properties, uuid=state.uuid, unsafe_short_grace=()
        )).refusal is None
    ]  # fmt: skip
    until = found.released_at + max(delays) if delays else None
    return {
        "since": found.released_at.isoformat(),
        "until": until.isoformat() if until else None,
        "run_id": found.run_id,
        "table": found.table,
    }


def _left_alone(fleet: Fleet, key: str) -> Iterator[Facts]:
    """Why the directory of the file is left alone: the refusals of the tables that it belongs to, and of its root."""
    owners = {claim.identifier for claim in fleet.claims if key.startswith(claim.prefix)}
    for state in fleet.states:
        if state.identifier in owners and state.refusal is not None:
            yield {"table": state.identifier, **asdict(state.refusal)}
    for root in fleet.roots:
        if key.startswith(root.prefix) and root.refusal is not None:
            yield {"root": root.prefix, **asdict(root.refusal)}


def _planned(deployment: Deployment, key: str) -> Iterator[Facts]:
    """What plans said of the file, newest first. Plans whose files are gone or changed say nothing."""
    for saved in deployment.ledger.plans.list(Job.ORPHAN_CLEANUP, PLANS_LOOKED_AT):
        header = deployment.ledger.plans.header(saved.plan_id)
        if header is None or saved.path is None:
            continue
        try:
            found = [
                row for rows in rows_of(deployment.stores, PlanResult(header, saved.path))
                for row in rows.filter(pc.equal(rows["uri"], key)).to_pylist()
            ]  # fmt: skip
        except LakewardenError:
            continue
        for row in found:
            yield {
                "plan_id": saved.plan_id,
                "created_at": header.created_at.isoformat(),
                "table": row["table"],
                "verdict": row["verdict"],
                "reason": row["reason"],
                "kind": row[c.KIND],
                "size": row[c.SIZE],
                "modified": row[c.MODIFIED].isoformat() if row[c.MODIFIED] else None,
            }


def _written(deployment: Deployment, key: str, ways: Sequence[Way]) -> Facts | None:
    """Who wrote the file and when, as far as anybody can tell. What cannot be told leaves the rest of the answer."""
    try:
        known, how = written_by(deployment, Snapshots(deployment), key, ways)
    except LakewardenError:
        return None
    wanted = ("snapshot", "committed_at", "operation", "writer", "trigger", "state")
    return {"resolved_by": how, **{name: snapshot_facts(known[0])[name] for name in wanted}}


def _deletion(found: Any) -> Facts:
    return {
        "run_id": found.run_id,
        "batch": found.batch_no,
        "outcome": str(found.outcome),
        "at": found.at.isoformat() if found.at else None,
        "plan_id": found.plan_id,
        "actor": asdict(found.actor),
    }
