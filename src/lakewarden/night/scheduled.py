"""One job as the service runs it: resumed, planned, and applied unless somebody has to agree first.

What the command line does in one night, the service does in as many requests; order is safety here too (dependence.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from glob import escape

from lakewarden.jobs.registry import JOBS
from lakewarden.model.errors import NotFoundError
from lakewarden.model.night import JobOutcome
from lakewarden.model.policy import Job
from lakewarden.model.run import PlanResult, RunResult
from lakewarden.night.dependence import held_back
from lakewarden.night.enabled import selected_states
from lakewarden.night.go_on import go_on
from lakewarden.night.one_job import Asked, plan_job, run_job
from lakewarden.night.resume import resume_open_runs
from lakewarden.settings import Settings
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.job import JobSpec

MayApply = Callable[[PlanResult], bool]


@dataclass(frozen=True, slots=True)
class ScheduledRun:
    """What came of it: a result; or a plan that waits, or the reason why there is not even that."""

    planned: PlanResult | None = None
    result: RunResult | None = None
    held_back: str | None = None
    resumed: tuple[RunResult, ...] = ()


def run_enabled(
    deployment: Deployment,
    settings: Settings,
    spec: JobSpec,
    asked: Asked,
    before: Sequence[JobOutcome],
    may_apply: MayApply,
) -> ScheduledRun:
    """Run a job for the tables whose policies enable it. `before` are the last outcomes of the jobs that it depends on.

    `may_apply` hears of the plan, and says whether it is applied now.
    """
    deployment, asked = deployment.telling(asked.progress), replace(asked, enabled_only=True)
    held = held_back(spec, before, lambda job, table: JOBS[Job(job)].serves(deployment.format_of(table)))
    if held.why is not None:
        return ScheduledRun(held_back=held.why)
    asked = replace(asked, exclude=(*asked.exclude, *map(escape, sorted(held.tables))))
    try:
        states = {state.identifier: state for state in selected_states(deployment, asked)}
    except NotFoundError:
        return ScheduledRun(held_back=f"every table waits for an earlier job, such as {min(held.tables, default='-')}")
    resumed = tuple(resume_open_runs(deployment, spec, asked, states))
    planned = plan_job(deployment, settings, spec, asked)
    return replace(go_through(deployment, settings, spec, asked, planned, may_apply), resumed=resumed)


def go_through(
    deployment: Deployment, settings: Settings, spec: JobSpec, asked: Asked, planned: PlanResult, may_apply: MayApply
) -> ScheduledRun:
    """Apply a plan as the policies say, and go on as long as the job repeats; or leave it for somebody to agree to."""
    if not may_apply(planned):
        return ScheduledRun(planned)
    first = run_job(deployment, spec, planned, asked)
    again = go_on(deployment, settings, spec, asked, first, may_apply=may_apply)
    return ScheduledRun(again.planned, again.result)
