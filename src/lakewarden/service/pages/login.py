"""Logging in with a token, and out again."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from lakewarden.ledger.tokens import SESSION_LASTS
from lakewarden.service.access import COOKIE, Asked, MaybeUser, check_csrf
from lakewarden.service.html.page import Said, assets, inside, render
from lakewarden.service.service import Service

router = APIRouter(include_in_schema=False)


@router.get("/login")
def form(service: Asked, next: str = "/") -> Response:
    return _form(service, next)


@router.post("/login")
def log_in(request: Request, service: Asked, token: Said, next: Said = "/") -> Response:
    found = service.ledger.tokens.check(token.strip())
    if found is None:
        return _form(service, next, "This token does not count.", HTTPStatus.UNAUTHORIZED)
    if before := request.cookies.get(COOKIE):
        service.ledger.tokens.close_session(before)  # the browser forgets it, and nobody else may keep it
    value, _ = service.ledger.tokens.open_session(found)
    answer = RedirectResponse(inside(next), HTTPStatus.SEE_OTHER)
    answer.set_cookie(
        COOKIE,
        value,
        max_age=int(SESSION_LASTS.total_seconds()),
        httponly=True,
        samesite="strict",
        # Behind a proxy that ends TLS the browser has come by it all the same.
        secure=service.section.tls or request.headers.get("x-forwarded-proto", "") == "https",
    )
    return answer


@router.post("/logout")
async def log_out(request: Request, service: Asked, user: MaybeUser) -> Response:
    if user is not None and user.csrf:
        await check_csrf(request, user.csrf)
        service.ledger.tokens.close_session(request.cookies[COOKIE])
    answer = RedirectResponse("/login", HTTPStatus.SEE_OTHER)
    answer.delete_cookie(COOKIE)
    return answer


def _form(service: Service, next: str, complaint: str = "", status: int = HTTPStatus.OK) -> Response:
    content = {
        "heading": "Log in",
        "next": inside(next),
        "complaint": complaint,
        "anonymous": service.anonymous_read,
        "assets": assets(),
    }
    return HTMLResponse(render("login.html", content), int(status))
