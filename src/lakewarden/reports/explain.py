"""Why a file is there, or gone: through what it is live, what the newest plan says of it, who deleted it. No Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.model.errors import IncompleteManifestError, LakewardenError, NotFoundError
from lakewarden.model.policy import DeletionPolicy, Job
from lakewarden.model.roots import match_key
from lakewarden.model.run import PlanResult
from lakewarden.model.table import ManifestList, TableState
from lakewarden.model.uri import canonical
from lakewarden.model.verdict import Outcome, Verdict
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.read.manifests import ReadTask, read_lists, read_manifests
from lakewarden.pipeline.read.notes import NOTE
from lakewarden.pipeline.read.to_read import ToRead
from lakewarden.reports.asked_file import address_of
from lakewarden.reports.compacted import compacted
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
    ways, unread = _ways(deployment, fleet, key)
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


def _ways(deployment: Deployment, fleet: Fleet, key: str) -> tuple[list[Facts], dict[str, str]]:
    """Every way in which a table needs the file, and the tables that cannot tell.

    The tables in whose directories it lies are asked first, the others only if those do not need it.
    """
    owners = {claim.identifier for claim in fleet.claims if key.startswith(claim.prefix)}
    found: list[Facts] = []
    unread: dict[str, str] = {}
    for state in sorted(fleet.states, key=lambda state: state.identifier not in owners):
        if found and state.identifier not in owners:
            break
        try:
            found += _ways_of(deployment, state, key, fleet.homes.get(state.identifier))
        except LakewardenError as error:
            unread[state.identifier] = str(error)
    return found, unread


def _ways_of(deployment: Deployment, state: TableState, key: str, home: str | None) -> Iterator[Facts]:
    """How one table needs the file: named by its metadata, a list of a snapshot, a manifest, or an entry of one."""
    if state.refusal is not None and not state.is_visible:
        raise LakewardenError(state.refusal.message, code=state.refusal.code)
    lists = [item for item in state.manifest_lists if not item.soft]
    if any(canonical(file.uri) == key for file in state.files) or canonical(state.metadata_location) == key:
        of = [item for item in lists if canonical(item.uri) == key]
        yield from (_way(state, item, None) for item in of)
        if not of:
            yield {"table": state.identifier, "refs": [], "snapshot_id": None, "manifest": None, "by": "metadata"}
        return
    read = ReadTask(deployment.stores, deployment.readers)
    # The number that a list carries comes back with each of its manifests, so here it says which snapshot that was.
    homes = {state.identifier: home} if home else {}
    wanted = ToRead.of(((i, replace(state, manifest_lists=(item,))) for i, item in enumerate(lists)), homes)
    manifests = _whole(read_lists(read)(iter(wanted.lists.to_batches())), c.MANIFESTS, "path")
    manifests = pa.concat_tables([manifests, wanted.manifests])
    snapshots: dict[str, list[int]] = {}
    for row in manifests.select([c.TABLE, "path"]).to_pylist():
        snapshots.setdefault(row["path"], []).append(row[c.TABLE])
    if key in snapshots:
        yield from (_way(state, lists[i], key) for i in snapshots[key])
        return
    firsts = {row["path"]: row for row in manifests.to_pylist()}
    paths = sorted(firsts)
    once = pa.Table.from_pylist([firsts[path] | {c.TABLE: i} for i, path in enumerate(paths)], schema=c.MANIFESTS)
    marks = _whole(read_manifests(read)(iter(once.to_batches())), c.MARKS, c.KEY)
    # By address too: an entry of a table whose files are known by name may tell where its file lies.
    keys = pa.array([key, match_key(key, home)], pa.string())
    holding = pc.unique(marks.filter(pc.is_in(marks[c.KEY], keys))[c.TABLE]).to_pylist()
    for path in (paths[i] for i in holding):
        yield from (_way(state, lists[i], path) for i in snapshots[path])


def _way(state: TableState, item: ManifestList, manifest: str | None) -> Facts:
    return {
        "table": state.identifier,
        "refs": _refs_over(state, item),
        "snapshot_id": item.snapshot_id,
        "manifest": manifest,
        "by": "manifest" if manifest else "manifest list",
    }


def _refs_over(state: TableState, item: ManifestList) -> list[str]:
    """Branches and tags from whose head the snapshot is reached by going back."""
    parents = {found.snapshot_id: found.parent_id for found in state.manifest_lists}
    names = []
    for ref in state.refs:
        at: int | None = ref.snapshot_id
        visited: set[int] = set()
        while at is not None and at != item.snapshot_id and at not in visited:
            visited.add(at)
            at = parents.get(at)
        if at is not None and at == item.snapshot_id:
            names.append(ref.name)
    return names


def _whole(batches: Iterable[pa.RecordBatch], schema: pa.Schema, column: str) -> pa.Table:
    """The rows. An answer from half of a table would be a guess, so a damaged file raises."""
    table = pa.Table.from_batches(list(batches), schema=schema)
    noted = pc.starts_with(table[column], NOTE)
    notes = table.filter(noted)[column].to_pylist()
    if notes:
        raise IncompleteManifestError(str(json.loads(notes[0][1:])["message"]))
    return table.filter(pc.invert(noted))


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


def _deletion(found: Any) -> Facts:
    return {
        "run_id": found.run_id,
        "batch": found.batch_no,
        "outcome": str(found.outcome),
        "at": found.at.isoformat() if found.at else None,
        "plan_id": found.plan_id,
        "actor": asdict(found.actor),
    }
