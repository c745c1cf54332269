"""What is known of one file: from the journal and what waits, and from the last time that the runner explained it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from lakewarden.ledger.requests import Request
from lakewarden.model.errors import LakewardenError
from lakewarden.model.service import RequestKind
from lakewarden.reports.asked_file import address_of
from lakewarden.service.service import Service

EXPLAIN = "explain"
LOOKED_AT = 200
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
    return {
        "fate": {
            "uri": key,
            "deletions": list(reversed(deletions)),
            "pending": pending,
            "asked": asked,
            "told": told,
            "words": WORDS.get(str(told.get("status")), "") if told else "",
            "status": told.get("status") if told else None,
            "planned_at": _instant(told.get("newest_plan", {}).get("created_at")) if told else None,
        },
        "error": None,
    }


def _asked(service: Service, key: str) -> Request | None:
    """The newest request that asks about this file."""
    found = (one for one in service.ledger.requests.list(limit=LOOKED_AT) if one.kind is RequestKind.AUDIT)
    return next((one for one in found if one.arguments.get("uri") == key), None)


def _instant(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
