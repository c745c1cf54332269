"""What every commit of ours says of itself: which job and run made it, on which worker, and who asked for it.

A commit also says what it was made of; that is known to its format alone, and added there.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version

from lakewarden.model import lineage as keys
from lakewarden.model.plan import Plan
from lakewarden.model.table import TableState
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.plan.own_commits import operation_of


def lineage(deployment: Deployment, plan: Plan, run_id: str) -> dict[str, str]:
    """The properties of a commit, under the names that audits look for. Whoever applies a plan answers for it."""
    run = deployment.ledger.runs.get(run_id)
    actor = run.actor if run else plan.actor
    found = {
        keys.JOB: plan.job,
        keys.RUN: run_id,
        keys.PLAN: plan.plan_id,
        keys.WRITER: deployment.worker,
        keys.HOST: socket.gethostname(),
        keys.COMMIT_HASH: _own_version(),
        keys.INVOCATION: run_id,
        keys.TRIGGER: str(actor.trigger),
        keys.OPERATOR: actor.operator,
        keys.TICKET: actor.ticket or "",
    }
    return {name: value for name, value in found.items() if value}


@cache
def _own_version() -> str:
    """Asked once: the answer is read from a file, and every commit of a fleet says it."""
    return f"lakewarden-{version('lakewarden')}"


def check_lineage(deployment: Deployment, plan: Plan, lineage: Mapping[str, str], state: TableState) -> None:
    """Raise LineageError if a commit of the plan that says this of itself would not be as the table requires it by now."""
    promised = dict.fromkeys((keys.INPUTS, keys.INPUT_ROWS, keys.INPUT_BYTES), keys.SOMETHING)
    said = {**lineage, **promised, keys.OPERATION: operation_of(plan.job, state.format)}
    keys.validate_lineage(said, deployment.requirements_for(state.identifier, state.properties))
