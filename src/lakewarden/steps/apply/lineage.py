"""What every commit of ours says of itself: which job and run made it, on which worker, and who asked for it."""

from __future__ import annotations

import socket
from importlib.metadata import version

from lakewarden.model import lineage as keys
from lakewarden.model.plan import Plan
from lakewarden.steps.deployment import Deployment


def lineage(deployment: Deployment, plan: Plan, run_id: str) -> dict[str, str]:
    """The properties of a commit, under the names that audits look for. Whoever applies a plan answers for it."""
    run = deployment.ledger.runs.get(run_id)
    actor = run.actor if run else plan.actor
    found = {
        "lakewarden.job": plan.job,
        "lakewarden.run": run_id,
        "lakewarden.plan": plan.plan_id,
        keys.WRITER: deployment.worker,
        keys.HOST: socket.gethostname(),
        keys.COMMIT_HASH: f"lakewarden-{version('lakewarden')}",
        keys.INVOCATION: run_id,
        keys.TRIGGER: str(actor.trigger),
        keys.OPERATOR: actor.operator,
        keys.TICKET: actor.ticket or "",
    }
    return {name: value for name, value in found.items() if value}
