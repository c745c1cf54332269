"""`POST /api/v1/maintenance`: one address for every job, as platforms and schedulers call it."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field, model_validator

from lakewarden.jobs.registry import job_named
from lakewarden.model.service import RequestKind
from lakewarden.service.access import Operator
from lakewarden.service.api import shapes
from lakewarden.service.api.asks import ToRunner
from lakewarden.service.api.shapes import ERRORS, Glob, Word

router = APIRouter(prefix="/api/v1", tags=["maintenance"], responses=ERRORS)
# Names by which other systems know these jobs.
ALIASES = {"cleanup_orphan_files": "orphan-cleanup", "cleanup_stale_branches": "stale-branches"}
_SPECIAL = frozenset("*?[")


class Maintenance(BaseModel):
    """What is to be done: a job, and the tables that it may change. What is protected is always everything."""

    model_config = ConfigDict(extra="forbid")

    job_type: Word = Field(description="A job, or `cleanup_orphan_files`, `cleanup_stale_branches`.")
    catalog: Word | None = Field(default=None, description="Only tables of this catalog.")
    tenant: Word | None = Field(default=None, description="Only tables whose first namespace this is.")
    select: list[Glob] = Field(
        default_factory=list, max_length=1000, description="Only tables that match one of these."
    )
    exclude: list[Glob] = Field(default_factory=list, max_length=1000)
    dry_run: bool | None = Field(
        default=None,
        description="True: plan, and change nothing. Otherwise each table's own policy says; false lifts no `dry_run`.",
    )

    @model_validator(mode="after")
    def _one_way_to_narrow(self) -> Maintenance:
        if self.select and (self.catalog or self.tenant):
            raise ValueError("select goes without catalog and tenant: write it as catalog.tenant.*")
        return self

    @property
    def narrowed(self) -> list[str]:
        """The patterns that the job's tables are selected by; none: all."""
        if not (self.catalog or self.tenant):
            return self.select
        return [f"{_plain(self.catalog) if self.catalog else '*'}.{_plain(self.tenant) + '.' if self.tenant else ''}*"]


@router.post("/maintenance", status_code=202)
def maintain(user: Operator, runner: ToRunner, body: Maintenance) -> shapes.Asked:
    """Ask a runner for one job. The answer's `request_id` follows it; `run_id` and `plan_id` are there when they are known."""
    job = str(job_named(ALIASES.get(body.job_type, body.job_type)).name)
    kind = RequestKind.PLAN if body.dry_run else RequestKind.RUN
    given = (("select", body.narrowed), ("exclude", body.exclude))
    return runner.ask(user, kind, job=job, arguments={name: value for name, value in given if value})


def _plain(name: str) -> str:
    """A name as a pattern that matches nothing else."""
    return "".join(f"[{letter}]" if letter in _SPECIAL else letter for letter in name)
