"""Errors as answers: JSON under /api, a page elsewhere; never a traceback, and nothing secret."""

from __future__ import annotations

from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException

from lakewarden import logs
from lakewarden.model import errors
from lakewarden.model.errors import Exit, LakewardenError
from lakewarden.model.redaction import redact

_log = logs.logger(__name__)
_BY_CLASS: tuple[tuple[type[LakewardenError], HTTPStatus], ...] = (
    (errors.UnauthorizedError, HTTPStatus.UNAUTHORIZED),
    (errors.ForbiddenError, HTTPStatus.FORBIDDEN),
    (errors.IdempotencyError, HTTPStatus.CONFLICT),
    (errors.ApprovalError, HTTPStatus.CONFLICT),
    (errors.TooLargeError, HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
    (errors.TooBusyError, HTTPStatus.TOO_MANY_REQUESTS),
    (errors.StateError, HTTPStatus.SERVICE_UNAVAILABLE),
    (errors.StoreUnavailableError, HTTPStatus.SERVICE_UNAVAILABLE),
    (errors.CatalogUnavailableError, HTTPStatus.SERVICE_UNAVAILABLE),
)
FOR_PROGRAMS = ("/metrics", "/livez", "/readyz")
TAKES = "/api/openapi.json says what each route takes."
_BY_EXIT = {
    Exit.USAGE: HTTPStatus.BAD_REQUEST,
    Exit.NOT_FOUND: HTTPStatus.NOT_FOUND,
    Exit.LEASE_HELD: HTTPStatus.CONFLICT,
    Exit.STALE: HTTPStatus.CONFLICT,
    Exit.REFUSED: HTTPStatus.CONFLICT,
    Exit.PARTIAL: HTTPStatus.CONFLICT,
}


@dataclass(frozen=True, slots=True)
class Problem:
    """What went wrong, as it is shown."""

    status: int
    code: str
    message: str
    hint: str
    request_id: str
    more: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "docs": f"/errors/{self.code}",
            "request_id": self.request_id,
            **self.more,
        }


def status_of(error: LakewardenError) -> HTTPStatus:
    """The HTTP status that an error is answered with."""
    of_class = next((status for kind, status in _BY_CLASS if isinstance(error, kind)), None)
    return of_class or _BY_EXIT.get(error.exit_code, HTTPStatus.INTERNAL_SERVER_ERROR)


def answer_problems(app: FastAPI) -> None:
    """Let an application answer every error in words."""

    @app.exception_handler(LakewardenError)
    async def ours(request: Request, error: LakewardenError) -> Response:
        return answer(request, problem_of(request, error))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        # What was sent is not sent back: it may hold a secret.
        found = [{"place": ".".join(map(str, one["loc"])), "message": one["msg"]} for one in error.errors()]
        words = "; ".join(f"{one['place']}: {one['message']}" for one in found)
        problem = _problem(
            request,
            HTTPStatus.UNPROCESSABLE_ENTITY,
            errors.ArgumentError.code,
            f"the request cannot be read: {words}; nothing was done",
            TAKES,
        )
        problem.more["errors"] = redact(found)
        return answer(request, problem)

    @app.exception_handler(HTTPException)
    async def theirs(request: Request, error: HTTPException) -> Response:
        if isinstance(error.__cause__, LakewardenError):
            return answer(request, problem_of(request, error.__cause__))
        code = errors.NotFoundError.code if error.status_code == HTTPStatus.NOT_FOUND else errors.UsageError.code
        hint = "/ is the first page; /api/v1 is the API." if error.status_code == HTTPStatus.NOT_FOUND else TAKES
        found = answer(
            request, _problem(request, error.status_code, code, f"{error.detail}: {request.scope['path']}", hint)
        )
        found.headers.update(error.headers or {})
        return found


def unexpected(request: Request, error: Exception) -> Response:
    """The answer to what nobody foresaw: what it is stays in the log."""
    _log.error(
        "unexpected",
        request=getattr(request.state, "request_id", ""),
        error=f"{type(error).__name__}: {error}",
        path=request.scope["path"],
    )
    words = f"unexpected {type(error).__name__}"
    hint = "The log of the service says more under this request's id."
    return answer(request, _problem(request, HTTPStatus.INTERNAL_SERVER_ERROR, LakewardenError.code, words, hint))


def problem_of(request: Request, error: LakewardenError) -> Problem:
    """An error of ours, as it is shown."""
    return _problem(request, status_of(error), error.code, error.message, error.hint)


def _problem(request: Request, status: int, code: str, message: str, hint: str) -> Problem:
    request_id = getattr(request.state, "request_id", "")
    return Problem(int(status), code, str(redact(message)), str(redact(hint)), request_id)


def answer(request: Request, problem: Problem) -> Response:
    """JSON for programs, a page for people; whoever looks at a page without a name is asked for one."""
    # As it was asked for: `request.url` is made with the Host header, which may be anything.
    path = request.scope["path"]
    if path.startswith("/api") or path in FOR_PROGRAMS:
        headers = {"WWW-Authenticate": "Bearer"} if problem.status == HTTPStatus.UNAUTHORIZED else {}
        return JSONResponse(problem.as_json(), problem.status, headers)
    if problem.status == HTTPStatus.UNAUTHORIZED and "hx-request" in request.headers:
        # A part of a page: the login would stand within it. The browser loads the page again, and is asked there.
        return Response(status_code=problem.status, headers={"HX-Refresh": "true"})
    if problem.status == HTTPStatus.UNAUTHORIZED and request.method == "GET":
        return RedirectResponse(f"/login?next={quote(path)}", HTTPStatus.SEE_OTHER)
    shown: Response = request.app.state.error_page(request, problem)
    return shown
