"""What compaction did with a file: which group, run and commit wrote it, or put other files in its place. No Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

import pyarrow.compute as pc

from lakewarden.ledger.runs import Run, Step
from lakewarden.model.compaction import COMPACTED, GROUP_LEFT
from lakewarden.model.errors import LakewardenError
from lakewarden.model.policy import Job
from lakewarden.model.run import PlanResult
from lakewarden.pipeline.read.names import canonical_column
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.plan.rows import rows_of

PLANS_LOOKED_AT = 50
# The name of a new file begins with its run and its group.
_MADE = re.compile(r"(?P<run>.+?)-(?P<group>[0-9a-f]{16})-[^/]*")

Facts = dict[str, Any]


def compacted(deployment: Deployment, key: str) -> Iterator[Facts]:
    """Every part that compaction had in a file's life: `written`, `replaced`, `left` with a reason, or `planned` so far."""
    if found := _MADE.fullmatch(key.rpartition("/")[2]):
        run = deployment.ledger.runs.get(found["run"])
        if run is not None and run.job == Job.COMPACTION:
            yield _became(
                deployment, run, found["group"], "written", "written, and not committed so far as is recorded"
            )
    for saved in deployment.ledger.plans.list(Job.COMPACTION, PLANS_LOOKED_AT):
        header = deployment.ledger.plans.header(saved.plan_id)
        if header is None or saved.path is None:
            continue
        try:
            parts = rows_of(deployment.stores, PlanResult(header, saved.path), "group")
            # A plan has the addresses as manifests spell them.
            spelled = ((rows, canonical_column(rows["uri"].combine_chunks())) for rows in parts)
            found_rows = [row for rows, uris in spelled for row in rows.filter(pc.equal(uris, key)).to_pylist()]
        except LakewardenError:
            # A plan whose files are gone or changed says nothing.
            continue
        for row in found_rows:
            run = deployment.ledger.runs.get(saved.used_by) if saved.used_by else None
            if row["group"] is None:
                yield {"did": "left", "why": row["reason"], "table": row["table"], "plan_id": saved.plan_id}
            elif run is None:
                yield {
                    "did": "planned",
                    "why": row["reason"],
                    "table": row["table"],
                    "group": row["group"],
                    "plan_id": saved.plan_id,
                }
            else:
                yield _became(deployment, run, row["group"], "replaced", "to be replaced, and not so far")


def _became(deployment: Deployment, run: Run, group: str, done: str, open_: str) -> Facts:
    """What the run's record says of a group."""
    told: Facts = {"group": group, "run_id": run.run_id, "plan_id": run.plan_id, "actor": asdict(run.actor)}
    for step in deployment.ledger.runs.steps(run.run_id):
        if step.name == COMPACTED and group in step.detail["groups"]:
            return {"did": done, "table": step.detail["table"], **_commit(step), **told}
        if step.name == GROUP_LEFT and step.detail["group"] == group:
            return {"did": "left", "why": step.detail["why"], "table": step.detail["table"], **told}
    return {"did": open_, **told}


def _commit(step: Step) -> Mapping[str, Any]:
    return {"snapshot_id": step.detail["snapshot"], "at": step.at.isoformat()}
