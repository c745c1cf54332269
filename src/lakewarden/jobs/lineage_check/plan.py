"""Lineage check: which snapshots of the fleet break the rules of their table, and who made them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

from lakewarden.logs import bind
from lakewarden.model.errors import LakewardenError, Refusal, UnsupportedTableError
from lakewarden.model.lineage import OPERATIONS, OPERATIONS_OF
from lakewarden.model.lineage_check import Checked, LineageCheckPolicy, check
from lakewarden.model.plan import TablePlan
from lakewarden.model.policy import Job
from lakewarden.model.ports import Progress
from lakewarden.model.run import PlanResult, RunStatus
from lakewarden.model.table import TableState
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.observe.fleet import LOAD_THREADS, load_fleet
from lakewarden.steps.plan.document import Request, chosen_of, draw_up, policies_of, table_plan

# How many of the newest runs are looked at for the last check of each table. A check of all tables is mostly the first
# of them; what none of them looked at counts as never checked.
RUNS_LOOKED_AT = 10


def plan(deployment: Deployment, request: Request, progress: Progress) -> PlanResult:
    """Compare the live snapshots of each table with its rules, by their metadata alone. Changes nothing. No Spark."""
    log = bind(job=str(Job.LINEAGE_CHECK))
    now = deployment.clock.now()

    progress("load tables", 0, 0)
    policies, fleet = policies_of(
        deployment, load_fleet(deployment, now), request, Job.LINEAGE_CHECK, LineageCheckPolicy.of
    )
    chosen = chosen_of(fleet, request, policies)
    states = [state for state in fleet.states if state.identifier in chosen and state.identifier not in fleet.unlisted]

    progress("check snapshots", 0, 0)
    found = dict(_checked(deployment, states, policies, now, last_checks(deployment, states)))

    progress("write the plan", 0, 0)
    tables = tuple(_table(state, policies[state.identifier], found[state.identifier]) for state in states)
    result = draw_up(deployment, request, fleet, Job.LINEAGE_CHECK, now, tables=tables)
    log.info("plan written", plan=result.plan.plan_id, violations=result.plan.totals()["changes"].get("violations", 0))
    return result


def last_checks(deployment: Deployment, states: Sequence[TableState]) -> dict[str, datetime]:
    """When each table, by its uuid, was last looked at by a check that is on record: a check may have been of a few only."""
    wanted = {state.uuid for state in states if state.refusal is None or state.is_visible}
    found: dict[str, datetime] = {}
    for run in deployment.ledger.runs.list(RUNS_LOOKED_AT, job=Job.LINEAGE_CHECK):
        if found.keys() >= wanted:
            break
        header = deployment.ledger.plans.header(run.plan_id) if run.plan_id and run.status == RunStatus.DONE else None
        for table in header.tables if header is not None else ():
            if table.refusal is None and header is not None:
                found.setdefault(table.uuid, header.created_at)
    return found


def _checked(
    deployment: Deployment,
    states: Sequence[TableState],
    policies: Mapping[str, LineageCheckPolicy],
    now: datetime,
    last: Mapping[str, datetime],
) -> Iterator[tuple[str, Checked | Refusal]]:
    """Each table's snapshots, tables side by side."""

    def one(state: TableState) -> Checked | Refusal:
        historian = deployment.format_of(state.identifier).historian
        if historian is None:
            why = f"snapshots of {state.format} tables cannot be checked by this version; nothing of it was checked"
            return UnsupportedTableError(why).refusal()
        if state.refusal is not None and not state.is_visible:
            return state.refusal
        rules = deployment.requirements_for(state.identifier, state.properties)
        hours = policies[state.identifier].since_hours
        since = now - timedelta(hours=hours) if hours else None
        try:
            rows = historian.rows(state) if rules.anything else ()
            return check(rows, rules, since, last.get(state.uuid), OPERATIONS_OF.get(state.format, OPERATIONS))
        except LakewardenError as error:
            return error.refusal()

    with ThreadPoolExecutor(LOAD_THREADS) as pool:
        yield from zip((state.identifier for state in states), pool.map(one, states), strict=True)


def _table(state: TableState, policy: LineageCheckPolicy, found: Checked | Refusal) -> TablePlan:
    if isinstance(found, Refusal):
        return table_plan(state, policy.as_values(), found)
    changes = {"violations": found.violations}
    return table_plan(state, policy.as_values(), changes=changes, detail=found.as_json())
