"""Apply a plan that removes files: claim it, validate, delete in journaled batches, verify.

Nothing is deleted that the plan does not list; every step can only make it less. A crash at any point
leaves an intent in the journal, and the next apply of the same plan goes on from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial

import pyarrow as pa

from lakewarden.ledger.batch_outcomes import settle
from lakewarden.ledger.heads import head_uri, write_head
from lakewarden.ledger.lease import Lease
from lakewarden.ledger.progress import CleanupProgress
from lakewarden.ledger.run_status import run_lease
from lakewarden.ledger.runs import RUNNING, STOPPED
from lakewarden.logs import bind
from lakewarden.model.actor import Actor
from lakewarden.model.errors import (
    CatalogUnavailableError,
    ColdCopyLostError,
    FrozenError,
    InvariantViolationError,
    LakewardenError,
    LeaseHeldError,
    LeaseLostError,
    MissingStoreError,
    NothingAppliedError,
    PlanError,
    PlanExpiredError,
    PlanOutdatedError,
    StaleValidationError,
    StateError,
    StoreUnavailableError,
    TooManyAbsentError,
    UsageError,
)
from lakewarden.model.files import BatchFiles
from lakewarden.model.plan import Plan, Tally, add_tallies
from lakewarden.model.policy import DeleteMode, Job
from lakewarden.model.ports import FileOutcome, Heartbeat, Progress
from lakewarden.model.run import FailedFile, PlanResult, RunResult, RunStatus
from lakewarden.model.verdict import Brake, Outcome
from lakewarden.steps.apply.batches import batches_of, orphans_of
from lakewarden.steps.apply.cold_recheck import ColdRecheck
from lakewarden.steps.apply.guard import all_held, check_frozen, let_go, root_leases
from lakewarden.steps.apply.outcomes import REMOVED, SHOWN_FAILURES, Tallying, failures_of
from lakewarden.steps.apply.pace import Pace
from lakewarden.steps.apply.recorder import Recorder
from lakewarden.steps.apply.revalidate import Revalidation
from lakewarden.steps.apply.trash import LEASE_SECONDS, purge_old, trash_of
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.job import JobSpec
from lakewarden.storage.delete import MAX_VALIDATION_AGE, delete, grant
from lakewarden.storage.quarantine import copy_to_trash, restore, trash_address
from lakewarden.storage.store import Store

ABSENT_SHARE = 0.2
ABSENT_AT_LEAST = 20
CHECKS_A_BATCH = 3
STARTED = "started"
GONE = (Outcome.DELETED, Outcome.HIDDEN, Outcome.QUARANTINED, Outcome.ABSENT)

# What passes by itself or by somebody's hand: the run stays open, and the same apply goes on with it.
PASSING = (
    CatalogUnavailableError,
    FrozenError,
    LeaseHeldError,
    LeaseLostError,
    MissingStoreError,
    StaleValidationError,
    StateError,
    StoreUnavailableError,
)


def apply(
    deployment: Deployment,
    result: PlanResult,
    actor: Actor,
    overrides: Sequence[str],
    progress: Progress,
    job: JobSpec,
) -> RunResult:
    """Do what a plan of this job says, once."""
    check_plan(deployment, result.plan, overrides)
    lifted = _overrides_at_start(deployment, result.plan, overrides)
    rows = orphans_of(deployment.stores, result, allowed_tables(result.plan, lifted)) if job.deletes else None
    run_id = deployment.ledger.plans.claim(result.plan.plan_id, deployment.new_id())
    # Of two that apply one plan at once, the second must not take the first for a crashed one.
    with deployment.leases.acquire(run_lease(run_id), LEASE_SECONDS) as lease:
        if (run := deployment.ledger.runs.get(run_id)) is None:
            deployment.ledger.runs.start(run_id, result.plan.job, result.plan.plan_id, actor)
        elif run.finished_at is not None:
            raise PlanOutdatedError(
                f"plan {result.plan.plan_id} was finished meanwhile by run {run_id}; nothing was done"
            )
        deployment.ledger.runs.mark(run_id, RUNNING)
        deployment.ledger.runs.step(run_id, STARTED, {"by": actor.operator, "overrides": sorted(lifted)})
        if rows is None:
            return job.runner(deployment, result, run_id, lease, progress).run()
        return Application(deployment, result, run_id, rows, lifted, lease, progress).run()


def check_plan(deployment: Deployment, plan: Plan, overrides: Sequence[str]) -> None:
    """Raise for a plan that may not be applied now. Nothing is claimed or recorded before."""
    unknown = [name for name in overrides if name not in list(Brake)]
    if unknown:
        raise UsageError(f"there is no brake {unknown[0]!r}; brakes: {', '.join(Brake)}")
    if (frozen := deployment.ledger.switches.frozen()) is not None:
        when = f"{frozen.when:%Y-%m-%d %H:%M} UTC"
        raise FrozenError(f"{frozen.who} froze this deployment on {when}: {frozen.reason}; nothing was done")
    if deployment.ledger.plans.header(plan.plan_id) is None:
        # Another deployment's leases, heartbeats and record of used plans are not visible here.
        raise PlanError(f"plan {plan.plan_id} was not made by this deployment; nothing was done")
    catalogs = tuple(f"{catalog}." for catalog in deployment.formats)
    unseen = [name for name in plan.pointers if not name.startswith(catalogs)]
    if unseen:
        # Its tables may need the files by now, and nobody could tell.
        raise PlanOutdatedError(f"no configured catalog holds {unseen[0]}, which the plan has read; nothing was done")
    if deployment.clock.now() >= plan.expires_at and deployment.ledger.runs.open_for_plan(plan.plan_id) is None:
        raise PlanExpiredError(f"plan {plan.plan_id} expired at {plan.expires_at:%Y-%m-%d %H:%M} UTC; nothing was done")
    if not allowed_tables(plan, overrides) and any(table.refusal for table in plan.tables):
        raise NothingAppliedError(f"plan {plan.plan_id} has no table that may be changed; nothing was done")


def allowed_tables(plan: Plan, overrides: Sequence[str]) -> frozenset[str]:
    """Tables that may be changed: planned ones, and those that only brakes refused, each of them lifted by name."""
    braked = {name for names in plan.brakes.values() for name in names}
    held = {name for brake, names in plan.brakes.items() if brake not in overrides for name in names}
    return frozenset(t.identifier for t in plan.tables if t.refusal is None or t.identifier in braked - held)


def _overrides_at_start(deployment: Deployment, plan: Plan, overrides: Sequence[str]) -> tuple[str, ...]:
    """The brakes that the run was started without: other tables would shift its batches when it goes on."""
    run = deployment.ledger.runs.open_for_plan(plan.plan_id)
    steps = [step for step in deployment.ledger.runs.steps(run.run_id) if step.name == STARTED] if run else []
    if not steps:
        return tuple(overrides)
    first = tuple(steps[0].detail["overrides"])
    if run and not set(overrides) <= set(first):
        raise UsageError(f"run {run.run_id} was started with the brakes {list(first)} lifted, and goes on with those")
    return first


class Application:
    """One run of one plan."""

    def __init__(
        self,
        deployment: Deployment,
        result: PlanResult,
        run_id: str,
        rows: pa.Table,
        overrides: Sequence[str],
        lease: Lease,
        progress: Progress,
    ) -> None:
        self.deployment = deployment
        self.result = result
        self.plan = result.plan
        self.run_id = run_id
        self.rows = rows
        self.lease = lease
        self.progress = progress
        self.log = bind(run_id=run_id, job=self.plan.job)
        self.tables = allowed_tables(self.plan, overrides)
        self.pace = Pace.of([table.policy for table in self.plan.tables if table.identifier in self.tables])
        self.validation = Revalidation(deployment, self.plan)
        self.cold = ColdRecheck.of(deployment.ledger, deployment.stores, self.plan)
        self.tally = Tallying()
        self.recorder = Recorder()
        self.hiding: dict[Store, bool] = {}
        self.earlier = deployment.ledger.journal.done(run_id)
        run = deployment.ledger.runs.get(run_id)
        self.started_at = run.started_at if run else deployment.clock.now()

    def run(self) -> RunResult:
        """Every batch, then the verification, then the record."""
        self.log.info("apply starts", plan=self.plan.plan_id, tables=len(self.tables))
        if self.deployment.stores.head(head_uri(self.deployment.state, self.run_id)) is not None:
            # It was over when it crashed, and only its record was not closed.
            unfinished = sum(tally.files for tally in self.earlier.values()) < self.rows.num_rows
            return self._record(RunStatus.PARTIAL if unfinished else None)
        try:
            self.validation.check()
            expired = self.deployment.clock.now() >= self.plan.expires_at
            with self.recorder:
                self._finish_open_batches(expired)
                if expired:
                    raise PlanExpiredError(
                        f"plan {self.plan.plan_id} expired before its run was finished; its open batch was settled"
                    )
                self._delete_all()
            self._verify()
        except PASSING as error:
            self.log.error("apply stopped", code=error.code, message=error.message)
            self.deployment.ledger.runs.step(self.run_id, STOPPED, {"code": error.code, "message": error.message})
            self.deployment.ledger.runs.mark(self.run_id, STOPPED)
            raise
        except LakewardenError as error:
            self.log.error("apply stopped", code=error.code, message=error.message)
            self._record(RunStatus.PARTIAL if self.earlier or self.tally.touched else RunStatus.FAILED)
            raise
        purge_old(self.deployment, self.run_id)
        return self._record()

    def _delete_all(self) -> None:
        done = self.deployment.ledger.journal.next_batch(self.run_id)
        leases: dict[str, Lease] = {}
        with ExitStack() as stack:
            for batch in batches_of(self.result, self.rows, self.pace.batch_size):
                if batch.number < done:
                    continue
                # A root that is left alone keeps its place in the batches: their numbers must not shift.
                entered = [prefix for prefix in batch.roots if prefix not in leases and self.validation.usable(prefix)]
                leases |= root_leases(self.deployment, entered, stack)
                held = {prefix: leases[prefix] for prefix in batch.roots if prefix in leases}
                self._delete(batch.number, batch.files, held)
                let_go(held[prefix] for prefix in batch.finished if prefix in held)
                self._check_absent()
                self.progress("delete", self._processed(), self.rows.num_rows)
                self.pace.wait(self.deployment.clock)

    def _delete(self, number: int, files: BatchFiles, leases: dict[str, Lease], *, resumed: bool = False) -> None:
        """One batch: validate, write the intent, delete, write each outcome."""
        held = partial(all_held, [self.lease, *leases.values()])
        held()
        check_frozen(self.deployment, "no further batch was started")
        for prefix in leases:
            self.validation.usable(prefix)
        copies = self._copied(files)
        # Writers first, then pointers: one that commits and stops beating in between is seen by one of the two.
        writers = self.deployment.ledger.heartbeats.live(self.deployment.clock.now())
        validated = self._validated()
        allowed = self._allowed(files, writers)
        if not resumed:
            self.deployment.ledger.journal.intent(self.run_id, number, files)
        found = {uri: copies[uri] for uri in allowed.uris if uri in copies} if copies else {}
        ready = allowed
        if found:
            ready = allowed.take([place for place, uri in enumerate(allowed.uris) if _copied_well(found.get(uri))])
        gone: Sequence[FileOutcome] = ()
        if ready:
            permit = grant(
                plan_id=self.plan.plan_id,
                run_id=self.run_id,
                roots=[root.prefix for root in self.plan.roots],
                uris=ready.uris,
                validated_at=validated,
                check_lease=held,
            )
            gone = delete(
                permit, self.deployment.stores, ready, self.deployment.clock, concurrency=self.pace.concurrency
            )
        if ready is files:
            answers = list(gone)
        else:
            # A crashed process may have taken what is kept from now on: only a look at the file can tell.
            left = self._look if resumed else partial(FileOutcome, outcome=Outcome.KEPT)
            found |= {outcome.uri: outcome for outcome in gone}
            answers = [found.get(uri) or left(uri) for uri in files.uris]
        if self.quarantined:
            answers = [self._named(answer) for answer in answers]
        if resumed:
            answers = [self._after_crash(answer) for answer in answers]
        self._settle(number, files, answers, next(reversed(leases), ""))
        self.log.debug("batch done", batch=number, files=len(files))

    def _settle(self, number: int, files: BatchFiles, answers: Sequence[FileOutcome], scope: str) -> None:
        """Record what became of a batch, and how far the run is with it."""
        settled = settle(files, answers)
        self.tally.add(settled.tallies)
        self.pace.learn(settled.stretches)
        reached = self._reached(scope)

        def record() -> None:
            if self.plan.job == Job.PHYSICAL_DELETION:
                # Before the outcome: a batch without one is looked at again, while a name left behind in the ledger
                # of released files would count as absent in the next plan.
                self.deployment.ledger.pending.strike(answer.uri for answer in answers if answer.outcome in GONE)
                kept = [answer.uri for answer in answers if answer.outcome == Outcome.KEPT]
                # A clock that was set back must not shorten the wait.
                self.deployment.ledger.pending.renew(kept, max(self.deployment.clock.now(), self.plan.created_at))
            self.deployment.ledger.journal.outcomes(self.run_id, number, settled, reached)

        self.recorder.write(record)

    def _allowed(self, files: BatchFiles, writers: Sequence[Heartbeat]) -> BatchFiles:
        """The files that nothing needs since the plan, and that no writer at work may be about to commit."""
        kept = self.validation.keep(files)
        return _without_writers(kept, writers) if writers else kept

    def _validated(self) -> float:
        """When the batch was validated. A table with many new manifests takes long once, and is quick the next time."""
        for _ in range(CHECKS_A_BATCH - 1):
            began = self.validation.check()
            if self.deployment.clock.boot() - began <= MAX_VALIDATION_AGE / 3:
                return began
        return self.validation.check()

    @property
    def quarantined(self) -> bool:
        return self.pace.mode is DeleteMode.QUARANTINE

    def _copied(self, files: BatchFiles) -> dict[str, FileOutcome]:
        """Copies in the trash, made before the validation: large files must not make it too old to be used.

        Files whose copy in the cold place was lost since the plan are among the answers too, and do not go.
        """
        lost = self.cold.held(files)
        if not self.quarantined:
            return lost
        trash, concurrency = trash_of(self.deployment), self.pace.concurrency
        copied = [file for file in files if not file.uri.endswith("/") and file.uri not in lost]
        copies = copy_to_trash(self.deployment.stores, trash, self.run_id, copied, concurrency=concurrency)
        return lost | {copy.uri: copy for copy in copies}

    def _named(self, outcome: FileOutcome) -> FileOutcome:
        """A removal by its name: what has a copy in the trash was quarantined."""
        gone = outcome.outcome in (Outcome.DELETED, Outcome.HIDDEN)
        return FileOutcome(outcome.uri, Outcome.QUARANTINED) if gone else outcome

    def _after_crash(self, outcome: FileOutcome) -> FileOutcome:
        """A file that the crashed process announced and that is gone went by its hand, not by a stranger's."""
        if outcome.code == ColdCopyLostError.code and self._look(outcome.uri).outcome == Outcome.ABSENT:
            outcome = FileOutcome(outcome.uri, Outcome.ABSENT)
        if outcome.outcome != Outcome.ABSENT:
            return outcome
        message = "gone when the run was resumed"
        if not self.quarantined:
            gone = Outcome.HIDDEN if self._hides(outcome.uri) else Outcome.DELETED
            return FileOutcome(outcome.uri, gone, None, message)
        if self.deployment.stores.head(trash_address(trash_of(self.deployment), self.run_id, outcome.uri)) is None:
            return outcome
        return FileOutcome(outcome.uri, Outcome.QUARANTINED, None, message)

    def _hides(self, uri: str) -> bool:
        """Whether deletes only hide there: asked once a bucket, for a crashed batch may hold thousands of its files."""
        store = self.deployment.stores.at(uri)
        if store not in self.hiding:
            self.hiding[store] = store.versioned()
        return self.hiding[store]

    def _finish_open_batches(self, expired: bool) -> None:
        """What a crashed run announced and did not record: validated again and deleted, or only looked at."""
        for batch in self.deployment.ledger.journal.open_batches(self.run_id):
            self.log.warning("open batch found", batch=batch.batch_no, files=len(batch.files))
            if expired:
                found = [self._after_crash(self._look(uri)) for uri in batch.files.uris]
                self._settle(batch.batch_no, batch.files, found, "")
                continue
            with ExitStack() as stack:
                roots = {r.prefix for r in self.plan.roots for uri in batch.files.uris if uri.startswith(r.prefix)}
                usable = [prefix for prefix in sorted(roots) if self.validation.usable(prefix)]
                leases = root_leases(self.deployment, usable, stack)
                self._delete(batch.batch_no, batch.files, leases, resumed=True)

    def _look(self, uri: str) -> FileOutcome:
        there = self.deployment.stores.head(uri) is not None
        return FileOutcome(uri, Outcome.KEPT if there else Outcome.ABSENT)

    def _check_absent(self) -> None:
        absent, touched = self.tally.of(Outcome.ABSENT).files, self.tally.touched
        if absent >= ABSENT_AT_LEAST and absent > ABSENT_SHARE * touched:
            raise TooManyAbsentError(f"{absent} of {touched} files were already gone; no further batch was started")

    def _verify(self) -> None:
        """Look at the pointers once more: nothing that was deleted may be needed now."""
        self.validation.check()
        journal = self.deployment.ledger.journal
        if not self.validation.needed:
            return
        lost = [
            f.uri
            for kind in REMOVED
            for f, _ in journal.outcome_rows(self.run_id, kind)
            if self.validation.is_needed(f.uri)
        ]
        if lost and self.quarantined:
            back = restore(self.deployment.stores, trash_of(self.deployment), self.run_id, lost)
            self.deployment.ledger.runs.step(self.run_id, "restored", {"files": lost[:SHOWN_FAILURES]})
            # A place that is taken again holds what the table wants there.
            lost = [outcome.uri for outcome in back if outcome.outcome not in (Outcome.KEPT, Outcome.CHANGED)]
        if lost:
            self.deployment.ledger.runs.step(self.run_id, "invariant-violation", {"files": lost[:SHOWN_FAILURES]})
            raise InvariantViolationError(f"{len(lost)} deleted files are needed now, such as {lost[0]}")

    def _reached(self, scope: str) -> CleanupProgress:
        # Counted here: asking the journal before every batch would cost more with each of them.
        done = add_tallies(self.earlier, self.tally.outcomes)
        return CleanupProgress(
            run_id=self.run_id,
            started_at=self.started_at,
            scope=scope,
            total_candidates=self.rows.num_rows,
            processed=self._processed(),
            deleted=sum(done.get(kind, Tally()).files for kind in REMOVED),
            failed=done.get(Outcome.FAILED, Tally()).files,
            last_checkpoint_at=self.deployment.clock.now(),
        )

    def _processed(self) -> int:
        return sum(tally.files for tally in (*self.earlier.values(), *self.tally.outcomes.values()))

    def _held_back(self) -> list[FailedFile]:
        """Roots that were left alone since the plan, where that kept a file."""
        if not self.validation.stopped:
            return []
        kept = [file.uri for file, _ in self.deployment.ledger.journal.outcome_rows(self.run_id, Outcome.KEPT)]
        return [
            FailedFile(prefix, PlanOutdatedError.code, reason)
            for prefix, reason in self.validation.stopped.items()
            if any(uri.startswith(prefix) for uri in kept)
        ]

    def _record(self, status: RunStatus | None = None) -> RunResult:
        """Close the run with what its journal says, after the journal's head is kept outside the database."""
        done = self.deployment.ledger.journal.done(self.run_id)
        deleted, hidden, quarantined = (done.get(kind, Tally()) for kind in REMOVED)
        failed = [*failures_of(self.deployment.ledger.journal, self.run_id), *self._held_back()]
        kept = {
            name: tally["files"] for name, tally in self.plan.totals()["verdicts"].items() if name != self.plan.changing
        }
        revalidated = sum(done.get(kind, Tally()).files for kind in (Outcome.KEPT, Outcome.CHANGED))
        if revalidated:
            kept["revalidated"] = revalidated
        result = RunResult(
            run_id=self.run_id,
            plan_id=self.plan.plan_id,
            job=self.plan.job,
            status=status or (RunStatus.PARTIAL if failed else RunStatus.DONE),
            changed={"files": (deleted + hidden + quarantined).files},
            deleted=deleted + hidden,
            absent=done.get(Outcome.ABSENT, Tally()).files,
            quarantined=quarantined,
            kept=kept,
            failed=tuple(failed),
        )
        # The head first: a closed run without one would look like a journal that somebody cut.
        write_head(
            self.deployment.stores, self.deployment.state, self.run_id, self.deployment.ledger.journal.head(self.run_id)
        )
        self.deployment.ledger.runs.finish(self.run_id, result.status, result.as_json())
        self.log.info("apply ends", status=str(result.status), deleted=result.deleted.files, bytes=result.deleted.bytes)
        return result


def _copied_well(copy: FileOutcome | None) -> bool:
    """Whether the original may go: its copy is good, or none was asked for."""
    return copy is None or copy.outcome == Outcome.KEPT


def _without_writers(files: BatchFiles, writers: Sequence[Heartbeat]) -> BatchFiles:
    """Files that no writer at work may be about to commit."""
    return files.take(
        [
            place
            for place, file in enumerate(files)
            if not any(
                file.uri.startswith(w.prefix) and (file.modified is None or file.modified >= w.since) for w in writers
            )
        ]
    )
