"""The Warden: what the command line, notebooks, schedulers and writers ask of Lakewarden."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from lakewarden.audit_questions import AuditQuestions
from lakewarden.jobs.registry import JOBS, job_named
from lakewarden.model.actor import Actor, os_user
from lakewarden.model.arguments import checks_arguments
from lakewarden.model.errors import NotFoundError, PlanEditedError, StateError
from lakewarden.model.night import NightResult
from lakewarden.model.plan import Plan
from lakewarden.model.policy import Job
from lakewarden.model.ports import Progress, unheard
from lakewarden.model.run import PlanDiff, PlanResult, RunResult
from lakewarden.model.standing import PlanState, Standing
from lakewarden.model.stop import StopToken
from lakewarden.writers_at_work import WritersAtWork

if TYPE_CHECKING:
    from lakewarden.ledger.runs import Run
    from lakewarden.model.cost import Cost
    from lakewarden.model.drill import DrillResult
    from lakewarden.model.forecast import Forecast
    from lakewarden.night.one_job import Asked
    from lakewarden.parts import Parts
    from lakewarden.reports.check import Answer, Waiting
    from lakewarden.reports.page import WrittenReport
    from lakewarden.settings import Settings
    from lakewarden.steps.deployment import Deployment
    from lakewarden.steps.observe.given_up import GivenUp

# How long `check` waits for a catalog, a store, the state and Java each. Spark has its own time.
CHECK_SECONDS = 15.0


@checks_arguments
class Warden(AuditQuestions, WritersAtWork):
    """One deployment: its catalogs, its state, its policies. Every method raises LakewardenError and nothing else.

    A context manager: leaving it lets go of the state database.
    """

    def __init__(self, parts: Parts, settings: Settings, stop: StopToken | None = None) -> None:
        self._parts = parts
        self._settings = settings
        self._stop = stop or StopToken()

    @property
    def _deployment(self) -> Deployment:
        return self._parts.deployment

    @property
    def worker(self) -> str:
        return self._settings.worker.id

    def stopped_by(self, stop: StopToken) -> Warden:
        """The same worker, whose work ends by raising `Stopped` at its next place to stop, once `stop` is requested."""
        return Warden(self._parts, self._settings, stop)

    def _heard(self, progress: Progress | None) -> Progress:
        return self._stop.at_each(progress or unheard)

    def actor(self) -> Actor:
        """Who asks when nobody is named: the operating system's user."""
        return Actor(os_user(), self.worker)

    def plan(
        self,
        job: str,
        *,
        select: str | Sequence[str] = (),
        exclude: str | Sequence[str] = (),
        out: str | None = None,
        actor: Actor | None = None,
        unsafe_short_grace: str | Sequence[str] = (),
        progress: Progress | None = None,
    ) -> PlanResult:
        """Decide, and write it down. Changes nothing."""
        from lakewarden.night.one_job import plan_job

        asked = self._asked(select, exclude, actor, progress, unsafe_short_grace=unsafe_short_grace)
        return plan_job(self._deployment, self._settings, job_named(job), asked, out)

    def _asked(
        self,
        select: Sequence[str],
        exclude: Sequence[str],
        actor: Actor | None,
        progress: Progress | None,
        **more: Any,
    ) -> Asked:
        from lakewarden.night.one_job import Asked

        told = self._heard(progress)
        return Asked(actor or self.actor(), told, tuple(select), tuple(exclude), stop=self._stop, **more)

    def apply(
        self,
        plan: str | PlanResult,
        *,
        actor: Actor | None = None,
        override_brakes: str | Sequence[str] = (),
        progress: Progress | None = None,
        wait: float | None = None,
    ) -> RunResult:
        """Do what a plan says, once, and only ever less than it says.

        A PlanResult is that plan and no other: a plan that was put into its place meanwhile is not applied.
        `wait`: seconds to wait for a lease that is held. Unless given, a holder that is at work is reported as soon as
        it is seen to be, and a silent one is succeeded when its lease has run out.
        """
        from lakewarden.night.one_job import apply_plan
        from lakewarden.steps.apply.claim import Terms

        result = self.load_plan(plan.path if isinstance(plan, PlanResult) else plan)
        if isinstance(plan, PlanResult) and result.plan.plan_id != plan.plan.plan_id:
            raise PlanEditedError(
                f"plan {plan.plan.plan_id} was chosen, and plan {result.plan.plan_id} lies in {plan.path} by now; "
                "nothing was done",
                hint=f"Look at it: `lakewarden show {shlex.quote(plan.path)}`. What a plan says is applied by its own name only.",
            )
        asked = self._asked((), (), actor, progress, wait=wait)
        terms = Terms(lifted=tuple(override_brakes))
        return apply_plan(self._deployment, job_named(result.plan.job), result, asked, terms)

    def run(
        self,
        job: str,
        *,
        select: str | Sequence[str] = (),
        exclude: str | Sequence[str] = (),
        actor: Actor | None = None,
        progress: Progress | None = None,
        wait: float | None = None,
    ) -> RunResult:
        """Plan and, where `dry_run` does not say otherwise, apply; a job that repeats, until nothing is left to do."""
        from lakewarden.night.go_on import go_on
        from lakewarden.night.one_job import plan_job, run_job

        spec, asked = job_named(job), self._asked(select, exclude, actor, progress, wait=wait)
        first = run_job(self._deployment, spec, plan_job(self._deployment, self._settings, spec, asked), asked)
        return go_on(self._deployment, self._settings, spec, asked, first).result

    def night(
        self,
        jobs: str | Sequence[str] = ("all",),
        *,
        select: str | Sequence[str] = (),
        exclude: str | Sequence[str] = (),
        actor: Actor | None = None,
        progress: Progress | None = None,
        wait: float | None = None,
        told: Callable[[NightResult], None] | None = None,
    ) -> NightResult:
        """Run several jobs, or `all` that are enabled, in the order of a day. No job's failure is raised.

        `told` hears of the night so far as each job ends. Whatever ends the night early, such as KeyboardInterrupt, is
        raised after `told` has heard of every job, also of those whose turn did not come.
        """
        from lakewarden.night.night import Night

        asked = self._asked(select, exclude, actor, progress, wait=wait)
        return Night(self._deployment, self._settings, tuple(jobs), asked, told).run()

    def plan_night(
        self,
        jobs: str | Sequence[str] = ("all",),
        *,
        select: str | Sequence[str] = (),
        exclude: str | Sequence[str] = (),
        out: str | None = None,
        actor: Actor | None = None,
        unsafe_short_grace: str | Sequence[str] = (),
        progress: Progress | None = None,
        planned: Callable[[PlanResult], None] | None = None,
    ) -> NightResult:
        """Plan the same jobs, each on the lake as it is now, into a directory of its own. Changes nothing."""
        from lakewarden.night.night import Night

        asked = self._asked(select, exclude, actor, progress, unsafe_short_grace=unsafe_short_grace)
        return Night(self._deployment, self._settings, tuple(jobs), asked).plan(out, planned)

    def load_plan(self, plan_dir: str) -> PlanResult:
        from lakewarden.steps.plan.files import load_plan

        return load_plan(self._parts.stores, plan_dir)

    def standing(self, plan: Plan) -> Standing:
        """What became of a plan, and whether it can be applied now. A state that cannot be asked makes it unknown."""
        from lakewarden.reports.standing import standing_of

        try:
            spec, now, catalogs = job_named(plan.job), self._parts.clock.now(), self._settings.catalogs
            return standing_of(plan, self._parts.ledger, spec, catalogs, now, self._as_shown)
        except StateError as error:
            return Standing(PlanState.UNKNOWN, why=str(error))

    def plan_rows(
        self, plan_dir: str, verdict: str | None = None, limit: int | None = None
    ) -> Iterator[Mapping[str, Any]]:
        from lakewarden.steps.plan.rows import plan_rows

        return plan_rows(self._parts.stores, self.load_plan(plan_dir), verdict, limit)

    def diff(self, plan_a: str, plan_b: str) -> PlanDiff:
        from lakewarden.steps.plan.diff import diff

        return diff(self._parts.stores, self.load_plan(plan_a), self.load_plan(plan_b))

    def runs(self, limit: int = 20) -> list[dict[str, Any]]:
        from lakewarden.reports.runs import run_facts

        return [run_facts(self._as_shown(run), JOBS) for run in self._parts.ledger.runs.list(limit)]

    def run_detail(self, run_id: str) -> dict[str, Any]:
        from lakewarden.reports.runs import run_in_full

        run = self._parts.ledger.runs.get(run_id)
        if run is None:
            raise NotFoundError(f"there is no run {run_id}")
        return run_in_full(self._parts.ledger, self._as_shown(run), JOBS)

    def _as_shown(self, run: Run) -> Run:
        """The run with its status as it is by now. Only a run that seems to be at work needs a look at the stores."""
        if run.finished_at is not None:
            return run
        from lakewarden.ledger.run_status import as_shown

        return as_shown(run, self._parts.leases, self._parts.clock.now())

    def restore(
        self, run_id: str, actor: Actor | None = None, wait: float | None = None, progress: Progress | None = None
    ) -> RunResult:
        from lakewarden.jobs.stale_branches.restore import restore_branches
        from lakewarden.steps.apply.restore import restore_run

        run = self._parts.ledger.runs.get(run_id)
        restore = restore_branches if run is not None and run.job == Job.STALE_BRANCHES else restore_run
        return restore(self._deployment.waiting(wait), run_id, actor or self.actor(), self._heard(progress))

    def restore_cold(
        self,
        snapshot: str,
        table: str,
        actor: Actor | None = None,
        progress: Progress | None = None,
        wait: float | None = None,
    ) -> RunResult:
        """Bring a snapshot back from the cold tier, as a new table `catalog.namespace.name`."""
        from lakewarden.jobs.tier_handoff.restore import restore_cold

        deployment = self._deployment.waiting(wait)
        return restore_cold(deployment, snapshot, table, actor or self.actor(), self._heard(progress))

    def restore_drill(self, progress: Progress | None = None, wait: float | None = None) -> DrillResult:
        """Bring a quarantined file and a cold snapshot back to a place of the drill's own, compare, and clear it."""
        from lakewarden.night.restore_drill import restore_drill

        most = self._settings.restore_drill.max_megabytes
        return restore_drill(self._deployment.waiting(wait), most, self._heard(progress))

    def would_abandon(self, uuid: str) -> GivenUp:
        """What abandoning a table would leave unprotected. Raises as `abandon` does, and changes nothing."""
        from lakewarden.steps.observe.given_up import what_is_given_up

        return what_is_given_up(self._deployment, uuid)

    def abandon(self, uuid: str, reason: str, actor: Actor | None = None) -> GivenUp:
        """Let the files of a table that no catalog lists any more count as nobody's. Recorded.

        Raises TableListedError for a table that a catalog lists, NotFoundError for one of which nothing is there.
        """
        given_up = self.would_abandon(uuid)
        self._parts.ledger.switches.abandon(uuid, actor or self.actor(), reason)
        return given_up

    def take_back(self, uuid: str, reason: str = "", actor: Actor | None = None) -> None:
        """Protect an abandoned table again, from the next plan on. Recorded."""
        from lakewarden.steps.observe.given_up import take_back

        take_back(self._parts.ledger, uuid, actor or self.actor(), reason)

    def would_forget(self, identifier: str) -> list[str]:
        """The directories that are left alone for the sake of a table. Raises as `forget` does, and changes nothing."""
        from lakewarden.steps.observe.given_up import places_of, remembered

        return places_of(remembered(self._parts.ledger, identifier))

    def forget(self, identifier: str, reason: str, actor: Actor | None = None) -> list[str]:
        """Forget what was seen of a table that was dropped, emptied or set back on purpose. Recorded.

        Answers with the directories that were protected for its sake. What its metadata names today stays protected.
        """
        from lakewarden.steps.observe.given_up import forget

        return forget(self._parts.ledger, identifier, actor or self.actor(), reason)

    def tables(self) -> list[dict[str, Any]]:
        from lakewarden.reports.tables import tables

        return tables(self._deployment)

    def policy(self, identifier: str, job: str = Job.ORPHAN_CLEANUP) -> Mapping[str, tuple[Any, str]]:
        """One job's values in effect for a table, each with the place that set it."""
        return self.policies(identifier)[job_named(job).name]

    def policies(self, identifier: str) -> Mapping[str, Mapping[str, tuple[Any, str]]]:
        """The same for every job."""
        from lakewarden.reports.tables import find_table

        state, policy_for = find_table(self._deployment, identifier), self._settings.policy_for
        return {str(job): policy_for(job, identifier, state.properties, uuid=state.uuid).sources() for job in JOBS}

    def check(
        self, *, spark: bool = True, timeout: float = CHECK_SECONDS, waiting: Waiting | None = None
    ) -> Iterator[Answer]:
        """Ask every part that the configuration names, all at once, each for `timeout` seconds at most."""
        from lakewarden.reports.check import answered, ask_all

        yield answered("configuration", self._settings.found())
        yield from ask_all(self._parts.questions(spark, timeout), waiting or (lambda parts: None))

    def doctor(self) -> dict[str, Any]:
        from lakewarden.reports.doctor import examine

        return examine(self._deployment)

    def forecast(
        self, *, select: str | Sequence[str] = (), exclude: str | Sequence[str] = (), progress: Progress | None = None
    ) -> Forecast:
        """What snapshot expiry would release of the tables that match, at each of several retentions. Changes nothing."""
        from lakewarden.reports.forecast import forecast

        with self._deployment.stopped_by(self._stop) as deployment:
            return forecast(deployment, tuple(select), tuple(exclude), self._heard(progress))

    def report(
        self,
        out: str,
        *,
        select: str | Sequence[str] = (),
        exclude: str | Sequence[str] = (),
        with_forecast: bool = True,
        progress: Progress | None = None,
    ) -> WrittenReport:
        """Write one HTML page about the fleet. Changes nothing. `with_forecast`: with a part for which Spark is started."""
        from lakewarden.reports.page import write_report

        chosen, told = (tuple(select), tuple(exclude)), self._heard(progress)
        with self._deployment.stopped_by(self._stop) as deployment:
            return write_report(deployment, out, JOBS, *chosen, with_forecast=with_forecast, progress=told)

    @property
    def cost(self) -> Cost:
        """The prices of `[cost]`."""
        return self._settings.cost.prices

    def explain(self, uri: str) -> dict[str, Any]:
        from lakewarden.reports.explain import explain

        return explain(self._deployment, uri)

    def leases(self) -> list[dict[str, Any]]:
        from lakewarden.reports.runs import leases_as_shown

        return leases_as_shown(self._parts.leases, self._parts.clock.now())

    def release_lease(self, key: str, reason: str, actor: Actor | None = None) -> None:
        self._parts.leases.force_release(key, reason, (actor or self.actor()).operator)

    def freeze(self, actor: Actor | None = None, reason: str = "") -> None:
        self._parts.ledger.switches.freeze(actor or self.actor(), reason)

    def unfreeze(self, actor: Actor | None = None) -> bool:
        """Let the workers go on. Whether anything kept them from it."""
        return self._parts.ledger.switches.unfreeze(actor or self.actor())

    @property
    def textfile(self) -> str | None:
        """Where `[metrics]` wants the metrics after each command."""
        return self._settings.metrics.textfile

    def metrics(self, out: str | None = None) -> str:
        """What was counted until now, in the text format of Prometheus; also written to a file, where one is named."""
        from lakewarden.reports.metrics import exposition, write_textfile

        text = exposition(self._parts.ledger, self._parts.leases, self._parts.clock.now())
        if out is not None:
            write_textfile(out, text)
        return text.decode()

    def close(self) -> None:
        self._parts.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
