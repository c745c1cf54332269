"""`/metrics`: what was counted, for Prometheus."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST

from lakewarden.service.access import Asked, Viewer

router = APIRouter(include_in_schema=False)


@router.get("/metrics")
def metrics(user: Viewer, service: Asked) -> PlainTextResponse:
    """The metrics of the whole deployment: every worker's, commands too."""
    return PlainTextResponse(service.warden.metrics(), media_type=CONTENT_TYPE_LATEST)
