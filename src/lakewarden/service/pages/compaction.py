"""Compaction by gain and cost: what the newest plan would rewrite, best first."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from lakewarden.service.access import Asked, Viewer
from lakewarden.service.html.compaction import compaction_content
from lakewarden.service.html.page import page

router = APIRouter(include_in_schema=False)


@router.get("/compaction")
def show(request: Request, service: Asked, user: Viewer) -> Response:
    content = {"heading": "Compaction", **compaction_content(service)}
    return page(request, service, user, "compaction.html", content, here="/compaction")
