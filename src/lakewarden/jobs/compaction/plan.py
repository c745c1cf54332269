"""Compaction: which files of the fleet would become fewer, and what that is worth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from lakewarden.logs import bind
from lakewarden.model.compaction import Compactable, CompactionPolicy
from lakewarden.model.errors import UnsupportedTableError
from lakewarden.model.plan import TablePlan
from lakewarden.model.policy import Job
from lakewarden.model.ports import Progress
from lakewarden.model.run import PlanResult
from lakewarden.model.table import TableState
from lakewarden.pipeline.read.notes import note_refusal
from lakewarden.pipeline.read.to_read import ToRead
from lakewarden.steps.compare.compare import read_task
from lakewarden.steps.compare.findings import Findings, refusals_of
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.in_spark import in_spark
from lakewarden.steps.observe.fleet import LOAD_THREADS, Fleet
from lakewarden.steps.plan.document import Request, draw_up, planned_root, table_plan, to_change

STAGES = 4
Policies = Mapping[str, CompactionPolicy]


def plan(deployment: Deployment, request: Request, progress: Progress) -> PlanResult:
    """Read the manifests of every chosen table, and write down which files would be rewritten together. Changes nothing."""
    from lakewarden.pipeline.rewrite.groups import Grouped, TableGroups, TableRules, plan_groups

    log = bind(job=str(Job.COMPACTION))
    now = deployment.clock.now()
    session = deployment.warm_spark()

    progress("load tables", 0, STAGES)
    fleet, policies, chosen = to_change(deployment, request, Job.COMPACTION, CompactionPolicy.of, now)

    progress("look at tables", 1, STAGES)
    surveys = dict(_surveys(deployment, fleet, policies, chosen))
    rules = {
        number: TableRules(
            state.identifier,
            survey.target,
            policies[state.identifier].min_input_files,
            state.format,
            survey.layout,
        )
        for number, state in enumerate(fleet.states)
        if (survey := surveys.get(state.identifier)) and survey.target
    }

    progress("group files", 2, STAGES)
    wanted = ToRead.of(
        ((n, _current_only(state := fleet.states[n], surveys[state.identifier])) for n in rules), fleet.homes
    )
    grouped = Grouped((), {}, {})
    if rules:
        read, workers = read_task(deployment), workers_of(deployment)
        grouped = in_spark(lambda: plan_groups(session.result(), wanted, read, workers, rules, request.directory))

    progress("write the plan", 3, STAGES)
    refusals = refusals_of(fleet, Findings())
    tables: list[TablePlan] = []
    for number, state in enumerate(fleet.states):
        if state.identifier not in chosen:
            continue
        survey = surveys.get(state.identifier, Compactable(left="it was not looked at"))
        reasons = [*refusals[state.identifier], *([survey.refusal] if survey.refusal else [])]
        reasons += [note_refusal(grouped.notes[number])] if number in grouped.notes else []
        mine = grouped.tables.get(number, TableGroups())
        tables.append(
            table_plan(
                state,
                policies[state.identifier].as_values(),
                reasons[0] if reasons else None,
                changes={} if reasons else {"groups": mine.groups, "files": mine.files},
                detail={} if reasons else _detail(survey, mine),
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
    )
    progress("done", STAGES, STAGES)
    log.info("plan written", plan=result.plan.plan_id, groups=result.plan.totals()["changes"].get("groups", 0))
    return result


def workers_of(deployment: Deployment) -> dict[str, Any]:
    """What executors do for each format that can be compacted, by the format's name."""
    return {found.format: found.compactor.worker for found in deployment.formats.values() if found.compactor}


def _current_only(state: TableState, survey: Compactable) -> TableState:
    """The table with the manifests of its current snapshot alone."""
    lists = survey.lists
    if lists is None:
        lists = tuple(item for item in state.manifest_lists if item.snapshot_id == state.current_snapshot_id)
    return replace(state, manifest_lists=lists, manifests=survey.manifests, files=())


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


def _detail(survey: Compactable, mine: Any) -> dict[str, Any]:
    """What the groups come to: files before and after, and the bytes that are read and written for it."""
    if survey.left is not None:
        return {"inactive": survey.left, "keep": [{"label": "files", "reason": survey.left}]}
    return {
        "target_bytes": survey.target,
        "compaction": {"files": mine.files, "files_after": mine.outputs, "bytes": mine.bytes},
    }
