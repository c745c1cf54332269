"""The page that tells of an error."""

from __future__ import annotations

from html import escape

from fastapi import Request
from fastapi.responses import HTMLResponse, Response

from lakewarden.service.problems import Problem


def error_page(request: Request, problem: Problem) -> Response:
    """What happened, what was not done, what to do next."""
    told = f"<h1>{escape(problem.code)}</h1><p>{escape(problem.message)}</p><p>{escape(problem.hint)}</p>"
    return HTMLResponse(
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(problem.code)}</title></head>'
        f'<body><main>{told}<p><a href="/">Overview</a></p></main></body></html>',
        problem.status,
    )
