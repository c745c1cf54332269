"""A run that changes tables and deletes no listed file: which tables are to do, and what is said of those that failed.

What is wrong with a table is final for the run, on record, and does not stop the others. What passes (a lease that
somebody holds, a catalog that does not answer) leaves its table to do: the others are changed first, then the run stops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, Self

from lakewarden.ledger.lease import Lease
from lakewarden.logs import bind
from lakewarden.model.errors import LakewardenError, PlanExpiredError, SparkFailedError, StateError, without_claim
from lakewarden.model.plan import TablePlan
from lakewarden.model.run import FailedFile, PlanResult, RunResult, RunStatus
from lakewarden.model.table import TableState
from lakewarden.steps.apply.claim import Claim
from lakewarden.steps.apply.doubt import DoubtWatch
from lakewarden.steps.apply.ending import PASSING
from lakewarden.steps.apply.guard import check_frozen, root_lease, told_of_wait
from lakewarden.steps.apply.lineage import check_lineage, lineage
from lakewarden.steps.deployment import Deployment

TABLE_FAILED = "table failed"


class TableRun:
    """One run of a plan that changes tables. A job says which of them are to do, how one is changed, and what counts."""

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        self.deployment = claim.deployment
        self.plan = claim.plan
        self.run_id = claim.run_id
        self.lease = claim.lease
        self.log = bind(run_id=claim.run_id, job=claim.plan.job)
        self._failed = {step["table"]: _failure(step) for step in self.steps(TABLE_FAILED)}
        self._passing: dict[str, LakewardenError] = {}
        self._doubt = DoubtWatch(claim.deployment, claim.plan)

    @classmethod
    def prepare(cls, _: Deployment, __: PlanResult, ___: Sequence[str]) -> Callable[[Claim], Self]:
        return cls

    def settle(self) -> None:
        """Settle what a crashed process began and did not record. Also done when the plan has expired."""

    def release(self, tables: Sequence[TablePlan]) -> None:
        """Enter in the ledger whatever must be known there before the first of these tables is changed."""

    def is_done(self, table: TablePlan) -> bool:
        """Whether the record says that the plan's changes to a table are made."""
        raise NotImplementedError

    def change(self, tables: Sequence[TablePlan]) -> None:
        """Change these tables."""
        raise NotImplementedError

    def changed(self) -> Mapping[str, int]:
        """What was changed so far, by kind, also before a crash."""
        raise NotImplementedError

    def kept(self) -> Mapping[str, int]:
        return {}

    def failures(self) -> list[FailedFile]:
        """What was left as it is, also before a crash."""
        return list(self._failed.values())

    def do(self) -> None:
        """Every table that is to do, then whatever passes and kept one of them from it."""
        self.settle()
        tables = [table for table in self.to_do() if self.left_to_do(table.identifier)]
        self.log.info("apply starts", plan=self.plan.plan_id, tables=len(tables))
        if tables and self.deployment.clock.now() >= self.plan.expires_at:
            when = f"{self.plan.expires_at:%Y-%m-%d %H:%M} UTC"
            late = f"plan {self.plan.plan_id} expired at {when}"
            for table in tables:
                self.failed(table.identifier, PlanExpiredError(f"{late}; its run did nothing more to this table"))
            raise PlanExpiredError(f"{late}, before its run was finished; nothing more was changed")
        if tables:
            self.release(tables)
            self.claim.announce()
        self.change(tables)
        if self._passing:
            raise next(iter(self._passing.values()))

    @cached_property
    def planned(self) -> Sequence[TablePlan]:
        """The tables that the plan changes, also those that only lifted brakes kept from it."""
        allowed = self.plan.allowed(self.claim.lifted)
        return [table for table in self.plan.tables if table.identifier in allowed and any(table.changes.values())]

    def to_do(self) -> list[TablePlan]:
        """Those of them that are neither done nor failed."""
        return [t for t in self.planned if not self.is_done(t) and t.identifier not in self._failed]

    def check_may_go_on(self) -> None:
        """Raise if somebody froze the deployment or has the run by now. Before each table, or more often."""
        check_frozen(self.deployment, "no further table was changed")
        self.lease.check()

    @cached_property
    def lineage(self) -> Mapping[str, str]:
        """What every commit of this run says of itself."""
        return lineage(self.deployment, self.plan, self.run_id)

    def check_lineage(self, state: TableState) -> None:
        """Raise LineageError if a commit of this run would not be as the table requires it by now. Before any work on it."""
        check_lineage(self.deployment, self.plan, self.lineage, state)

    def root_lease(self, prefix: str, *, wait: float = 0.0) -> Lease:
        """The lease of a root that a table touches; whoever watches this run is told of a wait."""
        return root_lease(self.deployment, prefix, wait=wait, watched=told_of_wait(self.claim.progress))

    def check_doubt(self, table: str) -> None:
        """Raise DoubtError if a table that cannot be seen now may need what this table's roots hold."""
        self._doubt.check(table, self.roots_of(table))

    def attempt(self, table: TablePlan, work: Callable[[TablePlan], None]) -> None:
        """Change one table, or note why not."""
        try:
            self.check_may_go_on()
            self.check_doubt(table.identifier)
            work(table)
        except LakewardenError as error:
            self.failed(table.identifier, error)

    def failed(self, table: str, error: LakewardenError) -> bool:
        """Whether that is the end of a table in this run, and if so record it. What passes leaves the table to do.

        What is wrong with the state is raised: no table could be recorded, and each would wait for it anew.
        """
        self.log.error("table not changed", table=table, code=error.code, message=error.message)
        if isinstance(error, StateError):
            raise error
        # Where Spark fails on one table and works on the others, another try would fail too.
        if isinstance(error, PASSING) and not isinstance(error, SparkFailedError):
            self._passing.setdefault(table, error)
            return False
        # Other tables of the run may be changed, and parts of this one.
        told = without_claim(error.message, "nothing more of this table was changed")
        detail = {"table": table, "code": error.code, "message": told}
        self._failed[table] = _failure(detail)
        self.deployment.ledger.runs.step(self.run_id, TABLE_FAILED, detail)
        return True

    def left_to_do(self, table: str) -> bool:
        """Whether nothing kept a table from being changed until now."""
        return table not in self._failed and table not in self._passing

    def result(self, error: LakewardenError | None = None) -> RunResult:
        """What the run's steps say of it."""
        changed, failed = self.changed(), self.failures()
        partly = RunStatus.PARTIAL if any(changed.values()) else RunStatus.FAILED
        return RunResult(
            run_id=self.run_id,
            plan_id=self.plan.plan_id,
            job=self.plan.job,
            status=partly if error or failed or self.to_do() else RunStatus.DONE,
            changed=dict(changed),
            kept=dict(self.kept()),
            failed=tuple(failed),
        )

    def now(self) -> datetime:
        """The time, but never before the plan was made: a clock that was set back must not shorten what waits from now."""
        return max(self.deployment.clock.now(), self.plan.created_at)

    def steps(self, name: str) -> list[Mapping[str, Any]]:
        """What this run has recorded under a name, before a crash perhaps."""
        return [step.detail for step in self.deployment.ledger.runs.steps(self.run_id) if step.name == name]

    def roots_of(self, name: str) -> Sequence[str]:
        """The roots of the plan that a table touches, in order."""
        return self._roots.get(name, ())

    @cached_property
    def _roots(self) -> Mapping[str, Sequence[str]]:
        found: dict[str, list[str]] = {}
        for root in sorted(self.plan.roots, key=lambda root: root.prefix):
            for name in root.tables:
                found.setdefault(name, []).append(root.prefix)
        return found


def _failure(detail: Mapping[str, Any]) -> FailedFile:
    return FailedFile(detail["table"], detail["code"], detail["message"])
