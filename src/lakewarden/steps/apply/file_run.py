"""A run that deletes files: batch by batch, each validated, announced, deleted through the one door and recorded.

Nothing is deleted that the plan does not list; every step can only make it less. A crash at any point leaves an intent in
the journal, and the next apply of the same plan goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import ExitStack
from functools import partial
from typing import Protocol, Self

from lakewarden.ledger.batch_outcomes import settle
from lakewarden.ledger.lease import Lease
from lakewarden.ledger.progress import CleanupProgress
from lakewarden.logs import bind
from lakewarden.model.errors import InvariantViolationError, LakewardenError, PlanExpiredError
from lakewarden.model.files import BatchFiles
from lakewarden.model.margins import MARGINS
from lakewarden.model.plan import Tally
from lakewarden.model.policy import DeleteMode
from lakewarden.model.ports import FileOutcome, Heartbeat
from lakewarden.model.prefixes import Prefixes
from lakewarden.model.run import REVALIDATED, FailedFile, PlanResult, RunResult, RunStatus
from lakewarden.model.verdict import Brake, Outcome, Verdict
from lakewarden.steps.apply.batches import batches_of
from lakewarden.steps.apply.claim import Claim
from lakewarden.steps.apply.guard import all_held, check_frozen, let_go, root_leases, told_of_wait
from lakewarden.steps.apply.in_flight import without_writers
from lakewarden.steps.apply.look import Looks
from lakewarden.steps.apply.outcomes import REMOVED, SHOWN_FAILURES, Counts, failures_of, too_many_absent
from lakewarden.steps.apply.pace import Pace
from lakewarden.steps.apply.recorder import Recorder
from lakewarden.steps.apply.removal import Removal
from lakewarden.steps.apply.revalidate import Revalidation
from lakewarden.steps.apply.trash import promised, purge_old, trash_of
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.plan.ordered import OrderedRows, orphans_in_order
from lakewarden.storage.quarantine import restore


class FileRules(Protocol):
    """What only one job knows of the files that it deletes."""

    def withheld(self, files: BatchFiles) -> Mapping[str, FileOutcome]:
        """Those of a batch that may not go now, by name, each with the outcome that says why."""
        ...

    def settled(self, answers: Sequence[FileOutcome]) -> None:
        """Take note of what became of a batch. Called before the journal has it, and again if a crash came between."""
        ...


class NoRules:
    """Every file goes that nothing needs, and only the journal takes note."""

    def withheld(self, _: BatchFiles) -> Mapping[str, FileOutcome]:
        return {}

    def settled(self, _: Sequence[FileOutcome]) -> None:
        return None


class FileRun:
    """One run of a plan that lists files to delete."""

    def __init__(self, claim: Claim, rows: OrderedRows, rules: FileRules | None = None) -> None:
        self.claim = claim
        self.deployment = claim.deployment
        self.plan = claim.plan
        self.run_id = claim.run_id
        self.rows = rows
        self.rules: FileRules = rules or NoRules()
        self.log = bind(run_id=claim.run_id, job=claim.plan.job)
        self.tables = claim.plan.allowed(claim.lifted)
        self.pace = Pace.of([table.policy for table in self.plan.tables if table.identifier in self.tables])
        quarantined = self.pace.mode is DeleteMode.QUARANTINE
        self.removal = Removal(
            claim.deployment, self.plan.plan_id, self.run_id, self.pace.concurrency, quarantined
        )  # fmt: skip
        self.validation = Revalidation(claim.deployment, self.plan)
        self.looks = Looks(self.validation.check, self._writers, claim.deployment.clock.boot)
        self.roots = Prefixes(root.prefix for root in self.plan.roots)
        self.counts = Counts(claim.deployment.ledger.journal.done(self.run_id))
        self.recorder = Recorder()
        self.unverified: Set[str] = frozenset()
        run = claim.deployment.ledger.runs.get(self.run_id)
        self.started_at = run.started_at if run else claim.deployment.clock.now()

    @classmethod
    def prepare(cls, deployment: Deployment, result: PlanResult, lifted: Sequence[str]) -> Callable[[Claim], Self]:
        """The files to delete, read and checked against the plan's digests before the plan is claimed."""
        rows = orphans_in_order(deployment.stores, result, result.plan.allowed(lifted))
        return partial(cls, rows=rows)

    def do(self) -> None:
        """What a crash left open, then every batch, then the verification."""
        self.log.info("apply starts", plan=self.plan.plan_id, tables=len(self.tables))
        self.validation.check()
        expired = self.deployment.clock.now() >= self.plan.expires_at
        self.claim.announce()
        with self.recorder:
            opened = self._finish_open_batches(expired)
            if expired and (opened or self.counts.processed < self.rows.num_rows):
                settled = "; its open batch was settled" if opened else ""
                raise PlanExpiredError(f"plan {self.plan.plan_id} expired before its run was finished{settled}")
            self._delete_all()
        self._verify()
        self._accept_shrunk()
        purge_old(self.deployment, self.run_id)

    def _delete_all(self) -> None:
        done = self.deployment.ledger.journal.next_batch(self.run_id)
        leases: dict[str, Lease] = {}
        with ExitStack() as stack:
            for batch in batches_of(self.claim.result, self.rows, self.pace.batch_size, done):
                # A root that is left alone keeps its place in the batches: their numbers must not shift.
                entered = [prefix for prefix in batch.roots if prefix not in leases and self.validation.usable(prefix)]
                leases |= root_leases(self.deployment, entered, stack, told_of_wait(self.claim.progress))
                held = {prefix: leases[prefix] for prefix in batch.roots if prefix in leases}
                self._delete(batch.number, batch.files, held)
                let_go(held[prefix] for prefix in batch.finished if prefix in held)
                self._check_absent()
                self.claim.progress(self.removal.step, self.counts.processed, self.rows.num_rows)
                self.pace.wait(self.deployment.clock)

    def _finish_open_batches(self, expired: bool) -> bool:
        """What a crashed run announced and did not record: validated again and deleted, or only looked at."""
        opened = list(self.deployment.ledger.journal.open_batches(self.run_id))
        for batch in opened:
            self.log.warning("open batch found", batch=batch.batch_no, files=len(batch.files))
            if expired:
                found = [self.removal.after_crash(self.removal.look(uri)) for uri in batch.files.uris]
                self._settle(batch.batch_no, batch.files, found, "")
                continue
            with ExitStack() as stack:
                roots = {prefix for uri in batch.files.uris if (prefix := self.roots.of(uri)) is not None}
                usable = [prefix for prefix in sorted(roots) if self.validation.usable(prefix)]
                leases = root_leases(self.deployment, usable, stack, told_of_wait(self.claim.progress))
                self._delete(batch.batch_no, batch.files, leases, resumed=True)
        return bool(opened)

    def _delete(self, number: int, files: BatchFiles, leases: dict[str, Lease], *, resumed: bool = False) -> None:
        """One batch: validate, write the intent, delete, write each outcome."""
        held = partial(all_held, [self.claim.lease, *leases.values()])
        held()
        check_frozen(self.deployment, "no further batch was started")
        for prefix in leases:
            self.validation.usable(prefix)
        # Copies are made before the validation: large files must not make it too old to be used.
        withheld = self.rules.withheld(files)
        copies = {**withheld, **self.removal.copies(files, withheld)}
        look = self.looks.next()
        allowed = without_writers(self.validation.keep(files), look.writers)
        if not resumed:
            self.deployment.ledger.journal.intent(self.run_id, number, files)
        found = {uri: copies[uri] for uri in allowed.uris if uri in copies} if copies else {}
        ready = allowed
        if found:
            ready = allowed.take([place for place, uri in enumerate(allowed.uris) if _copied_well(found.get(uri))])
        gone = self.removal.take(ready, list(leases), look.began, held)
        if ready is files:
            answers = list(gone)
        else:
            # A crashed process may have taken what is kept from now on: only a look at the file can tell.
            left = self.removal.look if resumed else partial(FileOutcome, outcome=Outcome.KEPT)
            found |= {outcome.uri: outcome for outcome in gone}
            answers = [found.get(uri) or left(uri) for uri in files.uris]
        if resumed:
            answers = [self._after_crash(answer, withheld) for answer in answers]
        self._settle(number, files, answers, next(reversed(leases), ""))
        self.log.debug("batch done", batch=number, files=len(files))

    def _after_crash(self, answer: FileOutcome, withheld: Mapping[str, FileOutcome]) -> FileOutcome:
        """What the crashed process took is gone by its hand, also where the file would be withheld by now."""
        if answer is withheld.get(answer.uri) and (seen := self.removal.look(answer.uri)).outcome == Outcome.ABSENT:
            answer = seen
        return self.removal.after_crash(answer)

    def _settle(self, number: int, files: BatchFiles, answers: Sequence[FileOutcome], scope: str) -> None:
        """Record what became of a batch, and how far the run is with it."""
        settled = settle(files, answers)
        self.counts.add(settled.tallies)
        self.pace.learn(settled.stretches)
        reached = self._reached(scope)

        def record() -> None:
            self.rules.settled(answers)
            self.deployment.ledger.journal.outcomes(self.run_id, number, settled, reached)

        self.recorder.write(record)

    def _writers(self) -> Sequence[Heartbeat]:
        return self.deployment.ledger.heartbeats.protecting(self.deployment.clock.now())

    def _check_absent(self) -> None:
        absent, touched = self.counts.absent, self.counts.touched
        if absent >= MARGINS.absent_files and absent > MARGINS.absent_share * touched:
            self.recorder.wait()  # what the journal says of these files is looked up
            raise too_many_absent(self.deployment.ledger.journal, self.run_id, absent, touched)

    def _verify(self) -> None:
        """Look at the pointers once more: nothing that was deleted may be needed now."""
        stopped = set(self.validation.stopped)
        self.validation.check()
        self.unverified = self.validation.stopped.keys() - stopped
        if not self.validation.needed:
            return
        rows = self.deployment.ledger.journal.outcome_rows
        removed = (file.uri for kind in REMOVED for file, _ in rows(self.run_id, kind))
        lost = [uri for uri in removed if self.validation.is_needed(uri)]
        if lost and self.removal.quarantined:
            trash, digests = trash_of(self.deployment), self.removal.digests
            back = restore(self.deployment.stores, trash, self.run_id, lost, digests)
            self.deployment.ledger.runs.step(self.run_id, "restored", {"files": lost[:SHOWN_FAILURES]})
            # A place that is taken again holds what the table wants there.
            lost = [outcome.uri for outcome in back if outcome.outcome not in (Outcome.KEPT, Outcome.CHANGED)]
        if lost:
            self.deployment.ledger.runs.step(self.run_id, "invariant-violation", {"files": lost[:SHOWN_FAILURES]})
            raise InvariantViolationError(f"{len(lost)} deleted files are needed now, such as {lost[0]}")

    def _accept_shrunk(self) -> None:
        """Where an operator found it right that tables need less than before, later plans compare with what they need now."""
        if Brake.REACHABLE_SHRANK not in self.claim.lifted:
            return
        live = {table.uuid: table.verdicts.get(Verdict.LIVE, Tally()) for table in self.plan.tables if table.uuid}
        names = set(self.plan.brakes.get(Brake.REACHABLE_SHRANK, ()))
        rows = [row for row in self.validation.memory.rows if row.identifier in names and row.uuid in live]
        self.deployment.ledger.known_tables.record(
            row._replace(live_files=live[row.uuid].files, live_bytes=live[row.uuid].bytes) for row in rows
        )

    def _reached(self, scope: str) -> CleanupProgress:
        # Counted here: asking the journal before every batch would cost more with each of them.
        return CleanupProgress(
            run_id=self.run_id,
            started_at=self.started_at,
            scope=scope,
            total_candidates=self.rows.num_rows,
            processed=self.counts.processed,
            deleted=self.counts.of(*REMOVED),
            failed=self.counts.of(Outcome.FAILED),
            last_checkpoint_at=self.deployment.clock.now(),
        )

    def _left_alone(self) -> list[FailedFile]:
        """Roots that were left alone since the plan, where that kept a file, or that nobody could verify at the end."""
        if not self.validation.stopped:
            return []
        kept = self.deployment.ledger.journal.outcome_rows(self.run_id, Outcome.KEPT)
        roots = {self.roots.of(file.uri) for file, _ in kept}
        stopped = self.validation.stopped.items()
        left = [FailedFile(prefix, "LW-PLAN-005", why) for prefix, why in stopped if prefix in roots]
        late = [
            FailedFile(prefix, "LW-DOUBT-001", f"its files went, and could not be verified afterwards: {why}")
            for prefix, why in stopped
            if prefix in self.unverified and prefix not in roots
        ]
        return [*left, *late]

    def result(self, error: LakewardenError | None = None) -> RunResult:
        """What the journal says of the run."""
        done = self.deployment.ledger.journal.done(self.run_id)
        deleted, hidden, quarantined = (done.get(kind, Tally()) for kind in REMOVED)
        named = failures_of(self.deployment.ledger.journal, self.run_id)
        failed = [*named, *self._left_alone()]
        verdicts = self.plan.totals()["verdicts"].items()
        kept = {name: tally["files"] for name, tally in verdicts if name != self.plan.changing}
        revalidated = sum(done.get(kind, Tally()).files for kind in (Outcome.KEPT, Outcome.CHANGED))
        if revalidated:
            kept[REVALIDATED] = revalidated
        unfinished = sum(tally.files for tally in done.values()) < self.rows.num_rows
        status = RunStatus.PARTIAL if error or failed or unfinished else RunStatus.DONE
        if error and not self.counts.earlier and not self.counts.touched:
            status = RunStatus.FAILED
        return RunResult(
            run_id=self.run_id,
            plan_id=self.plan.plan_id,
            job=self.plan.job,
            status=status,
            changed={"files": (deleted + hidden + quarantined).files},
            deleted=deleted + hidden,
            hidden=hidden,
            absent=done.get(Outcome.ABSENT, Tally()).files,
            quarantined=quarantined,
            kept=kept,
            failed=tuple(failed),
            unnamed=done.get(Outcome.FAILED, Tally()).files - len(named),
            # The days count from the end of the run, which is later than now.
            restorable_until=self.deployment.clock.now() + promised(self.plan) if quarantined.files else None,
        )


def _copied_well(copy: FileOutcome | None) -> bool:
    """Whether the original may go: its copy is good, or none was asked for."""
    return copy is None or copy.outcome == Outcome.KEPT
