"""What the page of one table tells, as plain values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from lakewarden.jobs.registry import JOBS
from lakewarden.ledger.fleet import FleetRow
from lakewarden.ledger.requests import Request
from lakewarden.model.forecast import GROWTH_DAYS
from lakewarden.model.health import SMALL_FILE_BYTES
from lakewarden.model.policy import DeleteMode, Job
from lakewarden.model.redaction import redact
from lakewarden.model.service import RequestKind
from lakewarden.reports.page.graph import Drawing, Edge, Node, drawn
from lakewarden.reports.page.pictures import curve, scale, stacked
from lakewarden.reports.page.text import plural, size
from lakewarden.service.html.pictures import Seen, timeline
from lakewarden.service.html.runs import run_row
from lakewarden.service.service import Service

LIMIT = f"{SMALL_FILE_BYTES >> 20} MiB"
# What a table's health says, and the job whose plan says what to do about it.
MENDED_BY = {
    "orphans": Job.ORPHAN_CLEANUP,
    "small files": Job.COMPACTION,
    "many snapshots": Job.SNAPSHOT_EXPIRY,
    "broken ref": Job.STALE_BRANCHES,
    # A file of the metadata is gone or damaged: where only a branch needs it, the branch may go.
    "LW-TABLE-001": Job.STALE_BRANCHES,
    "LW-TABLE-002": Job.STALE_BRANCHES,
}
# Which file of the configuration is told by its name: the page is about the section.
FOLDER = re.compile(r"^.*/(?=[^/]*\.toml)")
LOOKED_AT = 200  # of the newest forecasts, for the last of one table


def table_content(service: Service, row: FleetRow) -> dict[str, Any]:
    """Health with its reasons, the line of snapshots, sizes, forecast, policy, plans and runs of one table."""
    asked = last_forecast(service, row.identifier)
    told = (asked.result or {}) if asked else {}
    history = list(_history(service, row.identifier))
    policies = list(_policies(service, row))
    return {
        "row": row,
        "reasons": [_reason(one, history) for one in row.detail.get("reasons", ())],
        "timeline": _timeline(row.detail),
        "snapshots_shown": len(row.detail.get("snapshots", ())),
        "refs": row.detail.get("refs", []),
        "location": row.detail.get("location"),
        "released": row.detail.get("pending_bytes", 0),
        "lineage": _lineage(row),
        "policies": policies,
        "said": [(one["job"], one["values"][: one["said"]]) for one in policies if one["said"]],
        "asked": asked,
        "forecast": _forecast(told, row.identifier),
        "classes": _classes(told.get("classes", {}).get(row.identifier)),
        "history": history,
    }


def _reason(reason: Mapping[str, Any], history: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A reason of the table's health, with the newest plan that would do something about it."""
    job = MENDED_BY.get(str(reason["code"]))
    plan = next((one["plan_id"] for one in history if one["job"] == job and one["changes"]), None)
    return {**reason, "job": job, "plan": plan}


def last_forecast(service: Service, identifier: str) -> Request | None:
    """The newest request for a forecast of this table alone."""
    found = service.ledger.requests.list(kind=RequestKind.FORECAST, limit=LOOKED_AT)
    return next((one for one in found if _selects(one, identifier)), None)


def _selects(request: Request, identifier: str) -> bool:
    return list(request.arguments.get("select", ())) == [identifier]


def _timeline(detail: Mapping[str, Any]) -> Any:
    refs: dict[int, list[str]] = {}
    for ref in detail.get("refs", ()):
        refs.setdefault(int(ref["snapshot_id"]), []).append(str(ref["name"]))
    return timeline([
        Seen(
            at := datetime.fromtimestamp(one["at_ms"] / 1000, UTC),
            f"{one.get('id') or 'snapshot'}, {at:%Y-%m-%d %H:%M} UTC{_added(one)}",
            tuple(refs.get(one["id"], ())) if one.get("id") is not None else (),
        )
        for one in detail.get("snapshots", ())
    ])  # fmt: skip


def _added(one: Mapping[str, Any]) -> str:
    return f", {size(one['added'])} added" if one.get("added") else ""


def _lineage(row: FleetRow) -> Drawing | None:
    """What the table was made from, to the left of it, and what was made from it, to the right."""
    edges, me = row.detail.get("edges", ()), row.identifier
    if not edges:
        return None
    before = dict.fromkeys(one["source"] for one in edges if one["target"] == me)
    after = dict.fromkeys(one["target"] for one in edges if one["source"] == me and one["target"] not in before)
    nodes = [Node(name, "", 0) for name in before if name != me]
    nodes += [Node(me, "this table", 1, "start"), *(Node(name, "", 2) for name in after if name != me)]
    lines = [Edge(one["source"], one["target"], f"{one['count']:,}") for one in edges if one["source"] != one["target"]]
    return drawn(nodes, lines, f"What {me} was made from, and what was made from it")


def _policies(service: Service, row: FleetRow) -> Iterator[dict[str, Any]]:
    """Every job's values in effect for the table, those first that somebody set, each with the place that set it."""
    properties = row.detail.get("properties", {})
    for job in JOBS:
        policy = service.settings.policy_for(job, row.identifier, properties, uuid=row.uuid)
        values = [
            {"key": key, "value": _written(redact(found.value, key)), "source": FOLDER.sub("", found.source)}
            for key, found in policy.provenance.items()
        ]
        values.sort(key=lambda one: (one["source"] == "default", one["key"]))
        said = sum(one["source"] != "default" for one in values)
        yield {"job": str(job), "values": values, "said": said, "refusal": policy.refusal}


def _written(value: Any) -> str:
    """A value as somebody writes it into the configuration."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ", ".join(map(_written, value)) or "–"
    if isinstance(value, float):
        return f"{value:g}" if abs(value) < 1e6 else f"{value:.0f}"
    return "–" if value in (None, "") else str(value)


def _forecast(told: Mapping[str, Any], identifier: str) -> dict[str, Any] | None:
    found = next((table for table in told.get("tables", ()) if table["identifier"] == identifier), None)
    if found is None:
        return None
    values = [(plural(one["days"], "day"), float(one["bytes"])) for one in found["releases"]]
    if not any(value for _, value in values):
        return {"table": found, "curve": None, "at": told.get("at")}
    picture = curve(values, [(at, size(at)) for at in scale(max(value for _, value in values))])
    words = ", ".join(f"{size(value)} at {days}" for days, value in values)
    return {"table": found, "curve": picture, "words": words, "at": told.get("at")}


def _classes(found: list[Mapping[str, Any]] | None) -> dict[str, Any] | None:
    """Data files by size and age: a bar of files, one of bytes, and the figures of both."""
    if not found or not any(one["tally"]["files"] for one in found):
        return None
    rows = [
        {
            "kind": f"{'small' if one['small'] else 'large'}-{'recent' if one['recent'] else 'older'}",
            "words": f"{f'below {LIMIT}' if one['small'] else f'{LIMIT} or more'}, "
            f"{'written in' if one['recent'] else 'older than'} {plural(GROWTH_DAYS, 'day')}",
            **one["tally"],
        }
        for one in found
    ]
    words = {"files": lambda count: plural(count, "file"), "bytes": size}
    bars = {
        by: stacked([(row["kind"], row[by], f"{words[by](row[by])} {row['words']}") for row in rows]) for by in words
    }
    return {"rows": [row for row in rows if row["files"]], "bars": bars}


def _history(service: Service, identifier: str) -> Iterator[dict[str, Any]]:
    """The newest plans that looked at the table, each with the run that used it."""
    now = service.clock.now()
    for saved, part in service.ledger.activity.table_in_plans(identifier):
        run = service.ledger.runs.get(saved.used_by) if saved.used_by else None
        yield {
            "plan_id": saved.plan_id,
            "job": saved.job,
            "at": saved.created_at,
            "refusal": part["refusal"],
            "changes": {kind: count for kind, count in part["changes"].items() if count},
            "trash": part["policy"].get("delete_mode") == DeleteMode.QUARANTINE,
            "run": run_row(service, run, now) if run else None,
        }
