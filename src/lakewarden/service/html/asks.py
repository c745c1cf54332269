"""What pages ask of the runner: a row in the ledger each, in the name of whoever pressed the button."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakewarden.ledger.requests import Request
from lakewarden.model.service import RequestKind
from lakewarden.service.access import User
from lakewarden.service.room import check_room
from lakewarden.service.service import Service


def ask(
    service: Service,
    user: User,
    kind: RequestKind,
    *,
    job: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    plan_id: str | None = None,
) -> Request:
    """Put a request into the ledger. Two presses of one button are two requests: the second finds what the first did.

    Raises TooBusyError.
    """
    check_room(service.ledger.requests)
    return service.ledger.requests.create(
        service.new_id(), kind, user.actor(service), job=job, arguments=arguments, plan_id=plan_id
    )
