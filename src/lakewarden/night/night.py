"""A night: several jobs in the order of a day, in one process and one Spark session, and what became of each.

A job that fails or is refused stops no other, except where order is safety (dependence.py). A freeze ends the night, and
so does a signal; whatever ends it, the jobs that were not run are told with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from glob import escape

from lakewarden.jobs.registry import JOBS
from lakewarden.logs import bind
from lakewarden.model.errors import Exit, LakewardenError, Refusal
from lakewarden.model.night import JobOutcome, JobStatus, NightResult, plan_exit, status_of
from lakewarden.model.policy import Job
from lakewarden.model.run import PlanResult, RunResult
from lakewarden.night.dependence import held_back
from lakewarden.night.enabled import enabled_jobs, selected_states
from lakewarden.night.go_on import go_on
from lakewarden.night.jars import may_need_jars, start_with_jars
from lakewarden.night.names import named_jobs
from lakewarden.night.one_job import Asked, plan_job, refused_tables, run_job
from lakewarden.night.resume import resume_open_runs
from lakewarden.settings import Settings
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.job import JobSpec
from lakewarden.steps.summary import moves_to_trash

Told = Callable[[NightResult], None]
Work = Callable[[JobSpec, Asked], JobOutcome]


class Night:
    """The jobs of one night. `told` hears of the night so far as each job ends, also of those whose turn did not come."""

    def __init__(
        self,
        deployment: Deployment,
        settings: Settings,
        names: Sequence[str],
        asked: Asked,
        told: Told | None = None,
    ) -> None:
        named = named_jobs(names)  # before anything is read
        self._deployment = deployment.telling(asked.progress)
        self._settings = settings
        self._told = told or (lambda so_far: None)
        self._asked = replace(asked, enabled_only=named is None, night=deployment.new_id())
        if not may_need_jars(settings, named or JOBS.values()):
            # The JVM starts while the tables are read.
            self._deployment.warm_spark()
        self._states = {state.identifier: state for state in selected_states(deployment, self._asked)}
        self._specs = named if named is not None else enabled_jobs(deployment, self._states.values())
        self._outcomes: list[JobOutcome] = []
        self._early: list[RunResult] = []
        self._resumed: list[RunResult] = []
        self._draft = JobOutcome("", JobStatus.STOPPED)

    def run(self) -> NightResult:
        """Plan and apply each job, as its policies say."""
        states = tuple(self._states.values())
        start_with_jars(self._deployment, self._specs, states, enabled_only=self._asked.enabled_only)
        return self._each(self._run)

    def plan(self, out: str | None = None, planned: Callable[[PlanResult], None] | None = None) -> NightResult:
        """Plan each job on the lake as it is now; nothing is applied in between. `planned` is shown each plan."""

        def plan(spec: JobSpec, asked: Asked) -> JobOutcome:
            found = plan_job(self._deployment, self._settings, spec, asked, f"{out}/{spec.name}" if out else None)
            if planned is not None:
                planned(found)
            code = plan_exit(found.plan)
            status = JobStatus.REFUSED if code is Exit.REFUSED else JobStatus.PLANNED
            changes = {kind: count for kind, count in found.plan.totals()["changes"].items() if count}
            trash = bool(changes) and moves_to_trash(found.plan)
            return replace(_planned_by(spec, found), status=status, exit_code=code, planned=changes, to_trash=trash)

        return self._each(plan, changing=False)

    def _run(self, spec: JobSpec, asked: Asked) -> JobOutcome:
        left_alone = self._draft.left_alone
        states = {name: state for name, state in self._states.items() if name not in left_alone}
        for done in resume_open_runs(self._deployment, spec, asked, states, self._early.append):
            self._resumed.append(done)
        planned = plan_job(self._deployment, self._settings, spec, asked)
        self._draft = replace(_planned_by(spec, planned), left_alone=left_alone)
        first = run_job(self._deployment, spec, planned, asked, self._early.append)
        result = go_on(self._deployment, self._settings, spec, asked, first, self._early.append).result
        status = JobStatus(result.status)
        refused = first.result.refused or self._draft.refused
        ended = replace(self._draft, status=status, exit_code=result.exit_code, refused=refused)
        return replace(ended, result=result, planned=result.planned, to_trash=result.to_trash)

    def _each(self, work: Work, *, changing: bool = True) -> NightResult:
        """Every job in its turn. Raises what no job may swallow, such as a signal, after all jobs were told of."""
        for place, spec in enumerate(self._specs):
            began = self._deployment.clock.boot()
            self._early, self._resumed = [], []
            self._draft = JobOutcome(spec.name, JobStatus.STOPPED)
            try:
                outcome = self._one(spec, work, changing)
            except Exception as error:
                outcome = _failed(self._draft, error)
            except BaseException:
                self._tell(replace(self._draft, status=JobStatus.STOPPED), began)
                for left in self._specs[place + 1 :]:
                    self._early, self._resumed = [], []
                    self._tell(_skipped(left, "the night was stopped before its turn"), None)
                raise
            self._tell(outcome, began)
        return self._result()

    def _result(self) -> NightResult:
        return NightResult(str(self._asked.night), tuple(self._outcomes))

    def _one(self, spec: JobSpec, work: Work, changing: bool) -> JobOutcome:
        if not changing:
            return work(spec, self._for(spec, ()))
        if (why := self._frozen()) is not None:
            return replace(_skipped(spec, why), exit_code=Exit.REFUSED)
        held = held_back(spec, self._outcomes, self._serves)
        if held.why is not None:
            return _skipped(spec, held.why)
        left_alone = tuple(sorted(held.tables))
        if left_alone and held.tables.issuperset(self._states):
            return _skipped(spec, f"every selected table waits for an earlier job, such as {left_alone[0]}")
        self._draft = replace(self._draft, left_alone=left_alone)
        return work(spec, self._for(spec, left_alone))

    def _serves(self, job: str, table: str) -> bool:
        return JOBS[Job(job)].serves(self._deployment.format_of(table))

    def _for(self, spec: JobSpec, left_alone: Sequence[str]) -> Asked:
        progress = self._asked.progress

        def report(stage: str, done: int, total: int) -> None:
            progress(f"{spec.name}: {stage}", done, total)

        return replace(self._asked, progress=report, exclude=(*self._asked.exclude, *map(escape, left_alone)))

    def _frozen(self) -> str | None:
        frozen = self._deployment.ledger.switches.frozen()
        if frozen is None:
            return None
        return f"{frozen.who} froze this deployment on {frozen.when:%Y-%m-%d %H:%M} UTC{frozen.because}"

    def _tell(self, outcome: JobOutcome, began: float | None) -> None:
        """Enter what became of a job, with what its run had done if something ended it early."""
        seconds = self._deployment.clock.boot() - began if began is not None else 0.0
        last = self._early[-1] if self._early else None
        if outcome.result is None and last is not None:
            outcome = replace(outcome, result=last, plan_id=outcome.plan_id or last.plan_id)
        outcome = replace(outcome, seconds=seconds, resumed=tuple(self._resumed))
        self._outcomes.append(outcome)
        self._told(self._result())


def _planned_by(spec: JobSpec, planned: PlanResult) -> JobOutcome:
    return JobOutcome(
        spec.name,
        JobStatus.PLANNED,
        plan_id=planned.plan.plan_id,
        plan_path=planned.path,
        refused=refused_tables(planned),
        brakes=planned.plan.brakes,
    )


def _skipped(spec: JobSpec, why: str) -> JobOutcome:
    return JobOutcome(spec.name, JobStatus.SKIPPED, skipped_because=why)


def _failed(outcome: JobOutcome, error: Exception) -> JobOutcome:
    """A job that something ended: what it is called depends on what that says to a shell."""
    if isinstance(error, LakewardenError):
        why, code = error.refusal(), error.exit_code
    else:
        bind(job=outcome.job).debug("job failed unexpectedly", exc_info=True)
        why = Refusal(LakewardenError.code, f"unexpected {type(error).__name__}: {error}", LakewardenError.hint)
        code = Exit.FAILED
    return replace(outcome, status=status_of(code), exit_code=code, error=why)
