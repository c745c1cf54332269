"""How routes ask a runner for something: a row in the ledger, answered with 202 and where to look."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Response

from lakewarden.ledger.requests import Request as LedgerRequest
from lakewarden.model.service import RequestKind
from lakewarden.service.access import Asked as Service
from lakewarden.service.access import User
from lakewarden.service.api.shapes import Asked, IdempotencyKey, told
from lakewarden.service.room import check_room


@dataclass(frozen=True, slots=True)
class Runner:
    """The runner, as a route asks it."""

    service: Service
    response: Response
    key: str | None

    def ask(
        self,
        user: User,
        kind: RequestKind,
        *,
        job: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        plan_id: str | None = None,
    ) -> Asked:
        """Put a request into the ledger. Raises IdempotencyError, TooBusyError."""
        requests = self.service.ledger.requests
        # A key belongs to whoever sent it: two tokens never meet each other's requests by it.
        key = f"{user.name}/{self.key}" if self.key else None
        # What is asked for again waits already.
        again = key is not None and requests.of_key(key) is not None
        if not again:
            check_room(requests)
        made = requests.create(
            self.service.new_id(),
            kind,
            user.actor(self.service),
            job=job,
            arguments=arguments,
            plan_id=plan_id,
            idempotency_key=key,
        )
        shown = asked(made)
        self.response.headers["Location"] = shown.url
        return shown


def the_runner(service: Service, response: Response, key: IdempotencyKey = None) -> Runner:
    return Runner(service, response, key)


ToRunner = Annotated[Runner, Depends(the_runner)]


def asked(request: LedgerRequest) -> Asked:
    """A request of the ledger as the API shows it."""
    document = {
        "request_id": request.request_id,
        "kind": str(request.kind),
        "job": request.job,
        "status": str(request.status),
        "created_at": request.created_at,
        "finished_at": request.finished_at,
        "operator": request.actor.operator,
        "run_id": request.run_id,
        "plan_id": request.plan_id,
        "result": request.result,
        "error": request.error,
        "arguments": {name: value for name, value in request.arguments.items() if name != "plan"},
        "cancel_asked_by": request.cancel_asked_by,
        "worker": request.claimed_by,
        "url": f"/api/v1/requests/{request.request_id}",
    }
    return Asked(**told(document))
