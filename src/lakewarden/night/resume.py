"""Runs that an earlier night left open: killed, or stopped by something that passes. This night goes on with them first.

Only runs that `run` began are taken up. What a person applied and then stopped is that person's to go on with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lakewarden.ledger.run_status import as_shown
from lakewarden.ledger.statuses import STOPPED
from lakewarden.logs import bind
from lakewarden.model.errors import NotFoundError, PlanError
from lakewarden.model.plan import Plan
from lakewarden.model.run import PlanResult, RunResult
from lakewarden.model.table import TableState
from lakewarden.night.enabled import says
from lakewarden.night.one_job import Asked, Stopped, apply_plan
from lakewarden.steps.apply.claim import Terms, terms_of
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.job import JobSpec
from lakewarden.steps.plan.files import load_plan

States = Mapping[str, TableState]


def resume_open_runs(
    deployment: Deployment, spec: JobSpec, asked: Asked, states: States, stopped: Stopped | None = None
) -> Iterator[RunResult]:
    """Go on with every run of a job that an earlier night left open, and that its policies still allow."""
    for planned, terms in _left_open(deployment, spec):
        if not _still_allowed(deployment, spec, planned.plan.leaving(terms.left_out), asked, states):
            bind(job=str(spec.name)).warning(
                "an open run is left as it is: its policy is another now", plan=planned.path
            )
            continue
        try:
            yield apply_plan(deployment, spec, planned, asked, Terms(), stopped)
        except PlanError as error:
            # The run is over by that: its plan has expired, or the lake has changed since. A new plan follows.
            bind(job=str(spec.name)).warning("an open run was ended", code=error.code, message=error.message)


def _left_open(deployment: Deployment, spec: JobSpec) -> Iterator[tuple[PlanResult, Terms]]:
    """The plans of those runs, oldest first, each with the terms on which it was begun."""
    now = deployment.clock.now()
    for run in deployment.ledger.runs.unfinished(spec.name):
        terms = terms_of(deployment, run.run_id)
        path = deployment.ledger.plans.path(run.plan_id) if run.plan_id else None
        if terms is None or not terms.unattended or path is None:
            continue
        if as_shown(run, deployment.leases, now).status != STOPPED:
            continue  # another worker is at it
        try:
            yield load_plan(deployment.stores, path), terms
        except (NotFoundError, PlanError) as error:
            bind(job=str(spec.name)).warning("the plan of an open run cannot be used", path=path, code=error.code)


def _still_allowed(deployment: Deployment, spec: JobSpec, plan: Plan, asked: Asked, states: States) -> bool:
    """Whether every table that the run would change may still be changed tonight: selected, enabled, no `dry_run`."""
    names = [table.identifier for table in plan.tables if table.refusal is None and any(table.changes.values())]
    found = [states.get(name) for name in names]
    return all(
        state is not None
        and not says(deployment, spec, state, "dry_run")
        and (not asked.enabled_only or says(deployment, spec, state, "enabled"))
        for state in found
    )
