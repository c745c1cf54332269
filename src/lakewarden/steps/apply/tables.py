"""What runs of the jobs have in common that change tables and delete no listed file: who they are, and how they end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from lakewarden.ledger.heads import write_head
from lakewarden.ledger.lease import Lease
from lakewarden.logs import bind
from lakewarden.model.errors import LakewardenError, PlanExpiredError
from lakewarden.model.plan import Plan, TablePlan
from lakewarden.model.ports import Progress
from lakewarden.model.run import FailedFile, PlanResult, RunResult, RunStatus
from lakewarden.steps.deployment import Deployment


class TableRun:
    """One run of one plan. A table that cannot be changed does not stop the others."""

    def __init__(
        self, deployment: Deployment, result: PlanResult, run_id: str, lease: Lease, progress: Progress
    ) -> None:
        self.deployment = deployment
        self.result = result
        self.plan: Plan = result.plan
        self.run_id = run_id
        self.lease = lease
        self.progress = progress
        self.log = bind(run_id=run_id, job=self.plan.job)
        self._late: list[FailedFile] = []

    def now(self) -> datetime:
        """The time, but never before the plan was made: a clock that was set back must not shorten what waits from now."""
        return max(self.deployment.clock.now(), self.plan.created_at)

    def steps(self, name: str) -> list[Mapping[str, Any]]:
        """What this run has recorded under a name, before a crash perhaps."""
        return [step.detail for step in self.deployment.ledger.runs.steps(self.run_id) if step.name == name]

    def tables(self, kind: str | None = None) -> list[TablePlan]:
        """The tables that the plan changes, or of which it changes one kind of thing."""
        planned = [table for table in self.plan.tables if table.refusal is None]
        return [table for table in planned if (table.changes.get(kind) if kind else any(table.changes.values()))]

    def starts(self, tables: Sequence[TablePlan]) -> list[TablePlan]:
        """Those of the tables still to do that may be changed: none if the plan expired while its run lay open."""
        self.log.info("apply starts", plan=self.plan.plan_id, tables=len(tables))
        if self.deployment.clock.now() < self.plan.expires_at:
            return list(tables)
        when = f"{self.plan.expires_at:%Y-%m-%d %H:%M} UTC"
        late = PlanExpiredError(f"plan {self.plan.plan_id} expired at {when}; its run left this table as it was found")
        self._late = [self.failure(table.identifier, late) for table in tables]
        return []

    def roots_of(self, name: str) -> list[str]:
        return sorted(root.prefix for root in self.plan.roots if name in root.tables)

    def failure(self, table: str, error: LakewardenError) -> FailedFile:
        """A table that was left as it is, told and recorded."""
        self.log.error("table not changed", table=table, code=error.code, message=error.message)
        return FailedFile(table, error.code, error.message)

    def closed(
        self, changed: Mapping[str, int], failed: Sequence[FailedFile], kept: Mapping[str, int] | None = None
    ) -> RunResult:
        """Close the run with what it did, after the journal's head is kept outside the database."""
        failed = [*self._late, *failed]
        partly = RunStatus.PARTIAL if any(changed.values()) else RunStatus.FAILED
        result = RunResult(
            run_id=self.run_id,
            plan_id=self.plan.plan_id,
            job=self.plan.job,
            status=partly if failed else RunStatus.DONE,
            changed=dict(changed),
            kept=dict(kept or {}),
            failed=tuple(failed),
        )
        write_head(
            self.deployment.stores, self.deployment.state, self.run_id, self.deployment.ledger.journal.head(self.run_id)
        )
        self.deployment.ledger.runs.finish(self.run_id, result.status, result.as_json())
        self.log.info("apply ends", status=str(result.status), **result.changed)
        return result
