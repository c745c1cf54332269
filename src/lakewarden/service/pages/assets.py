"""What pages load: one style sheet, one script, one mark. Their addresses change with them, so browsers keep them for good."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import FileResponse, Response

from lakewarden.service.html.page import STATIC, stylesheet

router = APIRouter(include_in_schema=False)

_KEEP = {"Cache-Control": "public, max-age=31536000, immutable"}


@router.get("/static/lakewarden.css")
def style() -> Response:
    return Response(stylesheet(), media_type="text/css", headers=_KEEP)


@router.get("/static/htmx.min.js")
def script() -> Response:
    return FileResponse(STATIC / "htmx.min.js", media_type="text/javascript", headers=_KEEP)


@router.get("/static/mark.svg")
def mark() -> Response:
    return FileResponse(STATIC / "mark.svg", media_type="image/svg+xml", headers=_KEEP)
