"""One job: planned, applied, or both as the policies say."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from lakewarden.model.actor import Actor
from lakewarden.model.errors import UnsafeGraceError
from lakewarden.model.plan import Plan, TablePlan
from lakewarden.model.ports import Progress
from lakewarden.model.run import PlanResult, RefusedTable, RunResult, RunStatus
from lakewarden.model.stop import StopToken
from lakewarden.settings import Settings
from lakewarden.steps.apply.apply import apply
from lakewarden.steps.apply.claim import Terms
from lakewarden.steps.apply.ending import close_run
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.job import JobSpec
from lakewarden.steps.observe.state_age import check_not_restored
from lakewarden.steps.observe.state_disk import check_state_disk, naming_state_disk
from lakewarden.steps.plan.document import Request
from lakewarden.steps.plan.files import plan_directory
from lakewarden.steps.plan.uncollected import uncollected
from lakewarden.steps.summary import moves_to_trash

Stopped = Callable[[RunResult], None]


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of a job, whichever it is: by whom, of which tables, and who is told how far it is."""

    actor: Actor
    progress: Progress
    select: Sequence[str] = ()
    exclude: Sequence[str] = ()
    unsafe_short_grace: Sequence[str] = ()
    enabled_only: bool = False
    wait: float | None = None
    night: str | None = None
    stop: StopToken = field(default_factory=StopToken)
    within: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class JobRun:
    """A plan, and what came of it."""

    planned: PlanResult
    result: RunResult


def plan_job(
    deployment: Deployment, settings: Settings, spec: JobSpec, asked: Asked, out: str | None = None
) -> PlanResult:
    """Decide, and write it down. Changes nothing."""
    _check_floors(settings, spec, asked.unsafe_short_grace)
    deployment = deployment.telling(asked.progress)
    check_state_disk(deployment, "nothing was planned")
    check_not_restored(deployment)
    stamp = f"{deployment.clock.now():%Y%m%dT%H%M%SZ}-{spec.name}-{deployment.new_id()}"
    request = Request(
        actor=asked.actor,
        directory=plan_directory(out) if out else f"{deployment.state}plans/{stamp}/",
        select=tuple(asked.select),
        exclude=tuple(asked.exclude),
        unsafe_short_grace=tuple(asked.unsafe_short_grace),
        enabled_only=asked.enabled_only,
        within=tuple(asked.within),
    )
    with deployment.stopped_by(asked.stop) as stoppable, naming_state_disk(deployment), uncollected():
        return spec.plan(stoppable.planning_in(request.directory), request, asked.progress)


def _check_floors(settings: Settings, spec: JobSpec, unsafe_short_grace: Sequence[str]) -> None:
    """Raise for a margin of the whole fleet that is too short; for one table, only that table is refused."""
    section = settings.job(spec.name)
    for key, floor in section.below_floor().items() if not unsafe_short_grace else ():
        raise UnsafeGraceError(
            f"{spec.section}.{key} = {getattr(section, key)} is below the floor of "
            f"{int(floor.least.total_seconds() // 3600)}: {floor.hazard}; nothing was planned",
            hint=f"Raise {key}, or name each table to `lakewarden plan` with --unsafe-short-grace TABLE_UUID.",
        )


def apply_plan(
    deployment: Deployment,
    spec: JobSpec,
    planned: PlanResult,
    asked: Asked,
    terms: Terms,
    stopped: Stopped | None = None,
) -> RunResult:
    """Do what a plan says, once, and only ever less than it says."""
    deployment = deployment.waiting(asked.wait).telling(asked.progress)
    return apply(deployment, planned, asked.actor, terms, asked.progress, spec.runner, stopped)


def run_job(
    deployment: Deployment,
    spec: JobSpec,
    planned: PlanResult,
    asked: Asked,
    stopped: Stopped | None = None,
) -> JobRun:
    """Apply a plan as far as the policies say: tables with `dry_run` are in the plan, and are left as they are."""
    only_planned = looked_at(planned.plan)
    names = tuple(table.identifier for table in only_planned)
    would = replace(planned.plan, tables=only_planned).totals()["changes"]
    waits, trash = (would, moves_to_trash(planned.plan)) if any(would.values()) else ({}, False)
    if any(planned.plan.leaving(names).totals()["changes"].values()):
        terms = Terms(left_out=names, unattended=True, night=asked.night)
        result = apply_plan(deployment, spec, planned, asked, terms, stopped)
        refused = refused_tables(planned, used=True)
        result = replace(
            result, planned=waits, to_trash=trash, looked_at=names, refused=refused, plan_path=planned.path
        )
        return JobRun(planned, result)
    plan, refused = planned.plan, refused_tables(planned)
    nothing = bool(refused) and len(refused) == len(plan.tables)
    status = RunStatus.REFUSED if nothing else RunStatus.PLANNED if waits else RunStatus.DONE
    outcome = RunResult(
        run_id=deployment.new_id(),
        plan_id=plan.plan_id,
        job=plan.job,
        status=status,
        kept={n: t["files"] for n, t in plan.totals()["verdicts"].items() if n != plan.changing},
        planned=waits,
        to_trash=trash,
        looked_at=names,
        refused=refused,
        plan_path=planned.path,
    )
    return JobRun(planned, _ended_with_its_plan(deployment, outcome, asked))


def looked_at(plan: Plan) -> tuple[TablePlan, ...]:
    """The tables that may only be looked at.

    They are those with `dry_run`, and those that share a directory with one: whose a file there is can often not be told,
    so the stricter of two policies counts.
    """
    dry = {table.identifier for table in plan.tables if table.policy.get("dry_run")}
    near = {name for root in plan.roots if not dry.isdisjoint(root.tables) for name in root.tables}
    return tuple(table for table in plan.tables if table.identifier in dry | near)


def refused_tables(planned: PlanResult, *, used: bool = False) -> tuple[RefusedTable, ...]:
    """The tables that a plan left alone. A brake is lifted for a plan that no run has used: for this one, or for the next."""
    found = {table.identifier: table.refusal for table in planned.plan.tables if table.refusal}
    return tuple(
        RefusedTable(name, refusal.code, refusal.message, _next_step(planned, name, refusal.hint, used))
        for name, refusal in found.items()
    )


def _next_step(planned: PlanResult, table: str, hint: str, used: bool) -> str:
    if not used:
        return hint.replace("PLAN_DIR", shlex.quote(planned.path))
    again = f"lakewarden plan {planned.plan.job} --select {shlex.quote(table)}"
    return hint.replace("lakewarden apply PLAN_DIR", f"{again}, then lakewarden apply PLAN_DIR")


def _ended_with_its_plan(deployment: Deployment, outcome: RunResult, asked: Asked) -> RunResult:
    """A run that ended with its plan, recorded like any other."""
    deployment.ledger.runs.start(outcome.run_id, outcome.job, None, asked.actor)
    detail = {"plan": outcome.plan_id, "path": outcome.plan_path, **({"night": asked.night} if asked.night else {})}
    deployment.ledger.runs.step(outcome.run_id, "planned", detail)
    return close_run(deployment, outcome)
