"""What each kind of request means: a call of the worker, and what its result says of the request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import timedelta

from lakewarden.jobs.registry import JOBS, job_named
from lakewarden.ledger.requests import SCHEDULED, Ended, Request, error_values
from lakewarden.model.errors import DrillFailedError, Exit, LakewardenError, PlanEditedError, Refusal
from lakewarden.model.night import JobOutcome, JobStatus
from lakewarden.model.run import PlanResult, RunResult, RunStatus
from lakewarden.model.service import RequestKind, RequestStatus
from lakewarden.model.stop import StopToken
from lakewarden.night.dependence import alarms
from lakewarden.night.enabled import enabled_jobs, selected_states
from lakewarden.night.names import named_jobs
from lakewarden.night.one_job import Asked, plan_job
from lakewarden.night.scheduled import ScheduledRun, go_through, run_enabled
from lakewarden.service.approval import AS_RUN, MOST_WAITING, UNATTENDED, may_apply, needs_approval
from lakewarden.service.observe import observe
from lakewarden.service.runner.told import Told
from lakewarden.settings import Settings
from lakewarden.steps.deployment import Deployment
from lakewarden.warden import Warden

_STATUSES = {
    RunStatus.DONE: RequestStatus.DONE,
    RunStatus.PLANNED: RequestStatus.DONE,
    RunStatus.PARTIAL: RequestStatus.PARTIAL,
    RunStatus.REFUSED: RequestStatus.REFUSED,
    RunStatus.FAILED: RequestStatus.FAILED,
}
# An earlier job counts for a later one of the same day; older outcomes say nothing of today.
_COUNTS_FOR = timedelta(hours=26)
CHANGING = (RequestKind.RUN, RequestKind.APPLY)
SKIPPED = "skipped_because"


@dataclass(frozen=True, slots=True)
class Execution:
    """One request at work."""

    deployment: Deployment
    settings: Settings
    warden: Warden
    request: Request
    worker: str
    told: Told
    stop: StopToken

    def ended(self) -> Ended:
        """Do it. Raises Stopped where it was asked to end early; every error of ours is what came of the request."""
        try:
            return _KINDS[self.request.kind](self)
        except LakewardenError as error:
            return ended_by(error)

    @property
    def asked(self) -> Asked:
        given = self.request.arguments
        return Asked(
            self.request.actor,
            self.stop.at_each(self.told),
            tuple(given.get("select") or ()),
            tuple(given.get("exclude") or ()),
            stop=self.stop,
            within=tuple(given.get("within") or ()),
        )

    def plan(self) -> Ended:
        spec = job_named(self.request.job or "")
        planned = plan_job(self.deployment, self.settings, spec, self.asked)
        refused = bool(planned.plan.tables) and all(table.refusal for table in planned.plan.tables)
        status = RequestStatus.REFUSED if refused else RequestStatus.DONE
        if needs_approval(planned.plan):
            status = RequestStatus.WAITING
        return self._of_plan(status, planned)

    def run(self) -> Ended:
        spec = job_named(self.request.job or "")
        if (before := self._begun()) is not None:
            return before
        if self.request.arguments.get(UNATTENDED):
            found = run_enabled(
                self.deployment, self.settings, spec, self.asked, self._outcomes_before(), self._may_apply
            )
        else:
            planned = plan_job(self.deployment, self.settings, spec, self.asked)
            found = go_through(self.deployment, self.settings, spec, self.asked, planned, self._may_apply)
        return self._of_run(found)

    def apply(self) -> Ended:
        given = self.request.arguments
        if (before := self._begun()) is not None:
            return before
        planned = self._load(str(given["plan"]))
        plan_id = planned.plan.plan_id
        brakes = tuple(given.get("override_brakes") or ())
        decided = self.deployment.ledger.approvals.get(plan_id)
        if not may_apply(planned.plan, decided, brakes):
            self.told.event("waiting", {"plan": plan_id})
            return self._of_plan(RequestStatus.WAITING, planned)
        self._note(planned)
        if decided is not None:
            self.told.event("approved", {"by": decided.actor.operator, "at": decided.at.isoformat()})
        if given.get(AS_RUN):
            spec = job_named(planned.plan.job)
            return self._of_run(
                go_through(self.deployment, self.settings, replace(spec, repeats=False), self.asked, planned, _always)
            )
        worker = self.warden.stopped_by(self.stop)
        return _of_result(
            worker.apply(planned, actor=self.request.actor, override_brakes=brakes, progress=self.told), planned
        )

    def night(self) -> Ended:
        """Several jobs in the order of a day: a request each, so that each can wait, be cancelled and be taken over."""
        given, ledger = self.request.arguments, self.deployment.ledger
        named = named_jobs(tuple(given.get("jobs") or ("all",)))
        specs = named or enabled_jobs(self.deployment, selected_states(self.deployment, self.asked))
        chosen = {key: list(given[key]) for key in ("select", "exclude") if given.get(key)}
        made = [
            ledger.requests.create(
                self.deployment.new_id(),
                RequestKind.RUN,
                self.request.actor,
                job=str(spec.name),
                arguments={UNATTENDED: named is None, **chosen},
                # As a scheduled one, each waits for the jobs before it.
                idempotency_key=f"{SCHEDULED}{spec.name}/night-{self.request.request_id}",
            )
            for spec in specs
        ]
        return Ended(RequestStatus.DONE, result={"requests": {str(one.job): one.request_id for one in made}})

    def observe(self) -> Ended:
        return Ended(RequestStatus.DONE, result=observe(self.deployment, self.settings))

    def restore(self) -> Ended:
        worker = self.warden.stopped_by(self.stop)
        run_id = str(self.request.arguments["run_id"])
        return _of_result(worker.restore(run_id, self.request.actor, progress=self.told))

    def restore_cold(self) -> Ended:
        given, worker = self.request.arguments, self.warden.stopped_by(self.stop)
        snapshot, table = str(given["snapshot"]), str(given["table"])
        return _of_result(worker.restore_cold(snapshot, table, self.request.actor, self.told))

    def restore_drill(self) -> Ended:
        found = self.warden.stopped_by(self.stop).restore_drill(self.told)
        if not found.failed:
            return Ended(RequestStatus.DONE, result=found.as_json())
        first = found.failed[0]
        error = DrillFailedError(f"{first.what} did not come back: {(first.error or {}).get('message', '')}")
        return Ended(RequestStatus.FAILED, result=found.as_json(), error=error_values(error))

    def forecast(self) -> Ended:
        worker = self.warden.stopped_by(self.stop)
        found = worker.forecast(select=self.asked.select, exclude=self.asked.exclude, progress=self.told)
        classes = {table.identifier: [asdict(one) for one in table.classes] for table in found.tables}
        return Ended(RequestStatus.DONE, result={**found.as_json(), "classes": classes})

    def audit(self) -> Ended:
        """What became of a file, or who wrote it, where the request names one; else whether the journal is whole."""
        given = self.request.arguments
        if (uri := given.get("uri")) is not None:
            ask = self.warden.audit_origin if given.get("question") == "origin" else self.warden.explain
            return Ended(RequestStatus.DONE, result=ask(str(uri)))
        run_id = given.get("run_id")
        found = self.warden.audit_verify(str(run_id) if run_id else None)
        return Ended(RequestStatus.DONE if found["ok"] else RequestStatus.FAILED, result=found)

    def _begun(self) -> Ended | None:
        """What a runner before this one, which died or was told to end, has made of the request; None: it has to be begun.

        A run that was begun goes on with its own plan and terms. One that was over has its result on record.
        """
        if self.request.plan_path is None or self.request.plan_id is None:
            return None
        ledger = self.deployment.ledger
        saved = ledger.plans.get(self.request.plan_id)
        run = ledger.runs.get(saved.used_by) if saved is not None and saved.used_by else None
        if run is not None and run.finished_at is not None and run.result is not None:
            return _of_result(RunResult.of(run.result))
        planned = self._load(self.request.plan_path)
        self.told.event("taken up again", {"plan": planned.plan.plan_id, "run": run.run_id if run else None})
        spec = replace(job_named(planned.plan.job), repeats=False)
        if run is not None:
            worker = self.warden.stopped_by(self.stop)
            return _of_result(worker.apply(planned, actor=self.request.actor, progress=self.told), planned)
        if self.request.kind is RequestKind.RUN and self.deployment.clock.now() < planned.plan.expires_at:
            return self._of_run(go_through(self.deployment, self.settings, spec, self.asked, planned, self._may_apply))
        return None

    def _load(self, path: str) -> PlanResult:
        """The plan that the request is about. Raises PlanEditedError where another one lies in its place by now."""
        found = self.warden.load_plan(path)
        if self.request.plan_id not in (None, found.plan.plan_id):
            raise PlanEditedError(
                f"plan {found.plan.plan_id} lies in the place of plan {self.request.plan_id}, which was asked for; "
                "nothing was done"
            )
        return found

    def _may_apply(self, planned: PlanResult) -> bool:
        self._note(planned)
        return may_apply(planned.plan, self.deployment.ledger.approvals.get(planned.plan.plan_id))

    def _note(self, planned: PlanResult) -> None:
        plan_id = planned.plan.plan_id
        ledger = self.deployment.ledger
        ledger.requests.note(self.request.request_id, self.worker, plan_id=plan_id, plan_path=planned.path)
        self.told.event("planned", {"plan": plan_id, "changes": planned.plan.totals()["changes"]})

    def _outcomes_before(self) -> list[JobOutcome]:
        """What became of every other job, as far as it counts for this one: of its last unattended run (nothing, while its
        plan waits for somebody to agree), and of whatever ended last where that was an alarm, by whomever it was asked for."""
        ledger, since = self.deployment.ledger, self.deployment.clock.now() - _COUNTS_FOR
        waiting = ledger.requests.list(status=[RequestStatus.WAITING], kind=RequestKind.RUN, limit=MOST_WAITING)
        undone = {one.job for one in waiting if one.arguments.get(UNATTENDED)}
        found = []
        for job in JOBS:
            over = ledger.requests.ended_since(str(job), CHANGING, since) if job != self.request.job else []
            newest = next((outcome_of(one) for one in over if one.arguments.get(UNATTENDED)), None)
            if str(job) in undone and job != self.request.job:
                newest = JobOutcome(str(job), JobStatus.SKIPPED)
            found += [newest] if newest is not None else []
            found += [last for last in map(outcome_of, over[:1]) if alarms(last) and last != newest]
        return found

    def _of_run(self, found: ScheduledRun) -> Ended:
        if found.held_back is not None:
            return Ended(RequestStatus.REFUSED, result={SKIPPED: found.held_back})
        assert found.planned is not None
        if found.result is None:
            return self._of_plan(RequestStatus.WAITING, found.planned)
        return _of_result(found.result, found.planned)

    def _of_plan(self, status: RequestStatus, planned: PlanResult) -> Ended:
        totals = planned.plan.totals()
        refused = sum(table.refusal is not None for table in planned.plan.tables)
        result = {"status": "planned", "changes": totals["changes"], "verdicts": totals["verdicts"], "refused": refused}
        return Ended(status, plan_id=planned.plan.plan_id, plan_path=planned.path, result=result)


def _always(planned: PlanResult) -> bool:
    return True


def _of_result(result: RunResult, planned: PlanResult | None = None) -> Ended:
    return Ended(
        _STATUSES[RunStatus(result.status)],
        run_id=result.run_id,
        plan_id=planned.plan.plan_id if planned else result.plan_id or None,
        plan_path=planned.path if planned else None,
        result=result.as_json(),
    )


def ended_by(error: LakewardenError) -> Ended:
    """What a request is called that an error ended."""
    refused = error.exit_code in (Exit.REFUSED, Exit.STALE, Exit.USAGE, Exit.NOT_FOUND)
    return Ended(RequestStatus.REFUSED if refused else RequestStatus.FAILED, error=error_values(error))


def outcome_of(request: Request) -> JobOutcome:
    """A request that is over, as a night would tell of it."""
    error = Refusal(**request.error) if request.error else None
    if request.result is not None and "run_id" in request.result:
        result = RunResult.of(request.result)
        return JobOutcome(
            str(request.job), JobStatus(result.status), result=result, refused=result.refused, error=error
        )
    return JobOutcome(str(request.job), JobStatus.FAILED if error else JobStatus.SKIPPED, error=error)


_KINDS: Mapping[RequestKind, Callable[[Execution], Ended]] = {
    RequestKind.PLAN: Execution.plan,
    RequestKind.RUN: Execution.run,
    RequestKind.APPLY: Execution.apply,
    RequestKind.NIGHT: Execution.night,
    RequestKind.OBSERVE: Execution.observe,
    RequestKind.RESTORE: Execution.restore,
    RequestKind.RESTORE_COLD: Execution.restore_cold,
    RequestKind.RESTORE_DRILL: Execution.restore_drill,
    RequestKind.FORECAST: Execution.forecast,
    RequestKind.AUDIT: Execution.audit,
}
