"""What the page of one plan tells, as plain values."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from lakewarden.jobs.registry import JOBS
from lakewarden.ledger.plans import SavedPlan
from lakewarden.ledger.requests import Request
from lakewarden.model.actor import person_of
from lakewarden.model.errors import LakewardenError
from lakewarden.model.plan import PartFile
from lakewarden.model.plan_view import View
from lakewarden.model.policy import DeleteMode, Job
from lakewarden.model.service import RequestStatus
from lakewarden.service.access import User
from lakewarden.service.html.paging import Pages
from lakewarden.service.html.plans import in_order, kind_of, state_of, summary_of, verdict_bar
from lakewarden.service.html.runs import run_row
from lakewarden.service.service import Service
from lakewarden.steps.plan.paged import Wanted, largest_prefixes, plan_page

FILES = 25
MOST_OPEN = 200
MOST_COMPARED = 200_000  # rows of both plans that a page compares; more is a command's work


def plan_content(
    service: Service, user: User | None, saved: SavedPlan, view: View, verdict: str, search: str, offset: int
) -> dict[str, Any]:
    """Sums and pictures, the largest prefixes, some of the files, the last plan of the job, who may do what with it."""
    now = service.clock.now()
    decision = service.ledger.approvals.get(saved.plan_id)
    state = state_of(saved, view, decision, now)
    run = service.ledger.runs.get(saved.used_by) if saved.used_by else None
    open_requests = _at_work(service, saved)
    waiting = next((one for one in open_requests if one.status is RequestStatus.WAITING), None)
    files = _files(service, saved, view, verdict, search, offset)
    prefixes = _prefixes(service, saved, view)
    asked = {"verdict": verdict, "search": search}
    last = before(service, saved)
    return {
        "saved": saved,
        "view": view,
        "spec": JOBS[Job(saved.job or "")],
        "state": state,
        "summary": summary_of(saved, view),
        "trash": DeleteMode.QUARANTINE in view["modes"],
        "decision": decision,
        "waiting": waiting,
        "working": next((one for one in open_requests if one.status is not RequestStatus.WAITING), None),
        "run": run_row(service, run, now) if run else None,
        "mine": user is not None and person_of(user.name) == person_of(view["actor"]["operator"]),
        "needs_approval": waiting is not None or bool(view.get("approval")),
        "bars": {by: verdict_bar(view, by) for by in ("files", "bytes")},
        "kind_of": kind_of,
        "verdicts": [(name, view["totals"]["verdicts"][name]) for name in in_order(view)],
        "unseen": [name for name in in_order(view) if not view["totals"]["verdicts"][name]["files"]],
        "files": files,
        "asked": asked,
        "pages": Pages.of(f"/plans/{saved.plan_id}", asked, offset, len(files["rows"]), files["total"], FILES),
        "prefixes": prefixes,
        "before": last,
        "before_summary": summary_of(last, service.ledger.activity.view(last.plan_id)) if last else "",
    }


def _at_work(service: Service, saved: SavedPlan) -> list[Request]:
    """What was asked for with this plan and is not over. A request that nobody took up yet names it by its place only."""
    found = service.ledger.requests.list(status=[one for one in RequestStatus if not one.is_over], limit=MOST_OPEN)
    return [one for one in found if one.plan_id == saved.plan_id or one.arguments.get("plan") == saved.path]


def parts_of(view: View) -> tuple[PartFile, ...]:
    return tuple(PartFile(**part) for part in view["parts"])


def _files(service: Service, saved: SavedPlan, view: View, verdict: str, search: str, offset: int) -> dict[str, Any]:
    """Some of the plan's files; where they cannot be read, why."""
    wanted = Wanted(verdict, search, tuple(view["hidden"]))
    try:
        found = plan_page(service.stores, saved.path or "", parts_of(view), wanted, offset, FILES)
    except LakewardenError as error:
        return {"rows": [], "total": 0, "cut": False, "error": error}
    return {"rows": found.rows, "total": found.total, "cut": found.cut, "error": None}


def _prefixes(service: Service, saved: SavedPlan, view: View) -> dict[str, Any]:
    """The directories with the most bytes to change. A plan never changes, so neither does this."""
    try:
        rows, cut = _kept_prefixes(
            _Key(service.stores, saved.path or "", parts_of(view), view["changing"], tuple(view["hidden"]))
        )
    except LakewardenError:
        return {"rows": [], "cut": False}
    longest = max((row["bytes"] for row in rows), default=0)
    shown = [{**row, "part": round(100 * row["bytes"] / longest, 1) if longest else 0} for row in rows]
    return {"rows": shown, "cut": cut}


class _Key:
    """What the prefixes of a plan are computed from; the same for the same files."""

    def __init__(
        self, stores: Any, path: str, parts: tuple[PartFile, ...], verdict: str, hidden: tuple[str, ...]
    ) -> None:
        self.stores, self.path, self.parts = stores, path, parts
        self.wanted = Wanted(verdict, "", hidden)

    def __hash__(self) -> int:
        return hash((self.path, self.parts, self.wanted))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and (self.path, self.parts, self.wanted) == (
            other.path,
            other.parts,
            other.wanted,
        )


@lru_cache(maxsize=64)
def _kept_prefixes(key: _Key) -> tuple[list[dict[str, Any]], bool]:
    return largest_prefixes(key.stores, key.path, key.parts, key.wanted)


def before(service: Service, saved: SavedPlan) -> SavedPlan | None:
    """The plan of the same job that was made before this one."""
    plans = service.ledger.plans.list(saved.job, 50)
    older = (one for one in plans if one.created_at and saved.created_at and one.created_at < saved.created_at)
    return next(older, None)
