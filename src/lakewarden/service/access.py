"""Who asks: by a bearer token, by the session of a browser, or nobody. And what they may do.

Routes take `Viewer`, `Operator` or `Approver` as a parameter:

    @router.post("/plans")
    def plan(user: Operator, service: Asked) -> …
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, cast

from fastapi import Depends, Request
from fastapi.concurrency import run_in_threadpool

from lakewarden.model.actor import Actor
from lakewarden.model.errors import ForbiddenError, UnauthorizedError
from lakewarden.model.service import Role
from lakewarden.service.edge import READS
from lakewarden.service.service import Service

COOKIE = "lakewarden_session"
CSRF_FIELD, CSRF_HEADER = "csrf", "x-csrf-token"
ANONYMOUS = "anonymous"


@dataclass(frozen=True, slots=True)
class User:
    """Who asks. `csrf` is set for a browser's session, and goes into every form as the hidden field `csrf`."""

    name: str
    role: Role
    csrf: str = ""
    anonymous: bool = False

    def may(self, role: Role | str) -> bool:
        """Whether this user has a role, for pages that show a button or not."""
        return not self.anonymous and self.role.allows(Role(role)) if role != Role.VIEWER else True

    def actor(self, service: Service, ticket: str | None = None) -> Actor:
        return service.actor(self.name, ticket)


def the_service(request: Request) -> Service:
    """The service that this application serves."""
    return cast(Service, request.app.state.service)


Asked = Annotated[Service, Depends(the_service)]


async def current_user(request: Request) -> User | None:
    """Whoever asks, or None. Raises UnauthorizedError for a token that does not count, and asks nobody twice."""
    if not hasattr(request.state, "user"):
        request.state.user = await run_in_threadpool(_user_of, request)
    return cast("User | None", request.state.user)


def _user_of(request: Request) -> User | None:
    service = the_service(request)
    if (header := request.headers.get("authorization")) is not None:
        scheme, _, value = header.partition(" ")
        token = service.ledger.tokens.check(value.strip()) if scheme.lower() == "bearer" else None
        if token is None:
            raise UnauthorizedError("the token in the Authorization header does not count; nothing was done")
        return User(token.name, token.role)
    if cookie := request.cookies.get(COOKIE):
        session = service.ledger.tokens.session(cookie)
        if session is not None:
            return User(session.token.name, session.token.role, session.csrf)
    if service.anonymous_read:
        return User(ANONYMOUS, Role.VIEWER, anonymous=True)
    return None


def may_still_look(request: Request) -> bool:
    """Whether whoever asked may look now too: an answer may last for hours, and a token or a session end before it."""
    try:
        return _user_of(request) is not None
    except UnauthorizedError:
        return False


MaybeUser = Annotated[User | None, Depends(current_user)]


def _needs(role: Role) -> Callable[..., Awaitable[User]]:
    async def allowed(request: Request, user: MaybeUser) -> User:
        writes = request.method not in READS
        if user is None or (user.anonymous and (writes or role is not Role.VIEWER)):
            raise UnauthorizedError(f"this needs a token with the role {role}; nothing was done")
        if not user.role.allows(role):
            raise ForbiddenError(f"this needs the role {role}, and {user.name} has {user.role}; nothing was done")
        if writes and user.csrf:
            await check_csrf(request, user.csrf)
        return user

    return allowed


async def check_csrf(request: Request, wanted: str) -> None:
    """Raise ForbiddenError unless a change by a browser's session comes from a page of ours."""
    said = request.headers.get(CSRF_HEADER)
    if said is None and "form" in request.headers.get("content-type", ""):
        said = str((await request.form()).get(CSRF_FIELD, ""))
    if said is None or not hmac.compare_digest(said.encode(), wanted.encode()):
        raise ForbiddenError(
            "this did not come from a page of this session; nothing was done",
            hint="Load the page again, and send its form once more.",
        )


viewer, operator, approver = _needs(Role.VIEWER), _needs(Role.OPERATOR), _needs(Role.APPROVER)
Viewer = Annotated[User, Depends(viewer)]
Operator = Annotated[User, Depends(operator)]
Approver = Annotated[User, Depends(approver)]
