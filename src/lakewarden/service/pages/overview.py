"""The first page: what can be reclaimed, what needs somebody, what happens now and next."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from lakewarden.service.access import Asked, Viewer
from lakewarden.service.html.overview import overview
from lakewarden.service.html.page import page
from lakewarden.service.html.runs import title_of

router = APIRouter(include_in_schema=False)


@router.get("/")
def show(request: Request, service: Asked, user: Viewer) -> Response:
    content = {"heading": "Overview", "title_of": title_of, **overview(service)}
    return page(request, service, user, "overview.html", content, here="/")
