"""What is known of one file: from the journal and what waits, and from the last time that the runner explained it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from lakewarden.ledger.journal import Deletion
from lakewarden.ledger.requests import Request
from lakewarden.model.errors import LakewardenError
from lakewarden.model.run import RESTORED, RunResult
from lakewarden.model.service import RequestKind
from lakewarden.reports.asked_file import address_of
from lakewarden.service.html.runs import run_row
from lakewarden.service.html.trash import brought_back_by, trash_of
from lakewarden.service.service import Service

EXPLAIN = "explain"
LOOKED_AT = 200
LATELY = 10
QUARANTINED = "quarantined"
WORDS = {
    "live": "A table needs it.",
    "deleted": "It was deleted by this deployment.",
    "gone": "It is not there, and this deployment did not delete it.",
    "pending": "Expiry released it; physical deletion removes it once its delay is over.",
    "orphan": "No table needs it; the newest plan would remove it.",
    "unseen": "It is there, and no plan has listed it.",
    "too_new": "No table needs it, and it is younger than the grace period: a writer may be about to commit it.",
    "unconfirmed": "No table needs it; a second look has to agree before it may go.",
    "in_flight": "A live writer may be about to commit it.",
    "protected": "Its name is one that is never touched.",
    "unknown_age": "Its age is unknown, so it is kept.",
}


def fate(service: Service, uri: str) -> dict[str, Any]:
    """The journal's answer, and the runner's where there is one."""
    try:
        key = address_of(uri)
    except LakewardenError as error:
        return {"fate": None, "error": error}
    deletions = service.ledger.journal.find(key)
    pending = service.ledger.pending.find(key)
    asked = _asked(service, key)
    told = asked.result if asked and asked.result else None
    status = told.get("status") if told else None
    return {
        "fate": {
            "uri": key,
            "deletions": list(_hands(service, deletions)),
            "pending": pending,
            "asked": asked,
            "told": told,
            "words": WORDS.get(str(status), "") if told else "",
            "status": status,
            "back": _trash(service, deletions) if status != "live" else None,
        },
        "error": None,
    }


def _asked(service: Service, key: str) -> Request | None:
    """The newest request that asks about this file."""
    found = service.ledger.requests.list(kind=RequestKind.AUDIT, limit=LOOKED_AT)
    return next((one for one in found if one.arguments.get("uri") == key), None)


def _hands(service: Service, deletions: Sequence[Deletion]) -> Iterator[dict[str, Any]]:
    """Who took the file away, and who brought it back, the newest first."""
    for one in reversed(deletions):
        back = brought_back_by(service, one.run_id, one.file.uri) if one.outcome == QUARANTINED else None
        if back is not None:
            where: dict[str, Any] = {"run_id": back.run_id, "batch_no": None, "plan_id": None}
            yield {"outcome": RESTORED, "at": back.finished_at, "actor": back.actor, **where}
        where = {"run_id": one.run_id, "batch_no": one.batch_no, "plan_id": one.plan_id}
        yield {"outcome": one.outcome, "at": one.at, "actor": one.actor, **where}


def _trash(service: Service, deletions: Sequence[Deletion]) -> dict[str, Any] | None:
    """The run that put the file into quarantine, and until when it can be brought back; None where it cannot."""
    last = deletions[-1] if deletions else None
    run = service.ledger.runs.get(last.run_id) if last is not None and last.outcome == QUARANTINED else None
    if last is None or run is None or brought_back_by(service, run.run_id, last.file.uri) is not None:
        return None
    until = trash_of(service, run).until
    return {"run_id": run.run_id, "until": until} if until else None


def removed_lately(service: Service) -> list[dict[str, Any]]:
    """The newest runs that took files away, with who asked for them."""
    runs, _ = service.ledger.activity.runs(limit=LOOKED_AT)
    now = service.clock.now()
    found = (run for run in runs if run.result and _removed(RunResult.of(run.result)))
    return [{**run_row(service, run, now), "actor": run.actor} for run in islice(found, LATELY)]


def _removed(result: RunResult) -> int:
    return result.deleted.files + result.quarantined.files


def decided(service: Service) -> list[dict[str, Any]]:
    """What people agreed with or rejected last."""
    found = service.ledger.approvals.list(LATELY)
    return [
        {
            "plan_id": one.plan_id,
            "decision": str(one.decision),
            "who": one.actor.operator,
            "at": one.at,
            "reason": one.reason,
        }
        for one in found
    ]
