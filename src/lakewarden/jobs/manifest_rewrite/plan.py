"""Manifest rewriting: for which tables it would help, and by how much."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from lakewarden.logs import bind
from lakewarden.model.manifests import Clustering, ManifestPolicy, ManifestSurvey
from lakewarden.model.plan import TablePlan
from lakewarden.model.policy import Job
from lakewarden.model.ports import Progress
from lakewarden.model.run import PlanResult
from lakewarden.model.table import TableState
from lakewarden.steps.compare.findings import Findings, refusals_of
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.observe.fleet import LOAD_THREADS, Fleet
from lakewarden.steps.plan.document import (
    Request,
    draw_up,
    planned_root,
    table_plan,
    to_change,
)


def plan(deployment: Deployment, request: Request, progress: Progress) -> PlanResult:
    """Read each table's list of manifests, and write down where rewriting them would help. Changes nothing."""
    log = bind(job=str(Job.MANIFEST_REWRITE))
    now = deployment.clock.now()

    progress("load tables", 0, 0)
    fleet, policies, chosen = to_change(deployment, request, Job.MANIFEST_REWRITE, ManifestPolicy.of, now)

    progress("read manifest lists", 0, 0)
    found = dict(_surveys(deployment, fleet, policies, chosen))

    progress("write the plan", 0, 0)
    tables = tuple(_tables(deployment, fleet, policies, chosen, found))
    changing = {table.identifier for table in tables if any(table.changes.values())}
    result = draw_up(
        deployment,
        request,
        fleet,
        Job.MANIFEST_REWRITE,
        now,
        tables=tables,
        roots=tuple(planned_root(r, fleet, Findings()) for r in fleet.roots if changing.intersection(r.tables)),
    )
    log.info("plan written", plan=result.plan.plan_id, manifests=result.plan.totals()["changes"].get("manifests", 0))
    return result


def _surveys(
    deployment: Deployment, fleet: Fleet, policies: Mapping[str, ManifestPolicy], chosen: frozenset[str]
) -> Iterator[tuple[str, ManifestSurvey]]:
    """Each chosen table's survey, tables side by side."""
    states = [state for state in fleet.states if state.identifier in chosen and not state.refusal]

    def ask(state: TableState) -> ManifestSurvey:
        rewriter = deployment.format_of(state.identifier).manifest_rewriter
        if rewriter is None:
            return ManifestSurvey(left=f"{state.format} tables look after their manifests themselves")
        return rewriter.survey(state, policies[state.identifier])

    with ThreadPoolExecutor(LOAD_THREADS) as pool:
        yield from zip((state.identifier for state in states), pool.map(ask, states), strict=True)


def _tables(
    deployment: Deployment,
    fleet: Fleet,
    policies: Mapping[str, ManifestPolicy],
    chosen: frozenset[str],
    found: Mapping[str, ManifestSurvey],
) -> Iterator[TablePlan]:
    refusals = refusals_of(fleet, Findings())
    for state in fleet.states:
        if state.identifier not in chosen:
            continue
        survey = found.get(state.identifier, ManifestSurvey())
        reasons = [*refusals[state.identifier], *([survey.refusal] if survey.refusal else [])]
        going = 0 if survey.left else survey.whole.going
        yield table_plan(
            state,
            policies[state.identifier].as_values(),
            reasons[0] if reasons else None,
            changes={} if reasons else {"manifests": going},
            detail={} if reasons else _detail(survey),
        )


def _detail(survey: ManifestSurvey) -> dict[str, Any]:
    """How many manifests there are and would be, and how many a query for one partition opens now and would open."""
    detail: dict[str, Any] = {
        **_numbers(survey.whole),
        "specs": [{"spec": one.spec, **_numbers(one)} for one in survey.specs],
    }
    if survey.left is None:
        return detail
    return detail | {"inactive": survey.left, "keep": [{"label": "manifests", "reason": survey.left}]}


def _numbers(found: Clustering) -> dict[str, Any]:
    return {
        "before": {"manifests": found.manifests, "opened": round(found.opened, 2)},
        "after": {"manifests": found.manifests_after, "opened": round(found.opened_after, 2)},
        "gain": round(found.gain, 4),
    }
