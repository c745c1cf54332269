"""The page that tells of an error. It needs nothing but its template: it has to work where the ledger does not."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import Request
from fastapi.responses import HTMLResponse, Response

from lakewarden.service.html.error_docs import error_doc
from lakewarden.service.html.page import assets, render
from lakewarden.service.problems import Problem

TITLES = {
    HTTPStatus.NOT_FOUND: "Not found",
    HTTPStatus.FORBIDDEN: "Not allowed",
    HTTPStatus.CONFLICT: "Refused",
    HTTPStatus.SERVICE_UNAVAILABLE: "Not available",
    HTTPStatus.INTERNAL_SERVER_ERROR: "Something went wrong",
}


def error_page(request: Request, problem: Problem) -> Response:
    """What happened, what was not done, what to do next."""
    content = {
        "heading": TITLES.get(HTTPStatus(problem.status), "That did not work"),
        "problem": problem,
        "documented": error_doc(problem.code) is not None,
        "assets": assets(),
    }
    return HTMLResponse(render("problem.html", content), problem.status)
