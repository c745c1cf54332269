"""A job that is planned again in the same command as long as a run changes something and its budget is not used up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from lakewarden.model.errors import LakewardenError
from lakewarden.model.run import PlanResult, RunResult, RunStatus
from lakewarden.night.one_job import Asked, JobRun, Stopped, plan_job, run_job
from lakewarden.settings import Settings
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.job import JobSpec

# A table that is written to without a pause would be planned for ever.
MOST_ROUNDS = 100


def go_on(
    deployment: Deployment,
    settings: Settings,
    spec: JobSpec,
    asked: Asked,
    first: JobRun,
    stopped: Stopped | None = None,
    may_apply: Callable[[PlanResult], bool] = lambda _: True,
) -> JobRun:
    """What the job has done when nothing is left to do, after the first run of this command. One run a plan.

    Groups that somebody else worked on, or that a writer was quicker than, are planned anew that way. A run that changed
    nothing is the last: whoever is in the way now would be in the way again.
    """
    results, planned = [first.result], first.planned
    while spec.repeats and any(results[-1].changed.values()) and len(results) < MOST_ROUNDS:
        try:
            found = plan_job(deployment, settings, spec, asked)
            if not spec.may_go_on(deployment, [result.run_id for result in results], found.plan):
                break
            if not may_apply(found):
                break  # somebody has to agree to this one: it is found again, and waits, the next time
            again = run_job(deployment, spec, found, asked, stopped)
        except LakewardenError as error:
            error.after(
                f"Before that, run {results[-1].run_id} of this command ended with its work {results[-1].status}."
            )
            raise
        planned = again.planned
        results.append(again.result)
    return JobRun(planned, _together(results))


def _together(results: Sequence[RunResult]) -> RunResult:
    """The last result, with what all of them have changed."""
    if len(results) == 1:
        return results[0]
    changed: Counter[str] = Counter()
    for result in results:
        changed.update(result.changed)
    good = all(result.status in (RunStatus.DONE, RunStatus.PLANNED) for result in results)
    failed = tuple(dict.fromkeys(file for result in results for file in result.failed))
    return replace(
        results[-1],
        status=RunStatus.DONE if good else RunStatus.PARTIAL,
        changed=dict(changed),
        failed=failed,
        unnamed=sum(result.unnamed for result in results),
        runs=tuple(result.run_id for result in results),
    )
