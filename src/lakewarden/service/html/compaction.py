"""What the page on compaction tells: the newest plan's groups by what they are worth, and tables full of small files."""

from __future__ import annotations

from typing import Any

from lakewarden.model.health import MANY_SMALL_FILES, SMALL_FILE_BYTES
from lakewarden.model.policy import Job
from lakewarden.model.worth import Worth
from lakewarden.reports.page.pictures import curve
from lakewarden.reports.page.text import number, size
from lakewarden.service.html.pictures import counts
from lakewarden.service.html.plans import state_of
from lakewarden.service.service import Service

SMALL = "small files"


def compaction_content(service: Service) -> dict[str, Any]:
    """The newest plan of compaction and what its tables come to; the tables that a plan should look at."""
    plans, _ = service.ledger.activity.plans(job=Job.COMPACTION, limit=1)
    shown = plans[0] if plans else None
    view = service.ledger.activity.view(shown.saved.plan_id) if shown else None
    small = service.ledger.fleet.page(code=SMALL, sort="files", descending=True, limit=10)
    content: dict[str, Any] = {
        "plan": shown.saved if shown else None,
        "state": state_of(shown.saved, view, None, service.clock.now()) if shown else None,
        "rows": [],
        "picture": None,
        "small": small,
        "limit": f"{MANY_SMALL_FILES} data files or more, below {SMALL_FILE_BYTES >> 20} MiB on average",
    }
    if view is None:
        return content
    found = [one for one in view["largest"] if "compaction" in one["detail"]]
    found.sort(key=lambda one: -one["detail"]["compaction"]["per_cost"])
    points = [Worth.of(point) for point in view["detail"].get("curve", ())]
    content["rows"] = [{"identifier": one["identifier"], **one["detail"]["compaction"]} for one in found]
    content["budget"] = view["detail"].get("budget")
    if len(points) > 1:
        values = [(size(one.bytes), float(one.requests)) for one in points]
        every = max(1, len(values) // 6)
        shown_values = [(words if place % every == 0 else "", value) for place, (words, value) in enumerate(values)]
        content["picture"] = curve(shown_values, [(at, number(int(at))) for at in counts(values[-1][1])])
        content["picture_words"] = ", ".join(f"{number(int(value))} after {words}" for words, value in values[::every])
    return content
