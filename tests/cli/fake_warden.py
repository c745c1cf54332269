"""A worker in memory behind the commands, which records what it was asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from lakewarden.cli.signals import command
from lakewarden.jobs.registry import JOBS
from lakewarden.ledger.runs import Run
from lakewarden.model.actor import Actor
from lakewarden.model.errors import NotFoundError, Refusal
from lakewarden.model.night import JobOutcome, NightResult
from lakewarden.model.plan import Plan, TablePlan, Tally
from lakewarden.model.run import PlanDiff, PlanResult, RunResult, RunStatus
from lakewarden.model.standing import Standing, unused
from lakewarden.model.table import Ref
from lakewarden.reports.page import WrittenReport
from lakewarden.reports.runs import run_facts
from lakewarden.steps.observe.given_up import GivenUp

NOW = datetime(2026, 11, 15, 6, 0, 4, tzinfo=UTC)
REFUSAL = Refusal("LW-TABLE-002", "manifest m1.avro is cut", "Restore m1.avro from a backup.")


def table(name: str, *, orphans: int = 0, refusal: Refusal | None = None, delete_mode: str = "remove") -> TablePlan:
    """A table with ten live files, one too new, and some orphans of one GiB each."""
    verdicts = {"live": Tally(10, 10 * 2**30), "too_new": Tally(1, 2**20), "orphan": Tally(orphans, orphans * 2**30)}
    refs = (Ref("main", 1, "branch"), Ref("v1", 1, "tag"))
    values = {"grace_period_hours": 168, "max_orphan_share": 0.25, "delete_mode": delete_mode}
    return TablePlan(
        name, f"uuid-{name}", "iceberg", f"s3://b/{name}/m.json", refs, refusal, verdicts,
        changes={} if refusal else {"files": orphans}, policy=values,
    )  # fmt: skip


def plan_of(*tables: TablePlan, brakes: Mapping[str, tuple[str, ...]] | None = None) -> Plan:
    actor, later, before = Actor("ada", "host-1"), NOW + timedelta(days=1), NOW - timedelta(days=7)
    return Plan("orphan-cleanup", NOW, later, before, actor, tables, (), (), brakes=brakes or {}).sealed()


def doctor_report(refused: int = 1, attention: int = 0, healthy: int = 1, **more: Any) -> dict[str, Any]:
    """A doctor's report on so many tables, with a password in the words of a refusal."""
    names = [f"prod.space_{i % 7}.table_{i:04}" for i in range(refused + attention + healthy)]
    bad = [
        {
            "code": f"LW-TABLE-{code:03}", "count": len(part), "alike": len(part) == 1, "tables": part,
            "message": f"manifest m{code}.avro of https://u:hunter2@h is cut: it has 12 of 8,192 bytes; nothing was touched",
            "hint": "Restore the manifest from a backup, then plan again.",
        }
        for code in range(1, 10) if (part := names[:refused][code - 1 :: 9])
    ]  # fmt: skip
    look = names[refused : refused + attention]
    group = {"code": "never planned", "count": attention, "alike": True, "message": "orphan cleanup has not looked at it yet",
             "hint": "Run lakewarden plan orphans.", "tables": look}  # fmt: skip
    return {
        "tables": len(names), "roots": len(names), "frozen": None, "refused": [], "refused_by_code": bad,
        "health": {"refused": refused, "attention": attention, "healthy": healthy},
        "attention": [group] if look else [], "doubts": [], "shared_roots": [], "nested_roots": [], "forks": [],
        "unknown_uuids": [], "missing_live_files": [], "broken_refs": [], "never_maintained": look,
        "reclaimable": {"files": 3, "bytes": 3 << 30}, "newest_plan": None, "stale_leases": [], "open_intents": [],
        "pending": {"files": 0, "bytes": 0, "tables": 0, "oldest": None}, "forgotten_runs": [], **more,
    }  # fmt: skip


@dataclass
class FakeWarden:
    """What the worker promises, without a lake."""

    tables_planned: Sequence[TablePlan] = (table("prod.a.t", orphans=3),)
    result: RunResult = field(
        default_factory=lambda: RunResult(
            "run-1", "plan-1", "orphan-cleanup", RunStatus.DONE, {"files": 3}, Tally(3, 3 * 2**30)
        )
    )
    outcomes: Sequence[JobOutcome] = ()
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    brakes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    stands: Standing | None = None
    during: Callable[[str], None] = lambda _: None
    worker: str = "host-1"

    def _called(self, name: str, **given: Any) -> None:
        progress = given.pop("progress", None)
        self.calls.append((name, given))
        self.during(name)
        if progress:
            for done in (1, 2):
                progress("batches", done, 2)
                command().stop.check()

    def plan(self, job: str, **given: Any) -> PlanResult:
        self._called("plan", job=job, **given)
        return PlanResult(plan_of(*self.tables_planned, brakes=self.brakes), "state/plans/p 1")

    def load_plan(self, plan_dir: str) -> PlanResult:
        self._called("load_plan", plan_dir=plan_dir)
        if plan_dir == "nowhere":
            raise NotFoundError("there is no plan nowhere")
        return PlanResult(plan_of(*self.tables_planned, brakes=self.brakes), plan_dir)

    def standing(self, plan: Plan) -> Standing:
        return self.stands or unused(plan)

    def apply(self, plan_dir: str | PlanResult, **given: Any) -> RunResult:
        self._called("apply", plan_dir=plan_dir, **given)
        return self.result

    def run(self, job: str, **given: Any) -> RunResult:
        self._called("run", job=job, **given)
        return self.result

    def night(self, jobs: Sequence[str], *, told: Callable[[NightResult], None], **given: Any) -> NightResult:
        outcomes: list[JobOutcome] = []
        for outcome in self.outcomes:
            outcomes.append(outcome)
            told(NightResult("night-1", tuple(outcomes)))
        self._called("night", jobs=list(jobs), **given)
        return NightResult("night-1", tuple(outcomes))

    def plan_night(self, jobs: Sequence[str], *, planned: Callable[[PlanResult], None], **given: Any) -> NightResult:
        self._called("plan_night", jobs=list(jobs), **given)
        planned(PlanResult(plan_of(*self.tables_planned), "state/plans/p 1"))
        return NightResult("night-1", tuple(self.outcomes))

    def report(self, out: str, **given: Any) -> WrittenReport:
        self._called("report", out=out, **given)
        return WrittenReport(out, 2048, 3)

    def plan_rows(
        self, plan_dir: str, verdict: str | None = None, limit: int | None = None
    ) -> Iterator[dict[str, Any]]:
        self._called("plan_rows", verdict=verdict, limit=limit)
        yield {"uri": "s3://b/t/[red]x\x1b[31m.parquet", "table": "prod.a.t", "verdict": "orphan", "kind": "data",
               "size": 2048, "modified": NOW, "reason": "no snapshot reaches it"}  # fmt: skip

    def diff(self, plan_a: str, plan_b: str) -> PlanDiff:
        return PlanDiff(["s3://b/new"], ["s3://b/old"], ["prod.a.t"])

    def runs(self, limit: int) -> list[dict[str, Any]]:
        self._called("runs", limit=limit)
        return [run_facts(self._run, JOBS)]

    def run_detail(self, run_id: str) -> dict[str, Any]:
        if run_id != "run-1":
            raise NotFoundError(f"there is no run {run_id}")
        step = {"name": "started", "detail": {"by": "ada", "overrides": []}, "at": NOW.isoformat()}
        more = {"steps": [step], "outcomes": {}, "open_batches": [], "progress": None}
        return {**run_facts(self._run, JOBS), **more}

    @property
    def _run(self) -> Run:
        actor, result = Actor("ada", "host-1"), self.result.as_json()
        return Run("run-1", self.result.job, "plan-1", str(self.result.status), actor, NOW, NOW, result)

    def restore(self, run_id: str, actor: Actor, wait: float | None = None, progress: Any = None) -> RunResult:
        self._called("restore", run_id=run_id, actor=actor, wait=wait, progress=progress)
        return self.result

    def restore_cold(
        self, snapshot: str, table: str, actor: Actor, progress: Any = None, wait: float | None = None
    ) -> RunResult:
        self._called("restore_cold", snapshot=snapshot, table=table, actor=actor, progress=progress, wait=wait)
        return self.result

    def would_abandon(self, uuid: str) -> GivenUp:
        return GivenUp(
            uuid, ("prod.a.gone",), {"s3://b/t/": 2}, "s3://b/t/metadata/1.metadata.json", ("s3://b/u/",), ()
        )

    def abandon(self, uuid: str, reason: str, actor: Actor) -> GivenUp:
        self._called("abandon", uuid=uuid, reason=reason, actor=actor)
        return self.would_abandon(uuid)

    def take_back(self, uuid: str, reason: str, actor: Actor) -> None:
        self._called("take_back", uuid=uuid, reason=reason, actor=actor)

    def would_forget(self, identifier: str) -> list[str]:
        return ["s3://lake/orders/"]

    def forget(self, identifier: str, reason: str, actor: Actor) -> list[str]:
        self._called("forget", identifier=identifier, reason=reason, actor=actor)
        return ["s3://lake/orders/"]

    def tables(self) -> list[dict[str, Any]]:
        common = {
            "format": "iceberg",
            "uuid": "u",
            "format_version": 2,
            "location": "s3://b/t",
            "snapshots": 4,
            "refs": 1,
        }
        refused = {"code": REFUSAL.code, "message": REFUSAL.message, "hint": REFUSAL.hint}
        return [{"identifier": "prod.a.t", **common, "status": "ok", "refusal": None},
                {"identifier": "prod.a.bad", **common, "status": "refused", "refusal": refused}]  # fmt: skip

    def policies(self, identifier: str) -> dict[str, dict[str, tuple[Any, str]]]:
        return {"orphan-cleanup": self._policy(), "snapshot-expiry": {"retain_min": (3, "default")}}

    def _policy(self) -> dict[str, tuple[Any, str]]:
        return {
            "dry_run": (True, "default"),
            "delete_mode": ("remove", "x.toml [orphan_cleanup]"),
            "api_token": ("hunter2", "x"),
        }

    def doctor(self) -> dict[str, Any]:
        return doctor_report()

    def explain(self, uri: str) -> dict[str, Any]:
        way = {
            "table": "prod.a.b",
            "refs": ["main", "v1"],
            "snapshot_id": 7,
            "manifest": "s3://b/m.avro",
            "by": "manifest",
        }
        return {"uri": uri, "status": "live", "exists": True, "live_through": [way], "ways": 3}

    def leases(self) -> list[dict[str, Any]]:
        common = {"holder": "host-2", "epoch": 4, "renewed_at": NOW.isoformat(), "ttl_seconds": 60.0}
        return [{"key": "root/s3://b/t/", "state": "held", **common}, {"key": "run/r1", "state": "released", **common}]

    def release_lease(self, key: str, reason: str, actor: Actor) -> None:
        self._called("release_lease", key=key, reason=reason, actor=actor)

    def freeze(self, actor: Actor, reason: str) -> None:
        self._called("freeze", actor=actor, reason=reason)

    def unfreeze(self, actor: Actor) -> bool:
        self._called("unfreeze", actor=actor)
        return True

    def audit_verify(self, run_id: str | None) -> dict[str, Any]:
        return {"ok": run_id != "cut", "runs": 1}

    def audit_who(self, uri: str) -> list[dict[str, Any]]:
        return [{"uri": uri, "operator": "ada", "run_id": "run-1"}] if uri == "s3://b/gone" else []
