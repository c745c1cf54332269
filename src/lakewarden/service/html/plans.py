"""Plans as pages tell them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from lakewarden.jobs.registry import JOBS
from lakewarden.ledger.activity import ShownPlan
from lakewarden.ledger.approvals import Approval
from lakewarden.ledger.plans import SavedPlan
from lakewarden.model.plan_view import View
from lakewarden.model.policy import DeleteMode, Job
from lakewarden.model.service import Decision
from lakewarden.reports.page.pictures import Segment, stacked
from lakewarden.reports.page.text import number, size
from lakewarden.service.service import Service
from lakewarden.steps.summary import planned_by, told

LIVE, GOES, WAITS = "live", "orphan", "pending"


def plan_row(service: Service, shown: ShownPlan, decision: Approval | None) -> dict[str, Any]:
    """A plan on one line."""
    saved, view = shown.saved, shown.view
    return {
        "plan_id": saved.plan_id,
        "job": saved.job,
        "at": saved.created_at,
        "by": (view or {}).get("actor", {}).get("operator", ""),
        "summary": summary_of(saved, view),
        "refused": (view or {}).get("refused", 0),
        "tables": (view or {}).get("tables"),
        "used_by": saved.used_by,
        "state": state_of(saved, view, decision, service.clock.now()),
    }


def state_of(saved: SavedPlan, view: View | None, decision: Approval | None, now: datetime) -> str:
    """In one word what became of a plan."""
    if saved.used_by is not None:
        return "used"
    if decision is not None and decision.decision is Decision.REJECTED:
        return "rejected"
    if view is not None and not any(view["totals"]["changes"].values()):
        return "refused" if view["tables"] and view["refused"] == view["tables"] else "empty"
    if saved.expires_at is not None and now >= saved.expires_at:
        return "expired"
    if decision is not None:
        return "approved"
    return "waiting" if view is not None and view.get("approval") else "ready"


def summary_of(saved: SavedPlan, view: View | None) -> str:
    """What a plan would change, in its job's words."""
    if view is None or saved.job is None:
        return "unknown"
    spec = JOBS[Job(saved.job)]
    trash = DeleteMode.QUARANTINE in view["modes"]
    found = view["totals"]["verdicts"].get(view["changing"], {}).get("bytes") if spec.deletes else None
    return told(planned_by(spec, view["totals"]["changes"], size=found, trash=trash)) or "nothing to do"


def changes_words(changes: Mapping[str, int], job: str, trash: bool) -> str:
    """What would change of one table: `3 groups, 15 files to rewrite`."""
    return told(planned_by(JOBS[Job(job)], changes, trash=trash)) or "nothing to do"


def verdict_bar(view: Mapping[str, Any], by: str) -> list[Segment]:
    """Files or bytes by verdict as one bar: what goes, what waits, what is kept, what is live."""
    verdicts = view["totals"]["verdicts"]
    order = in_order(view)
    words = number if by == "files" else size
    parts = [
        (kind_of(name, view["changing"]), verdicts[name][by], f"{words(verdicts[name][by])} {name}") for name in order
    ]
    return stacked(parts)


def in_order(view: Mapping[str, Any]) -> list[str]:
    """The verdicts of a plan: what would be changed first, what is live last."""
    return sorted(view["totals"]["verdicts"], key=lambda name: (name != view["changing"], name == LIVE, name))


def kind_of(verdict: str, changing: str) -> str:
    """The colour of a verdict."""
    if verdict == changing:
        return GOES
    return verdict if verdict in (LIVE, WAITS) else "kept"
