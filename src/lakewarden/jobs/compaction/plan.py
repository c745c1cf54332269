"""Compaction: which files of the fleet would become fewer, and what that is worth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import Any

from lakewarden.jobs.compaction.rate import measured
from lakewarden.logs import bind
from lakewarden.model.compaction import MAIN, Compactable, CompactionPolicy, TableRules
from lakewarden.model.errors import LeftToEngineError, UnsupportedTableError
from lakewarden.model.plan import TablePlan
from lakewarden.model.policy import Job
from lakewarden.model.ports import Progress
from lakewarden.model.run import PlanResult
from lakewarden.model.table import TableState
from lakewarden.model.worth import Budget, Fate, Rate, Worth
from lakewarden.pipeline.read.notes import note_refusal
from lakewarden.pipeline.read.to_read import ToRead
from lakewarden.steps.compare.compare import read_task
from lakewarden.steps.compare.findings import Findings, refusals_of
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.in_spark import in_spark
from lakewarden.steps.observe.fleet import LOAD_THREADS, Fleet
from lakewarden.steps.plan.document import Request, draw_up, planned_root, table_plan, to_change

Policies = Mapping[str, CompactionPolicy]


def plan(deployment: Deployment, request: Request, progress: Progress) -> PlanResult:
    """Read the manifests of every chosen table, and write down which files would be rewritten together. Changes nothing."""
    from lakewarden.pipeline.rewrite.groups import Grouped, plan_groups

    log = bind(job=str(Job.COMPACTION))
    now = deployment.clock.now()
    session = deployment.warm_spark()

    progress("load tables", 0, 0)
    fleet, policies, chosen = to_change(deployment, request, Job.COMPACTION, CompactionPolicy.of, now)

    progress("look at tables", 0, 0)
    surveys = _with_engine(session, dict(_surveys(deployment, fleet, policies, chosen)))
    rules = {
        number: _rules(state, policies[state.identifier], survey, now)
        for number, state in enumerate(fleet.states)
        if (survey := surveys.get(state.identifier)) and survey.target
    }
    rate, budget = _limits(deployment, policies)

    progress("group files", 0, 0)
    wanted = ToRead.of(
        (
            (n, _head_only(state := fleet.states[n], surveys[state.identifier], policies[state.identifier].branch))
            for n in rules
        ),
        fleet.homes,
    )
    grouped = Grouped()
    if rules:
        read, workers, place = read_task(deployment), workers_of(deployment), request.directory
        grouped = in_spark(lambda: plan_groups(session.result(), wanted, read, workers, rules, budget, place))

    progress("write the plan", 0, 0)
    refusals = refusals_of(fleet, Findings())
    tables: list[TablePlan] = []
    for number, state in enumerate(fleet.states):
        if state.identifier not in chosen:
            continue
        survey = surveys.get(state.identifier, Compactable(left="it was not looked at"))
        reasons = [*refusals[state.identifier], *([survey.refusal] if survey.refusal else [])]
        reasons += [note_refusal(grouped.notes[number])] if number in grouped.notes else []
        fates = {fate: grouped.of(number, fate) for fate in Fate}
        policy = policies[state.identifier]
        tables.append(
            table_plan(
                state,
                policy.as_values(),
                reasons[0] if reasons else None,
                changes={} if reasons else {"groups": fates[Fate.NOW].groups, "files": fates[Fate.NOW].files},
                detail={} if reasons else _detail(survey, policy, fates, rate),
            )
        )
    changing = {table.identifier for table in tables if any(table.changes.values())}
    result = draw_up(
        deployment,
        request,
        fleet,
        Job.COMPACTION,
        now,
        tables=tables,
        roots=tuple(planned_root(r, fleet, Findings()) for r in fleet.roots if changing.intersection(r.tables)),
        parts=grouped.parts,
        detail=_worth(grouped.ranked.curve, budget, rate, policies) if grouped.ranked.curve else None,
    )
    log.info("plan written", plan=result.plan.plan_id, groups=result.plan.totals()["changes"].get("groups", 0))
    return result


def workers_of(deployment: Deployment) -> dict[str, Any]:
    """What executors do for each format that can be compacted, by the format's name."""
    return {found.format: found.compactor.worker for found in deployment.formats.values() if found.compactor}


def _head_only(state: TableState, survey: Compactable, branch: str) -> TableState:
    """The table with the manifests of a branch's newest snapshot alone."""
    lists = survey.lists
    if lists is None:
        head = _head(state, branch)
        lists = tuple(item for item in state.manifest_lists if item.snapshot_id == head)
    return replace(state, manifest_lists=lists, manifests=survey.manifests, files=())


def _head(state: TableState, branch: str) -> int | None:
    """The newest snapshot of a branch; None if the table has no such branch."""
    if branch == MAIN:
        return state.current_snapshot_id
    return next((ref.snapshot_id for ref in state.refs if ref.kind == "branch" and ref.name == branch), None)


def _rules(state: TableState, policy: CompactionPolicy, survey: Compactable, now: datetime) -> TableRules:
    """How the files of a table are grouped. What was committed lately makes the partitions hot that it wrote to."""
    since = int((now - timedelta(minutes=policy.settle_minutes)).timestamp() * 1000)
    return TableRules(
        state.identifier,
        state.uuid,
        survey.target,
        policy.min_input_files,
        policy.many_deletes,
        frozenset(snapshot for snapshot, at in survey.written.items() if at > since),
        policy.settle_minutes,
        survey.several_specs,
        state.format,
        survey.layout,
        survey.ordered,
    )


def _limits(deployment: Deployment, policies: Policies) -> tuple[Rate | None, Budget]:
    """How fast groups are rewritten, and how much of that one plan may ask for. Both are the whole fleet's."""
    policy = next(iter(policies.values()), None)
    if policy is None:
        return None, Budget()
    rate = Rate.known(policy.rate_bytes_per_second, measured(deployment.ledger))
    return rate, Budget.of(policy.max_bytes_per_run, policy.bandwidth_share, rate)


def _surveys(
    deployment: Deployment, fleet: Fleet, policies: Policies, chosen: frozenset[str]
) -> Iterator[tuple[str, Compactable]]:
    """Whether each chosen table can be compacted, tables side by side."""
    states = [state for state in fleet.states if state.identifier in chosen and not state.refusal]

    def ask(state: TableState) -> Compactable:
        compactor = deployment.format_of(state.identifier).compactor
        if compactor is None:
            why = f"{state.format} tables cannot be compacted by this version; nothing of it is touched"
            return Compactable(refusal=UnsupportedTableError(why).refusal())
        return compactor.survey(state, policies[state.identifier])

    with ThreadPoolExecutor(LOAD_THREADS) as pool:
        yield from zip((state.identifier for state in states), pool.map(ask, states), strict=True)


def _with_engine(session: Any, surveys: Mapping[str, Compactable]) -> dict[str, Compactable]:
    """The surveys; tables that only the format's own engine writes exactly are refused where Spark does not have it."""
    if not any(survey.engine for survey in surveys.values()):
        return dict(surveys)
    from lakewarden.pipeline.rewrite.by_iceberg import has_runtime

    if in_spark(lambda: has_runtime(session.result())):
        return dict(surveys)
    return {
        name: survey
        if not survey.engine
        else Compactable(refusal=LeftToEngineError(f"{survey.engine_why}; nothing was touched").refusal())
        for name, survey in surveys.items()
    }


def _detail(
    survey: Compactable, policy: CompactionPolicy, fates: Mapping[Fate, Worth], rate: Rate | None
) -> dict[str, Any]:
    """What the groups come to: those to rewrite now, those beyond the budget, those whose partitions have to settle."""
    if survey.left is not None:
        return {"inactive": survey.left, "keep": [{"label": "files", "reason": survey.left}]}
    now = fates[Fate.NOW]
    engine = {"engine": survey.engine, "engine_why": survey.engine_why} if survey.engine else {}
    return {
        **engine,
        "target_bytes": survey.target,
        "branch": policy.branch,
        "compaction": {
            **now.as_values(),
            "per_cost": round(now.per_cost, 3),
            "seconds": round(now.bytes / rate.bytes_per_second, 1) if rate else None,
        },
        "beyond_budget": fates[Fate.BEYOND].as_values(),
        "settling": fates[Fate.SETTLING].as_values(),
    }


def _worth(curve: Sequence[Worth], budget: Budget, rate: Rate | None, policies: Policies) -> dict[str, Any]:
    """The whole fleet's groups, best first: the sums after each stretch, and where the budget cuts them."""
    return {
        "curve": [point.as_values() for point in curve],
        "budget": asdict(budget),
        "rate": asdict(rate) if rate else None,
        "bandwidth_share": next(iter(policies.values())).bandwidth_share,
    }
