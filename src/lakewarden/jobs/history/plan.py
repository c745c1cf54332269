"""History: which snapshots are not in the archive yet, which months can be summed up, and which logs are too long."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from lakewarden.jobs.history.load_time import load_ms_of
from lakewarden.jobs.history.months import due_months
from lakewarden.ledger.history import HistoryFile, Key
from lakewarden.logs import bind
from lakewarden.model.errors import LakewardenError, Refusal, UnsupportedTableError
from lakewarden.model.history import HistoryPolicy, MetadataSize
from lakewarden.model.plan import TablePlan
from lakewarden.model.policy import Job
from lakewarden.model.ports import Progress
from lakewarden.model.run import PlanResult
from lakewarden.model.table import TableState
from lakewarden.pipeline.history.rows import month_of
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.history.files import damaged_files
from lakewarden.steps.observe.fleet import LOAD_THREADS, load_fleet
from lakewarden.steps.plan.document import Request, chosen_of, draw_up, policies_of, table_plan


@dataclass(frozen=True, slots=True)
class Survey:
    """One table: how many of its snapshots are not archived, by month, and how large its metadata is."""

    snapshots: int = 0
    waiting: Mapping[str, int] = field(default_factory=dict)
    size: MetadataSize = field(default_factory=lambda: MetadataSize(0, 0))
    load_ms: float = 0.0
    refusal: Refusal | None = None


def plan(deployment: Deployment, request: Request, progress: Progress) -> PlanResult:
    """Compare each table's snapshots with the archive, and write down what it lacks. Changes nothing. No Spark."""
    log = bind(job=str(Job.HISTORY))
    now = deployment.clock.now()

    progress("load tables", 0, 0)
    policies, fleet = policies_of(deployment, load_fleet(deployment, now), request, Job.HISTORY, HistoryPolicy.of)
    chosen = chosen_of(fleet, request, policies)

    progress("check the archive", 0, 0)
    files = deployment.ledger.history.files()
    lost = {file.file_id: why for file, why in damaged_files(deployment, files)}

    progress("compare", 0, 0)
    states = [state for state in fleet.states if state.identifier in chosen and state.identifier not in fleet.unlisted]
    surveys = dict(_surveys(deployment, states, lost))

    progress("write the plan", 0, 0)
    tables = tuple(_tables(deployment, states, policies, surveys, now))
    result = draw_up(deployment, request, fleet, Job.HISTORY, now, tables=tables, detail=_archive_detail(files, lost))
    log.info("plan written", plan=result.plan.plan_id, rows=result.plan.totals()["changes"].get("rows", 0))
    return result


def _surveys(
    deployment: Deployment, states: Sequence[TableState], lost: Mapping[int, str]
) -> Iterator[tuple[str, Survey]]:
    """Each table's, tables side by side. One that can be read is archived, whatever else it is refused for."""
    with ThreadPoolExecutor(LOAD_THREADS) as pool:
        found = pool.map(lambda state: _survey(deployment, state, lost), states)
        yield from zip((state.identifier for state in states), found, strict=True)


def _survey(deployment: Deployment, state: TableState, lost: Mapping[int, str]) -> Survey:
    historian = deployment.format_of(state.identifier).historian
    if historian is None:
        why = f"snapshots of {state.format} tables cannot be archived by this version; nothing of it is archived"
        return Survey(refusal=UnsupportedTableError(why).refusal())
    if state.refusal is not None and not state.is_visible:
        return Survey(refusal=state.refusal)
    try:
        load_ms = load_ms_of(deployment, state.identifier)
        rows = historian.rows(state)
        ids = [row.snapshot_id for row in rows]
        places = deployment.ledger.history.of_table(state.uuid, ids)
        known = {place.key for place in places if place.file.file_id not in lost}
        waiting = Counter(
            month_of(row.committed_ms) for row in rows if Key(state.uuid, row.snapshot_id, row.digest) not in known
        )
        return Survey(len(rows), waiting, historian.size(state), load_ms)
    except LakewardenError as error:
        return Survey(refusal=error.refusal())


def _tables(
    deployment: Deployment,
    states: Sequence[TableState],
    policies: Mapping[str, HistoryPolicy],
    surveys: Mapping[str, Survey],
    now: datetime,
) -> Iterator[TablePlan]:
    coming = Counter[tuple[str, str]]()
    for state in states:
        for month, count in surveys[state.identifier].waiting.items():
            coming[month, state.uuid] += count
    due = due_months(deployment.ledger, coming, now)
    for state in states:
        survey, policy = surveys[state.identifier], policies[state.identifier]
        months = sorted(month for month, uuids in due.items() if state.uuid in uuids)
        too_long = policy.previous_versions_max is not None and survey.size.logged > policy.previous_versions_max
        refusal = survey.refusal
        yield table_plan(
            state,
            policy.as_values(),
            refusal,
            changes={} if refusal else _changes(survey, months, too_long),
            detail={} if refusal else _detail(survey, months),
        )


def _changes(survey: Survey, months: Sequence[str], too_long: bool) -> dict[str, int]:
    counts = {"rows": sum(survey.waiting.values()), "months": len(months), "logs": int(too_long)}
    return {kind: count for kind, count in counts.items() if count or kind == "rows"}


def _detail(survey: Survey, months: Sequence[str]) -> dict[str, Any]:
    waiting = sum(survey.waiting.values())
    return {
        "snapshots": survey.snapshots,
        "archived": survey.snapshots - waiting,
        "months": list(months),
        "metadata": {
            "bytes": survey.size.bytes,
            "logged": survey.size.logged,
            "load_ms": survey.load_ms,
        },
    }


def _archive_detail(files: Sequence[HistoryFile], lost: Mapping[int, str]) -> dict[str, Any]:
    """Files of the archive that are to be noted as lost: what tables still have of them is archived anew. And files that
    were noted as lost and are whole again: a mount that was away, or a copy from a backup."""
    gone = {file.uri: lost[file.file_id] for file in files if file.file_id in lost and file.lost is None}
    found = [file.uri for file in files if file.file_id not in lost and file.lost is not None]
    return ({"lost": gone} if gone else {}) | ({"found": found} if found else {})
