"""LW-GATEWAY: what the gateway answers in place of the catalog behind it."""

from __future__ import annotations

from lakewarden.model.errors.base import Exit, LakewardenError


class GatewayError(LakewardenError):
    """An answer of the gateway's own, with the HTTP status that clients of a catalog act upon."""

    status = 500


class UpstreamDownError(GatewayError):
    """The catalog cannot be reached: nothing of the request was passed on."""

    code = "LW-GATEWAY-001"
    status = 503
    hint = "Start the catalog, or correct gateway.upstream; then the client may try again."


class UpstreamLostError(GatewayError):
    """The catalog took the request and did not answer: whether it did what was asked is not known."""

    code = "LW-GATEWAY-002"
    status = 502
    hint = "Look at the table before trying again: the commit may have been made."


class GatewayRequestError(GatewayError):
    """A request that cannot be judged, and is not passed on for that reason."""

    code = "LW-GATEWAY-003"
    status = 400
    hint = "Send the request as the REST catalog's specification has it."


class CommitTooLargeError(GatewayError):
    code = "LW-GATEWAY-004"
    status = 413
    hint = "Raise gateway.max_commit_bytes, or make the commit in parts."


class GatewayBusyError(GatewayError):
    """Too much is being judged at once."""

    code = "LW-GATEWAY-005"
    status = 503
    hint = "Try again, or raise gateway.max_buffered_bytes."


class SilentClientError(GatewayError):
    """A client that began a request and went silent."""

    code = "LW-GATEWAY-006"
    status = 408
    hint = "Send the request again."


class GatewayStartError(LakewardenError):
    code = "LW-GATEWAY-007"
    exit_code = Exit.FAILED
    hint = "Choose another address with --host and --port, or stop what listens there."
