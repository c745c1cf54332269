"""Makes pages: one environment for the report's parts and the service's own, and what every page shows beside its content."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, unquote

from fastapi import Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jinja2 import ChoiceLoader, Environment, FileSystemLoader
from markupsafe import Markup

from lakewarden import __version__
from lakewarden.model.service import RequestStatus
from lakewarden.reports.page.render import TEMPLATES as REPORT
from lakewarden.reports.page.render import environment as of_report
from lakewarden.reports.page.text import plural, size
from lakewarden.service.access import User
from lakewarden.service.html import words
from lakewarden.service.html.plans import changes_words
from lakewarden.service.service import Service

Said = Annotated[str, Form(pattern=r"^[^\x00]*$")]
"""What somebody has written into a field of a form."""

HERE = Path(__file__).parent.parent
STATIC = HERE / "static"
FLASH = "lakewarden_flash"
PLACES = (
    ("Overview", "/"),
    ("Tables", "/tables"),
    ("Plans", "/plans"),
    ("Runs", "/runs"),
    ("Schedule", "/schedule"),
    ("Compaction", "/compaction"),
    ("Branches", "/branches"),
    ("Leases and workers", "/leases"),
    ("Audit", "/audit"),
)


@cache
def environment() -> Environment:
    """The report's environment, in which the service's templates come first."""
    loader = ChoiceLoader([FileSystemLoader(HERE / "templates"), FileSystemLoader(REPORT)])
    found = of_report().overlay(loader=loader)
    found.filters = {
        **found.filters,
        "relative": words.relative,
        "path_segment": lambda name: Markup(quote(str(name), safe="")),
        "plural": plural,
        "dotted": words.dotted,
        "key": words.key,
        "lasted": words.lasted,
        "size_or_dash": lambda count: size(count) if count else "–",
        "changes": changes_words,
    }
    return found


@cache
def stylesheet() -> str:
    """The one style sheet: the report's parts, then the service's own."""
    return render("style.css", {}) + (STATIC / "service.css").read_text("utf-8")


@cache
def assets() -> str:
    """Changes with the files that pages load, so that a browser may keep them for good."""
    files = (path.read_bytes() for path in sorted(STATIC.iterdir()) if path.is_file())
    return hashlib.sha256(b"".join((stylesheet().encode(), *files))).hexdigest()[:12]


def page(
    request: Request,
    service: Service,
    user: User | None,
    template: str,
    content: Mapping[str, Any],
    *,
    here: str = "",
    status: int = HTTPStatus.OK,
) -> Response:
    """A whole page. `here` is its place in the navigation."""
    flash = request.cookies.get(FLASH, "")
    text = render(template, {**around(request, service, user, here), **content, "flash": unquote(flash)})
    answer = HTMLResponse(text, int(status))
    if flash:
        answer.delete_cookie(FLASH)
    return answer


def part(request: Request, service: Service, user: User | None, template: str, content: Mapping[str, Any]) -> Response:
    """A part of a page, for a browser that has the rest."""
    return HTMLResponse(render(template, {**around(request, service, user, ""), **content}))


def render(template: str, content: Mapping[str, Any]) -> str:
    return environment().get_template(template).render(content)


def around(request: Request, service: Service, user: User | None, here: str) -> dict[str, Any]:
    """What every page shows beside its content."""
    found = service.ledger.requests.counts([RequestStatus.WAITING, RequestStatus.RUNNING])
    counts = {
        "/plans": (found[RequestStatus.WAITING], "waiting for approval"),
        "/runs": (found[RequestStatus.RUNNING], "running"),
    }
    navigation = [
        {"name": name, "href": href, "count": counts.get(href, (0, ""))[0], "words": counts.get(href, (0, ""))[1]}
        for name, href in PLACES
    ]
    known = user if user is not None and not user.anonymous else None
    return {
        "navigation": navigation,
        "here": here,
        "path": request.url.path,
        "user": known,
        "csrf_token": known.csrf if known else "",
        "can": lambda role: known is not None and known.may(role),
        "frozen": service.ledger.switches.frozen(),
        "now": service.clock.now(),
        "cost": service.settings.cost.prices,
        "version": __version__,
        "worker": service.settings.worker.id,
        "assets": assets(),
        "flash": "",
    }


def see(place: str, told: str = "") -> Response:
    """Send a browser that has sent a form to a page, which says once what was done."""
    answer = RedirectResponse(place, HTTPStatus.SEE_OTHER)
    if told:
        answer.set_cookie(FLASH, quote(told[:400]), max_age=60, httponly=True, samesite="strict")
    return answer


def inside(place: str) -> str:
    """A place of this service: nobody's form sends people elsewhere."""
    return place if place.startswith("/") and not place.startswith(("//", "/\\")) else "/"
