"""Apply a plan: check it, claim it, let its job do what it says and nothing else, end the run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from lakewarden.model.actor import Actor
from lakewarden.model.ports import Progress
from lakewarden.model.run import PlanResult, RunResult
from lakewarden.steps.apply.claim import Claim, check_plan, claimed, lifted_at_start
from lakewarden.steps.apply.ending import Work, run_to_its_end
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.observe.state_disk import naming_state_disk


class Runner(Protocol):
    """Who applies the plans of a job."""

    def prepare(self, deployment: Deployment, result: PlanResult, lifted: Sequence[str]) -> Callable[[Claim], Work]:
        """Read what is needed of the plan before it is claimed, and say how its run is begun then."""
        ...


def apply(
    deployment: Deployment,
    result: PlanResult,
    actor: Actor,
    overrides: Sequence[str],
    progress: Progress,
    runner: Runner,
) -> RunResult:
    """Do what a plan says, once, through its job's runner."""
    check_plan(deployment, result.plan, overrides)
    lifted = lifted_at_start(deployment, result.plan, overrides)
    # Before the plan is claimed: one whose files were edited is not used up by that.
    begin = runner.prepare(deployment, result, lifted)
    with naming_state_disk(deployment), claimed(deployment, result, actor, lifted, progress) as claim:
        return run_to_its_end(deployment, claim.run_id, claim.lease, partial(begin, claim))
