"""Apply a plan: check it, claim it, let its job do what it says and nothing else, end the run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Protocol

from lakewarden.model.actor import Actor
from lakewarden.model.ports import Progress
from lakewarden.model.run import PlanResult, RunResult
from lakewarden.steps.apply.claim import Claim, Terms, check_plan, claimed, terms_at_start
from lakewarden.steps.apply.ending import Work, run_to_its_end
from lakewarden.steps.apply.lease_metrics import counting_leases
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
    terms: Terms,
    progress: Progress,
    runner: Runner,
    stopped: Callable[[RunResult], None] | None = None,
) -> RunResult:
    """Do what a plan says, once, through its job's runner. `stopped` is told what was done if something ends it early."""
    progress("check the plan and the tables", 0, 0)
    check_plan(deployment, result.plan, terms.lifted)
    terms = terms_at_start(deployment, result.plan, terms)
    result = replace(result, plan=result.plan.leaving(terms.left_out))
    # Before the plan is claimed: one whose files were edited is not used up by that.
    begin = runner.prepare(deployment, result, terms.lifted)
    with (
        counting_leases(deployment),
        naming_state_disk(deployment),
        claimed(deployment, result, actor, terms, progress) as claim,
    ):
        with _told_of(deployment, claim, actor) as done:
            ended = run_to_its_end(deployment, claim.run_id, claim.lease, partial(begin, claim), stopped=stopped)
            done.append(ended)
        return ended


@contextmanager
def _told_of(deployment: Deployment, claim: Claim, actor: Actor) -> Iterator[list[RunResult]]:
    """Let whoever wants to hear of runs hear of this one."""
    if deployment.events is None:
        yield []
        return
    with deployment.events.telling(claim.run_id, claim.plan, actor) as done:
        yield done
