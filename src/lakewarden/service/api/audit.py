"""`/api/v1/audit`: who did what to a file, and whether the journal is whole."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from lakewarden.model.service import RequestKind
from lakewarden.reports.asked_file import address_of
from lakewarden.service.access import Asked, Operator, Viewer
from lakewarden.service.api import shapes
from lakewarden.service.api.asks import ToRunner
from lakewarden.service.api.shapes import ERRORS, Id, Limit, Open, told

router = APIRouter(prefix="/api/v1/audit", tags=["audit"], responses=ERRORS)

Address = Annotated[str, Query(min_length=1, max_length=4000, pattern=r"^[^\x00]+$", description="A file's address.")]

Snapshot = Annotated[str, Query(pattern=r"^\d{1,19}$", description="A snapshot's id.")]


class Who(Open):
    uri: str
    entries: list[dict[str, Any]]


class File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    uri: Annotated[str, Field(min_length=1, max_length=4000, pattern=r"^[^\x00]+$")]


class Told(Open):
    """The answer in the shape of `lakewarden audit … --output json`."""


class Verified(Open):
    ok: bool
    runs: int
    problems: list[str]


@router.get("/who")
def who(user: Viewer, service: Asked, uri: Address) -> Who:
    """Every deletion of a file that the journal knows, and what compaction did with it."""
    return Who(uri=uri, entries=told(service.warden.audit_who(uri)))


@router.get("/origin")
def origin(user: Viewer, service: Asked, snapshot: Snapshot) -> Told:
    """What a snapshot is: its writer, the version of it, time, trigger, operator, ticket, inputs."""
    return Told(**told(service.warden.audit_origin(snapshot)))


@router.post("/origin", status_code=202)
def origin_of_file(user: Operator, runner: ToRunner, body: File) -> shapes.Asked:
    """Ask a runner which commit wrote a file: it looks at the file's store, which a viewer's question never does."""
    return runner.ask(user, RequestKind.AUDIT, arguments={"question": "origin", "uri": address_of(body.uri)})


@router.get("/downstream")
def downstream(user: Viewer, service: Asked, snapshot: Snapshot, limit: Limit = 100) -> Told:
    """Every snapshot that was made from this one, directly or not, over all tables, live and archived."""
    return Told(**told(service.warden.audit_downstream(snapshot, limit)))


@router.post("/explain", status_code=202)
def explain(user: Operator, runner: ToRunner, body: File) -> shapes.Asked:
    """Ask a runner why a file is live, kept or an orphan: it looks at the file's store and asks every catalog."""
    return runner.ask(user, RequestKind.AUDIT, arguments={"question": "explain", "uri": address_of(body.uri)})


@router.get("/verify/{run_id}")
def verify(user: Viewer, service: Asked, run_id: Id) -> Verified:
    """Whether nobody changed or cut the journal of one run."""
    return Verified(**told(service.warden.audit_verify(run_id)))


@router.post("/verify", status_code=202)
def verify_all(user: Operator, runner: ToRunner) -> shapes.Asked:
    """Ask a runner to check the journals of all runs."""
    return runner.ask(user, RequestKind.AUDIT)
