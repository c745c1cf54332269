"""LW-SERVICE: what the service does not let through."""

from __future__ import annotations

from lakewarden.model.errors.base import UNCHANGED, Exit, LakewardenError


class UnauthorizedError(LakewardenError):
    """Nobody is named by the request, or by a token that does not count any more."""

    code = "LW-SERVICE-001"
    exit_code = Exit.USAGE
    hint = "Send `Authorization: Bearer TOKEN`, or log in. `lakewarden token create NAME --role viewer` makes a token."


class ForbiddenError(LakewardenError):
    """Whoever asks may not do this."""

    code = "LW-SERVICE-002"
    exit_code = Exit.USAGE
    hint = f"{UNCHANGED}Ask somebody whose token has the role, or make one: `lakewarden token create NAME --role ROLE`."


class IdempotencyError(LakewardenError):
    """The same idempotency key came with another request."""

    code = "LW-SERVICE-003"
    exit_code = Exit.USAGE
    hint = f"{UNCHANGED}Use a new Idempotency-Key for each thing that you ask for."


class ApprovalError(LakewardenError):
    """A plan on which this person cannot decide, or that needs no decision."""

    code = "LW-SERVICE-004"
    exit_code = Exit.REFUSED
    hint = f"{UNCHANGED}Another approver has to decide, or a new plan has to be made: `lakewarden plan JOB`."


class UnsafeBindError(LakewardenError):
    """The service would be reachable by others without anybody having decided how it is protected."""

    code = "LW-SERVICE-005"
    exit_code = Exit.USAGE
    hint = (
        "Make a token with `lakewarden token create NAME --role approver`, and set service.tls_certificate and "
        "service.tls_key, or service.plain_http = true where something in front of it ends TLS."
    )


class TooLargeError(LakewardenError):
    """The body of a request is longer than service.max_request_bytes."""

    code = "LW-SERVICE-006"
    exit_code = Exit.USAGE
    hint = f"{UNCHANGED}Send less at once, or raise service.max_request_bytes."


class CancelledError(LakewardenError):
    """Somebody asked for the request to be stopped, and it was."""

    code = "LW-SERVICE-007"
    hint = "What was done before is in the journal. A plan that was begun can be applied again: it goes on."


class AbandonedRequestError(LakewardenError):
    """Every runner that took the request up died over it."""

    code = "LW-SERVICE-008"
    hint = "Look at the runner's log and its memory; then ask for the same again: a run that was begun goes on."


class TooBusyError(LakewardenError):
    """More waits than anybody could work off."""

    code = "LW-SERVICE-009"
    hint = f"{UNCHANGED}See whether a runner is at work: GET /api/v1/requests. Then ask again later."
