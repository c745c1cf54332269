"""Apply a plan: check it, claim it, let its job do what it says and nothing else, end the run."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from lakewarden.model.actor import Actor
from lakewarden.model.ports import Progress
from lakewarden.model.run import PlanResult, RunResult
from lakewarden.steps.apply.claim import check_plan, claimed, lifted_at_start
from lakewarden.steps.apply.ending import run_to_its_end
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.job import JobSpec


def apply(
    deployment: Deployment,
    result: PlanResult,
    actor: Actor,
    overrides: Sequence[str],
    progress: Progress,
    job: JobSpec,
) -> RunResult:
    """Do what a plan of this job says, once."""
    check_plan(deployment, result.plan, overrides)
    lifted = lifted_at_start(deployment, result.plan, overrides)
    # Before the plan is claimed: one whose files were edited is not used up by that.
    begin = job.runner.prepare(deployment, result, lifted)
    with claimed(deployment, result, actor, lifted, progress) as claim:
        return run_to_its_end(deployment, claim.run_id, claim.lease, partial(begin, claim))
