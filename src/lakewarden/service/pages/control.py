"""What an operator does for the whole deployment: freeze, unfreeze, look at the fleet again, prove that things come back."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response

from lakewarden.model.errors import UsageError
from lakewarden.model.service import RequestKind
from lakewarden.service.access import Asked, Operator
from lakewarden.service.html.asks import ask
from lakewarden.service.html.page import Said, inside, see
from lakewarden.service.schedule.slots import DRILL

router = APIRouter(include_in_schema=False)


@router.post("/freeze")
def freeze(service: Asked, user: Operator, reason: Said = "", back: Said = "/") -> Response:
    """Stop every worker before its next batch. Somebody will ask why, so a reason is needed."""
    if not reason.strip():
        raise UsageError(
            "a freeze needs a reason; nothing was frozen", hint="Say in a few words why, and freeze again."
        )
    service.warden.freeze(user.actor(service), reason.strip()[:300])
    return see(inside(back), "Frozen: no worker begins another batch.")


@router.post("/unfreeze")
def unfreeze(service: Asked, user: Operator, back: Said = "/") -> Response:
    was = service.warden.unfreeze(user.actor(service))
    return see(inside(back), "Unfrozen: workers go on." if was else "Nothing was frozen.")


@router.post("/observe")
def observe(service: Asked, user: Operator) -> Response:
    asked = ask(service, user, RequestKind.OBSERVE)
    return see(f"/requests/{asked.request_id}", "The runner was asked to look at every table again.")


@router.post("/restore-drill")
def restore_drill(service: Asked, user: Operator) -> Response:
    asked = ask(service, user, RequestKind.RESTORE_DRILL, job=DRILL)
    return see(f"/requests/{asked.request_id}", "The runner was asked for a restore drill. No table is changed.")
