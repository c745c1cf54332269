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
from functools import cached_property, partial

import pyarrow.compute as pc

from lakewarden.jobs.snapshot_expiry.table_steps import TableSteps
from lakewarden.model.errors import (
    DoubtfulCommitError,
    LakewardenError,
    LeaseLostError,
    LostRefError,
    PlanOutdatedError,
    TableMovedError,
)
from lakewarden.model.margins import MARGINS
from lakewarden.model.plan import TablePlan, Tally
from lakewarden.model.ports import FileOutcome
from lakewarden.model.run import EXPIRED, FailedFile
from lakewarden.model.table import Pointer
from lakewarden.model.verdict import Outcome, Verdict
from lakewarden.steps.apply.claim import Claim
from lakewarden.steps.apply.guard import all_held
from lakewarden.steps.apply.table_run import TableRun
from lakewarden.steps.deployment import required
from lakewarden.steps.history.floor import ArchiveFloor
from lakewarden.steps.observe.fleet import pointers_of
from lakewarden.steps.observe.writers import Writers, writers
from lakewarden.steps.plan.rows import of_tables, rows_of

TABLES_AT_ONCE = 8
BEGUN, LEFT = "begun", "left"


class Run(TableRun):
    """One run of one expiry plan."""

    def __init__(self, claim: Claim) -> None:
        super().__init__(claim)
        self._turn = threading.Lock()
        self._floor = ArchiveFloor(self.deployment)
        self._begun = self._begun_before()
        self._expired: dict[str, dict[str, int]] = {step["table"]: step["changes"] for step in self.steps(EXPIRED)}
        self._held = [FailedFile(**step["failure"]) for step in self.steps(EXPIRED) if "failure" in step]

    def is_done(self, table: TablePlan) -> bool:
        return table.identifier in self._expired

    def changed(self) -> Mapping[str, int]:
        total = Counter({"snapshots": 0})
        for changes in self._expired.values():
            total.update(changes)
        return total

    def kept(self) -> Mapping[str, int]:
        return {str(Verdict.PENDING): self.deployment.ledger.pending.count(self.run_id)}

    def failures(self) -> list[FailedFile]:
        return [*self._held, *super().failures()]

    def settle(self) -> None:
        """What a crashed process announced and did not record is looked at; what it released begins to wait anew."""
        for batch in self.deployment.ledger.journal.open_batches(self.run_id):
            # What is still there is removed when its table is expired.
            outcomes = [
                FileOutcome(file.uri, Outcome.KEPT)
                if self.deployment.stores.head(file.uri) is not None
                else FileOutcome(file.uri, Outcome.DELETED, None, "gone when the run was resumed")
                for file in batch.files
            ]
            self.deployment.ledger.journal.outcomes(self.run_id, batch.batch_no, outcomes)
        if self._begun:
            self.deployment.ledger.pending.renew_run(self.run_id, self.now())

    def release(self, tables: Sequence[TablePlan]) -> None:
        """Enter what the plan releases. The commit comes later, so nothing is ever released and unknown."""
        # What a table released before a crash may have been deleted since: the files are not entered again.
        names = frozenset(table.identifier for table in tables if table.identifier not in self._begun)
        now = self.now()
        for rows in rows_of(self.deployment.stores, self.claim.result):
            wanted = of_tables(rows.filter(pc.equal(rows["verdict"], str(Verdict.PENDING))), names)
            self.deployment.ledger.pending.add_rows(self.run_id, now, wanted.to_batches())

    def change(self, tables: Sequence[TablePlan]) -> None:
        """Every table, side by side."""
        pointers = {name: pointer for name, (_, pointer) in pointers_of(self.deployment.formats.values()).items()}
        at_work = writers(self.deployment)
        halted = threading.Event()

        def expire(table: TablePlan) -> None:
            try:
                if not halted.is_set():
                    self._expire(table, pointers, at_work)
            except BaseException:
                halted.set()
                raise

        with ThreadPoolExecutor(TABLES_AT_ONCE) as pool:
            try:
                # Told by the work's own thread, which is where a run can be stopped between two tables.
                for done, _ in enumerate(pool.map(expire, tables), start=1):
                    self.claim.progress("expire", done, len(tables))
            except BaseException:
                halted.set()  # no thread begins another table
                raise

    def _expire(self, table: TablePlan, pointers: Mapping[str, Pointer], at_work: Writers) -> None:
        """One table, or why not. What was released of a table that failed untouched is taken back."""
        name = table.identifier
        steps: TableSteps | None = None
        try:
            with ExitStack() as stack:
                self.check_may_go_on()
                self.check_doubt(name)
                leases = [
                    stack.enter_context(self.root_lease(prefix, wait=MARGINS.lease_wait_seconds))
                    for prefix in self.roots_of(name)
                ]
                pointer = pointers.get(name)
                if pointer is None:
                    raise PlanOutdatedError(f"{name} is gone; nothing of it was changed")
                began = self.deployment.clock.boot()
                expirer = required(self.deployment.format_of(name).expirer, name)
                detail = table.detail["steps"]
                if (why := expirer.outdated(pointer, detail, resumed=name in self._begun)) is not None:
                    raise PlanOutdatedError(f"{name}: {why}; nothing of it was changed")
                self.deployment.ledger.runs.step(self.run_id, BEGUN, {"table": name})
                in_use = at_work.on(name, table.uuid)
                steps = TableSteps(
                    deployment=self.deployment,
                    run_id=self.run_id,
                    plan_id=self.plan.plan_id,
                    table=name,
                    uuid=table.uuid,
                    roots=self.roots_of(name),
                    began=began,
                    check_leases=partial(all_held, [self.lease, *leases]),
                    turn=self._turn,
                    in_use_since=in_use.since,
                    in_use_snapshots=in_use.snapshots,
                    planned=tuple(int(line["snapshot_id"]) for line in table.detail["expire"]),
                    resumed=self.claim.resumed,
                    # Also where history was switched on since the plan was made.
                    floor=self._floor if self._only_archived(table) else None,
                )
                changes = dict(expirer.carry_out(pointer, detail, steps))
            if not any(changes.values()):
                self._take_back(name)
            else:
                released = table.verdicts.get(Verdict.PENDING, Tally()).files
                self.deployment.ledger.known_tables.released(name, table.uuid, released)
            with self._turn:
                self._expired[name] = changes
            self.deployment.ledger.runs.step(self.run_id, EXPIRED, {"table": name, "changes": changes})
        except LostRefError as error:
            self._hold(name, error, error.changes)
        except DoubtfulCommitError as error:
            self._hold(name, error, {})
        except LakewardenError as error:
            # Where the metadata could not even be archived, the commit was never tried.
            untouched = steps is None or not steps.changing.is_set() or isinstance(error, TableMovedError)
            # On record first, that the table failed or was left: a process that goes on with this run must not expire a
            # table whose released files were taken back, unless it enters them again.
            if not self.failed(name, error) and untouched and steps is not None:
                self.deployment.ledger.runs.step(self.run_id, LEFT, {"table": name})
            if untouched and name not in self._begun and self._is_ours():
                self._take_back(name)

    def _only_archived(self, table: TablePlan) -> bool:
        return bool(table.detail.get("only_archived")) or self._floor.holds(table.identifier, {}, table.uuid)

    def _begun_before(self) -> set[str]:
        """The tables that a process before this one began and did not leave untouched."""
        found: set[str] = set()
        for step in self.deployment.ledger.runs.steps(self.run_id):
            if step.name == BEGUN:
                found.add(step.detail["table"])
            elif step.name == LEFT:
                found.discard(step.detail["table"])
        return found

    def _is_ours(self) -> bool:
        """Whether no other process can be at work on this run: it would have released the same files again."""
        try:
            self.lease.check()
        except LeaseLostError:
            return False
        return True

    def _take_back(self, name: str) -> None:
        """Strike out what was released of a table, if it is certain that nobody let it go. Else it waits, which is
        harmless: deletion takes nothing that is needed, and lets it wait anew."""
        if self.claim.resumed:
            return  # what a process before this one did to the table may have been forgotten with its last steps
        released = {table.identifier for table in self.planned} - {name}
        # A file counts for one of the tables of its directory, not always for the one that let it go.
        if self._near(name).isdisjoint(released):
            self.deployment.ledger.pending.take_back(self.run_id, name, self.plan.created_at)

    def _hold(self, name: str, error: LakewardenError, changes: Mapping[str, int]) -> None:
        """Somebody's ref may be gone and be made again: its files stay known, and none goes meanwhile."""
        self.deployment.ledger.pending.hold(self._near(name), self.now() + MARGINS.lost_ref)
        told = f"{error.message}; its released files stay for {MARGINS.lost_ref.days} days"
        failure = FailedFile(name, error.code, told)
        self.log.error("table in doubt", table=name, code=failure.code, message=failure.message)
        with self._turn:
            self._expired[name] = dict(changes)
            self._held.append(failure)
        # On the record, so that the run says so too when it goes on after a crash, and does not take it for done.
        self.deployment.ledger.runs.step(
            self.run_id, EXPIRED, {"table": name, "changes": dict(changes), "failure": asdict(failure)}
        )

    def _near(self, name: str) -> set[str]:
        """The tables that share a directory with a table, itself among them."""
        return {other for prefix in self.roots_of(name) for other in self._tables_of[prefix]}

    @cached_property
    def _tables_of(self) -> Mapping[str, Sequence[str]]:
        return {root.prefix: root.tables for root in self.plan.roots}
