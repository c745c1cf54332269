"""Apply a plan that expires snapshots: ledger first, then the table's metadata, then the record. No data file is touched.

Files that the plan releases are entered as pending before anything else: if the run dies after that, they are at worst
pending and still needed, and physical deletion looks again before it takes one.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict
from datetime import datetime, timedelta
from functools import partial

import pyarrow.compute as pc

from lakewarden.jobs.snapshot_expiry.table_steps import TableHands
from lakewarden.ledger.lease import Lease
from lakewarden.model.errors import (
    DoubtfulCommitError,
    LakewardenError,
    LostRefError,
    PlanOutdatedError,
    TableMovedError,
)
from lakewarden.model.plan import TablePlan
from lakewarden.model.ports import FileOutcome, Progress
from lakewarden.model.run import FailedFile, PlanResult, RunResult
from lakewarden.model.table import Pointer
from lakewarden.model.verdict import Outcome, Verdict
from lakewarden.steps.apply.guard import all_held, check_frozen, root_lease
from lakewarden.steps.apply.tables import TableRun
from lakewarden.steps.deployment import Deployment, required
from lakewarden.steps.observe.fleet import pointers_of
from lakewarden.steps.observe.writers import in_use_since
from lakewarden.steps.plan.files import of_tables, rows_of

TABLES_AT_ONCE = 8
LEASE_WAIT = 60.0  # tables that share a directory take turns
HELD = timedelta(days=30)  # for somebody to notice that a ref is gone, and to make it again
BEGUN, EXPIRED = "begun", "expired"


class Run(TableRun):
    """One run of one expiry plan."""

    def __init__(
        self, deployment: Deployment, result: PlanResult, run_id: str, lease: Lease, progress: Progress
    ) -> None:
        super().__init__(deployment, result, run_id, lease, progress)
        self._turn = threading.Lock()
        self._begun = {step["table"] for step in self.steps(BEGUN)}
        self._expired: dict[str, dict[str, int]] = {step["table"]: step["changes"] for step in self.steps(EXPIRED)}
        self._held = [FailedFile(**step["failure"]) for step in self.steps(EXPIRED) if "failure" in step]

    def run(self) -> RunResult:
        """Every table, side by side; one that cannot be expired does not stop the others."""
        tables = self.starts([table for table in self.tables() if table.identifier not in self._expired])
        self._settle_open_batches()
        # What a run before released and went on with may have been deleted since: it is not entered again, and what is
        # still there begins to wait anew.
        self._release([table.identifier for table in tables if table.identifier not in self._begun])
        if self._begun:
            self.deployment.ledger.pending.renew_run(self.run_id, self.now())
        pointers = {name: pointer for name, (_, pointer) in pointers_of(self.deployment.formats.values()).items()}
        in_use = in_use_since(self.deployment)
        with ThreadPoolExecutor(TABLES_AT_ONCE) as pool:
            answers = pool.map(lambda table: self._expire(table, pointers, in_use), tables)
            failed = [*self._held, *(why for why in answers if why is not None)]
        released = self.deployment.ledger.pending.count(self.run_id)
        changed = Counter({"snapshots": 0})
        for changes in self._expired.values():
            changed.update(changes)
        return self.closed(changed, failed, {str(Verdict.PENDING): released})

    def _release(self, names: Sequence[str]) -> None:
        """Enter what the plan releases. The commit comes later, so nothing is ever released and unknown."""
        now = self.now()
        for rows in rows_of(self.deployment.stores, self.result):
            wanted = of_tables(rows.filter(pc.equal(rows["verdict"], str(Verdict.PENDING))), frozenset(names))
            self.deployment.ledger.pending.add_rows(self.run_id, now, wanted.to_batches())

    def _expire(
        self, table: TablePlan, pointers: Mapping[str, Pointer], in_use: Mapping[str, datetime]
    ) -> FailedFile | None:
        """One table, or why not. What was released of a table that nobody touched is taken back."""
        name = table.identifier
        hands: TableHands | None = None
        try:
            with ExitStack() as stack:
                check_frozen(self.deployment, "no further table was expired")
                leases = [
                    stack.enter_context(root_lease(self.deployment, prefix, wait=LEASE_WAIT))
                    for prefix in self.roots_of(name)
                ]
                pointer = pointers.get(name)
                if pointer is None:
                    raise PlanOutdatedError(f"{name} is gone; nothing of it was changed")
                began = self.deployment.clock.boot()
                expirer = required(self.deployment.format_of(name).expirer, name)
                steps = table.detail["steps"]
                if (why := expirer.outdated(pointer, steps, resumed=name in self._begun)) is not None:
                    raise PlanOutdatedError(f"{name}: {why}; nothing of it was changed")
                self.deployment.ledger.runs.step(self.run_id, BEGUN, {"table": name})
                hands = TableHands(
                    deployment=self.deployment,
                    run_id=self.run_id,
                    plan_id=self.plan.plan_id,
                    table=name,
                    uuid=table.uuid,
                    roots=self.roots_of(name),
                    began=began,
                    check_leases=partial(all_held, [self.lease, *leases]),
                    turn=self._turn,
                    in_use_since=in_use.get(name),
                )
                changes = dict(expirer.carry_out(pointer, steps, hands))
            if not any(changes.values()):
                self._take_back(name)
            with self._turn:
                self._expired[name] = changes
            self.deployment.ledger.runs.step(self.run_id, EXPIRED, {"table": name, "changes": changes})
            self.progress("expire", len(self._expired), len(self.plan.tables))
        except LostRefError as error:
            return self._hold(name, error, error.changes)
        except DoubtfulCommitError as error:
            return self._hold(name, error, {})
        except LakewardenError as error:
            # Where the metadata could not even be archived, the commit was never tried.
            untouched = hands is None or not hands.changing.is_set() or isinstance(error, TableMovedError)
            if untouched and name not in self._begun:
                self._take_back(name)
            return self.failure(name, error)
        return None

    def _take_back(self, name: str) -> None:
        """Strike out what was released of a table, if it is certain that nobody let it go. Else it waits, which is
        harmless: deletion takes nothing that is needed, and lets it wait anew."""
        released = {table.identifier for table in self.tables()} - {name}
        # A file counts for one of the tables of its directory, not always for the one that let it go.
        if self._near(name).isdisjoint(released):
            self.deployment.ledger.pending.take_back(self.run_id, name, self.plan.created_at)

    def _hold(self, name: str, error: LakewardenError, changes: Mapping[str, int]) -> FailedFile:
        """Somebody's ref may be gone and be made again: its files stay known, and none goes meanwhile."""
        self.deployment.ledger.pending.hold(self._near(name), self.now() + HELD)
        failure = FailedFile(name, error.code, f"{error.message}; its released files stay for {HELD.days} days")
        self.log.error("table in doubt", table=name, code=failure.code, message=failure.message)
        with self._turn:
            self._expired[name] = dict(changes)
        # On the record, so that the run says so too when it goes on after a crash, and does not take it for done.
        self.deployment.ledger.runs.step(
            self.run_id, EXPIRED, {"table": name, "changes": dict(changes), "failure": asdict(failure)}
        )
        return failure

    def _near(self, name: str) -> set[str]:
        """The tables of its directories, itself among them."""
        return {other for root in self.plan.roots if name in root.tables for other in root.tables}

    def _settle_open_batches(self) -> None:
        """What a crashed run announced and did not record. What is still there is removed when its table is expired."""
        for batch in self.deployment.ledger.journal.open_batches(self.run_id):
            outcomes = [
                FileOutcome(file.uri, Outcome.KEPT)
                if self.deployment.stores.head(file.uri) is not None
                else FileOutcome(file.uri, Outcome.DELETED, None, "gone when the run was resumed")
                for file in batch.files
            ]
            self.deployment.ledger.journal.outcomes(self.run_id, batch.batch_no, outcomes)
