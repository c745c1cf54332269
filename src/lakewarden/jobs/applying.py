"""Apply a plan that removes files: claim it, validate, delete in journaled batches, verify.

Nothing is deleted that the plan does not list; every step can only make it less. A crash at any point
leaves an intent in the journal, and the next apply of the same plan goes on from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from lakewarden.jobs.batches import Batch, batches_of
from lakewarden.jobs.ownership import claim_place, owner_place
from lakewarden.jobs.pacing import Pace
from lakewarden.jobs.planfiles import load_plan
from lakewarden.jobs.revalidation import Revalidation
from lakewarden.jobs.rooms import Rooms
from lakewarden.ledger.heads import write_head
from lakewarden.ledger.lease import Lease
from lakewarden.ledger.progress import CleanupProgress
from lakewarden.logs import bind
from lakewarden.model.actor import Actor
from lakewarden.model.errors import (
    FrozenError,
    InvariantViolationError,
    LakewardenError,
    NothingAppliedError,
    PlanExpiredError,
    TooManyAbsentError,
    UsageError,
)
from lakewarden.model.plan import Plan, Tally
from lakewarden.model.policy import DeleteMode
from lakewarden.model.ports import FileOutcome, JournalFile, Progress
from lakewarden.model.run import FailedFile, PlanResult, RunResult, RunStatus
from lakewarden.model.verdict import Brake, Outcome
from lakewarden.storage.delete import delete, grant
from lakewarden.storage.quarantine import copy_to_trash, quarantine, restore

LEASE_SECONDS = 120.0
ABSENT_SHARE = 0.2
ABSENT_AT_LEAST = 20
SHOWN_FAILURES = 100


@dataclass
class Tallying:
    """What became of the files so far."""

    outcomes: dict[str, Tally] = field(default_factory=dict)
    failures: list[FailedFile] = field(default_factory=list)
    trouble: list[str] = field(default_factory=list)

    def add(self, files: Sequence[JournalFile], outcomes: Sequence[FileOutcome]) -> None:
        for file, outcome in zip(files, outcomes, strict=True):
            self.outcomes[outcome.outcome] = self.outcomes.get(outcome.outcome, Tally()) + Tally(1, file.size)
            if outcome.outcome == Outcome.FAILED and len(self.failures) < SHOWN_FAILURES:
                self.failures.append(FailedFile(outcome.uri, outcome.code or "LW-STORE-001", outcome.message or ""))

    def of(self, outcome: Outcome) -> Tally:
        return self.outcomes.get(outcome, Tally())

    @property
    def touched(self) -> int:
        return sum(tally.files for name, tally in self.outcomes.items() if name != Outcome.KEPT)


def apply(rooms: Rooms, directory: str, actor: Actor, overrides: Sequence[str], progress: Progress) -> RunResult:
    """Do what the plan in this directory says, once."""
    result = load_plan(rooms.stores, directory)
    check_plan(rooms, result.plan, overrides)
    run_id = rooms.ledger.plans.claim(result.plan.plan_id, rooms.new_id())
    if rooms.ledger.runs.get(run_id) is None:
        rooms.ledger.runs.start(run_id, result.plan.job, result.plan.plan_id, actor)
    return Application(rooms, result, run_id, frozenset(overrides), progress).run()


def check_plan(rooms: Rooms, plan: Plan, overrides: Sequence[str]) -> None:
    """Raise for a plan that may not be applied now. Nothing is claimed or recorded before."""
    unknown = [name for name in overrides if name not in list(Brake)]
    if unknown:
        raise UsageError(f"there is no brake {unknown[0]!r}; brakes: {', '.join(Brake)}")
    if (frozen := rooms.ledger.switches.frozen()) is not None:
        raise FrozenError(f"{frozen.who} froze this deployment on {frozen.when:%Y-%m-%d %H:%M} UTC: {frozen.reason}; nothing was done")
    if rooms.clock.now() >= plan.expires_at and rooms.ledger.runs.open_for_plan(plan.plan_id) is None:
        raise PlanExpiredError(f"plan {plan.plan_id} expired at {plan.expires_at:%Y-%m-%d %H:%M} UTC; nothing was done")
    if not allowed_tables(plan, overrides) and any(table.refusal for table in plan.tables):
        raise NothingAppliedError(f"plan {plan.plan_id} has no table that may be changed; nothing was done")


def allowed_tables(plan: Plan, overrides: Sequence[str]) -> frozenset[str]:
    """Tables that may be changed: planned ones, and those whose only refusal is a brake that is lifted by name."""
    lifted = {name for brake in overrides for name in plan.brakes.get(brake, ())}
    return frozenset(table.identifier for table in plan.tables if table.refusal is None or table.identifier in lifted)


class Application:
    """One run of one plan."""

    def __init__(
        self, rooms: Rooms, result: PlanResult, run_id: str, overrides: frozenset[str], progress: Progress
    ) -> None:
        self.rooms = rooms
        self.result = result
        self.plan = result.plan
        self.run_id = run_id
        self.progress = progress
        self.log = bind(run_id=run_id, job=self.plan.job)
        self.tables = allowed_tables(self.plan, sorted(overrides))
        self.pace = Pace.of([table.policy for table in self.plan.tables if table.identifier in self.tables])
        self.validation = Revalidation(rooms, self.plan)
        self.tally = Tallying()
        self.total = 0

    def run(self) -> RunResult:
        """Every batch, then the verification, then the record. A failure is recorded too, never a half-open run."""
        self.log.info("apply starts", plan=self.plan.plan_id, tables=len(self.tables))
        status = RunStatus.FAILED
        try:
            expired = self.rooms.clock.now() >= self.plan.expires_at
            self._finish_open_batches(expired)
            if expired:
                raise PlanExpiredError(f"plan {self.plan.plan_id} expired before its run was finished; its open batch was settled")
            self._delete_all()
            self._verify()
            status = self._status()
        except LakewardenError as error:
            self.log.error("apply stopped", code=error.code, message=error.message)
            self._record(self._result(RunStatus.PARTIAL if self.tally.touched else RunStatus.FAILED))
            raise
        return self._record(self._result(status))

    def _delete_all(self) -> None:
        files = batches_of(self.rooms.stores, self.result, self.tables, self.pace.batch_size)
        self.total = sum(table.changes.get("files", 0) for table in self.plan.tables if table.identifier in self.tables)
        done = self.rooms.ledger.journal.next_batch(self.run_id)
        leases: dict[str, Lease] = {}
        with ExitStack() as stack:
            for batch in files:
                if batch.number < done:
                    continue
                for prefix in batch.roots:
                    if prefix not in leases:
                        leases[prefix] = stack.enter_context(self._lease(prefix))
                self._delete(batch.number, batch.files, [leases[prefix] for prefix in batch.roots])
                for prefix in batch.finished:
                    if prefix in leases:
                        leases[prefix].release()
                self._check_absent()
                self._checkpoint(batch)
                self.pace.wait(self.rooms.clock)

    def _lease(self, prefix: str) -> Lease:
        """The root's lease, and our name on its bucket."""
        if (foreign := claim_place(self.rooms, owner_place(prefix))) is not None:
            raise NothingAppliedError(foreign.message, hint=foreign.hint)
        return self.rooms.leases.acquire(f"root/{prefix}", LEASE_SECONDS)

    def _delete(self, number: int, files: Sequence[JournalFile], leases: Sequence[Lease], *, resumed: bool = False) -> None:
        """One batch: validate, write the intent, delete, write each outcome."""

        def held() -> None:
            for lease in leases:
                lease.check()

        held()
        self._check_frozen()
        mode = self.pace.mode
        if mode is DeleteMode.QUARANTINE:
            copy_to_trash(self.rooms.stores, self.trash, self.run_id, files, concurrency=self.pace.concurrency)
        validated = self.validation.check()
        allowed = self._without_writers(self.validation.keep(files))
        if not resumed:
            self.rooms.ledger.journal.intent(self.run_id, number, files)
        outcomes = {file.uri: FileOutcome(file.uri, Outcome.KEPT) for file in files}
        if allowed:
            permit = grant(
                plan_id=self.plan.plan_id,
                run_id=self.run_id,
                roots=[root.prefix for root in self.plan.roots],
                uris=[file.uri for file in allowed],
                validated_at=validated,
                check_lease=held,
            )
            stores, clock, concurrency = self.rooms.stores, self.rooms.clock, self.pace.concurrency
            if mode is DeleteMode.QUARANTINE:
                found = quarantine(permit, stores, self.trash, allowed, clock, concurrency=concurrency)
            else:
                found = delete(permit, stores, allowed, clock, concurrency=concurrency)
            outcomes |= {outcome.uri: outcome for outcome in found}
        answers = [outcomes[file.uri] for file in files]
        self.rooms.ledger.journal.outcomes(self.run_id, number, answers)
        self.tally.add(files, answers)
        self.pace.learn(answers)
        self.log.debug("batch done", batch=number, files=len(files))

    @property
    def trash(self) -> str:
        return f"{self.rooms.state}trash/"

    def _without_writers(self, files: Sequence[JournalFile]) -> list[JournalFile]:
        """Files that no writer at work may be about to commit."""
        beats = self.rooms.ledger.heartbeats.live(self.rooms.clock.now())
        return [
            file
            for file in files
            if not any(file.uri.startswith(b.prefix) and (file.modified is None or file.modified >= b.since) for b in beats)
        ]

    def _check_frozen(self) -> None:
        if (frozen := self.rooms.ledger.switches.frozen()) is not None:
            raise FrozenError(f"{frozen.who} froze this deployment: {frozen.reason}; no further batch was started")

    def _finish_open_batches(self, expired: bool) -> None:
        """What a crashed run announced and did not record: validated again and deleted, or only looked at."""
        for batch in self.rooms.ledger.journal.open_batches(self.run_id):
            self.log.warning("open batch found", batch=batch.batch_no, files=len(batch.files))
            if expired:
                outcomes = [self._look(file) for file in batch.files]
                self.rooms.ledger.journal.outcomes(self.run_id, batch.batch_no, outcomes)
                self.tally.add(batch.files, outcomes)
                continue
            with ExitStack() as stack:
                roots = {r.prefix for r in self.plan.roots for f in batch.files if f.uri.startswith(r.prefix)}
                leases = [stack.enter_context(self._lease(prefix)) for prefix in sorted(roots)]
                self._delete(batch.batch_no, batch.files, leases, resumed=True)

    def _look(self, file: JournalFile) -> FileOutcome:
        there = self.rooms.stores.head(file.uri) is not None
        return FileOutcome(file.uri, Outcome.KEPT if there else Outcome.ABSENT)

    def _check_absent(self) -> None:
        absent, touched = self.tally.of(Outcome.ABSENT).files, self.tally.touched
        if absent >= ABSENT_AT_LEAST and absent > ABSENT_SHARE * touched:
            raise TooManyAbsentError(f"{absent} of {touched} files were already gone; no further batch was started")

    def _verify(self) -> None:
        """Look at the pointers once more: nothing that was deleted may be needed now."""
        self.validation.check()
        if not self.validation.needed:
            return
        lost = [uri for uri in self._removed() if uri in self.validation.needed]
        if not lost:
            return
        if self.pace.mode is DeleteMode.QUARANTINE:
            back = restore(self.rooms.stores, self.trash, self.run_id, lost)
            lost = [outcome.uri for outcome in back if outcome.outcome != Outcome.KEPT]
            self.rooms.ledger.runs.step(self.run_id, "restored", {"files": len(back)})
        if lost:
            self.rooms.ledger.runs.step(self.run_id, "invariant-violation", {"files": lost[:SHOWN_FAILURES]})
            raise InvariantViolationError(f"{len(lost)} deleted files are needed now, such as {lost[0]}")

    def _removed(self) -> Iterator[str]:
        for kind in (Outcome.DELETED, Outcome.QUARANTINED, Outcome.HIDDEN):
            for file, _ in self.rooms.ledger.journal.outcome_rows(self.run_id, kind):
                yield file.uri

    def _checkpoint(self, batch: Batch) -> None:
        run = self.rooms.ledger.runs.get(self.run_id)
        now = self.rooms.clock.now()
        done = sum(tally.files for tally in self.tally.outcomes.values())
        self.rooms.ledger.progress.checkpoint(
            self.run_id,
            CleanupProgress(
                run_id=self.run_id,
                started_at=run.started_at if run else now,
                scope=batch.roots[-1] if batch.roots else "",
                total_candidates=self.total,
                processed=done,
                deleted=self.tally.of(Outcome.DELETED).files,
                failed=self.tally.of(Outcome.FAILED).files,
                last_checkpoint_at=now,
            ),
        )
        self.progress("delete", done, self.total)

    def _status(self) -> RunStatus:
        failed = self.tally.of(Outcome.FAILED).files
        return RunStatus.PARTIAL if failed or self.validation.stopped else RunStatus.DONE

    def _result(self, status: RunStatus) -> RunResult:
        done = self.rooms.ledger.journal.done(self.run_id)
        removed = [done.get(kind, Tally()) for kind in (Outcome.DELETED, Outcome.HIDDEN, Outcome.QUARANTINED)]
        planned = self.plan.totals()["verdicts"]
        kept = {name: tally["files"] for name, tally in planned.items() if name not in ("orphan",)}
        revalidated = sum(done.get(kind, Tally()).files for kind in (Outcome.KEPT, Outcome.CHANGED))
        if revalidated:
            kept["revalidated"] = revalidated
        return RunResult(
            run_id=self.run_id,
            plan_id=self.plan.plan_id,
            job=self.plan.job,
            status=status,
            changed={"files": sum(tally.files for tally in removed)},
            deleted=removed[0] + removed[1],
            absent=done.get(Outcome.ABSENT, Tally()).files,
            quarantined=removed[2],
            kept=kept,
            failed=tuple(self.tally.failures),
        )

    def _record(self, result: RunResult) -> RunResult:
        self.rooms.ledger.runs.finish(self.run_id, result.status, result.as_json())
        head = self.rooms.ledger.journal.head(self.run_id)
        write_head(self.rooms.stores, self.rooms.state, self.run_id, head)
        self.log.info("apply ends", status=str(result.status), deleted=result.deleted.files, bytes=result.deleted.bytes)
        return result
