"""Logging in with a token, and out again."""

from __future__ import annotations

from html import escape
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from lakewarden.ledger.tokens import SESSION_LASTS
from lakewarden.service.access import COOKIE, Asked, MaybeUser, check_csrf

router = APIRouter(include_in_schema=False)


@router.get("/login")
def form(next: str = "/") -> Response:
    return _form(next)


@router.post("/login")
def log_in(service: Asked, token: Annotated[str, Form()], next: Annotated[str, Form()] = "/") -> Response:
    found = service.ledger.tokens.check(token.strip())
    if found is None:
        return _form(next, "This token does not count.", HTTPStatus.UNAUTHORIZED)
    value, _ = service.ledger.tokens.open_session(found)
    answer = RedirectResponse(_inside(next), HTTPStatus.SEE_OTHER)
    answer.set_cookie(
        COOKIE,
        value,
        max_age=int(SESSION_LASTS.total_seconds()),
        httponly=True,
        samesite="strict",
        secure=service.section.tls,
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


def _inside(place: str) -> str:
    """A place of this service: whoever made the link to the form must not send people elsewhere."""
    return place if place.startswith("/") and not place.startswith(("//", "/\\")) else "/"


def _form(next: str, complaint: str = "", status: int = HTTPStatus.OK) -> Response:
    said = f'<p role="alert">{escape(complaint)}</p>' if complaint else ""
    return HTMLResponse(
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Log in</title></head><body><main>'
        f'<h1>Log in</h1>{said}<form method="post" action="/login">'
        f'<input type="hidden" name="next" value="{escape(_inside(next))}">'
        '<label>Token <input type="password" name="token" autocomplete="off" required></label>'
        "<button>Log in</button></form></main></body></html>",
        int(status),
    )
