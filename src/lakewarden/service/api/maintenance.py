"""`POST /api/v1/maintenance`: one address for every job, as platforms and schedulers call it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from lakewarden.jobs.registry import job_named
from lakewarden.model.errors import NotFoundError
from lakewarden.model.service import RequestKind
from lakewarden.model.table import identifier_of
from lakewarden.service.access import Asked, Operator
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
    tenant: Word | None = Field(
        default=None,
        description="Only this tenant's tables: by `[service.tenants]` if it is named there, else by their first namespace.",
    )
    select: list[Glob] = Field(
        default_factory=list,
        max_length=1000,
        description="Only tables that match one of these, of the catalog and the tenant where those are named too.",
    )
    exclude: list[Glob] = Field(default_factory=list, max_length=1000)
    dry_run: bool | None = Field(
        default=None,
        description="True: plan, and change nothing. Otherwise each table's own policy says; false lifts no `dry_run`.",
    )

    def narrowed(self, catalogs: Iterable[str], tenants: Mapping[str, str]) -> dict[str, list[str]]:
        """The patterns that the job's tables are selected by, none: all; and those that leave tables out.

        `within` are those of the catalog and the tenant, where `select` says more.
        """
        place: list[str] = []
        others: list[str] = []
        if self.tenant is not None:
            named = [self.catalog] if self.catalog else sorted(catalogs)
            place, others = of_tenant(self.tenant, named, tenants)
        elif self.catalog:
            place = [f"{_plain(identifier_of(self.catalog, []))}.*"]
        exclude = [*self.exclude, *others]
        if self.select and place:
            return {"select": self.select, "exclude": exclude, "within": place}
        return {"select": place or self.select, "exclude": exclude}


@router.post("/maintenance", status_code=202)
def maintain(user: Operator, service: Asked, runner: ToRunner, body: Maintenance) -> shapes.Asked:
    """Ask a runner for one job. The answer's `request_id` follows it; `run_id` and `plan_id` are there when they are known."""
    job = str(job_named(ALIASES.get(body.job_type, body.job_type)).name)
    kind = RequestKind.PLAN if body.dry_run else RequestKind.RUN
    if body.tenant is not None and not (body.catalog or service.settings.catalogs):
        raise NotFoundError(f"no catalog is configured, so there is no tenant {body.tenant}; nothing was asked for")
    given = body.narrowed(service.settings.catalogs, service.section.tenants)
    return runner.ask(user, kind, job=job, arguments={name: value for name, value in given.items() if value})


def of_tenant(tenant: str, catalogs: Sequence[str], tenants: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """The patterns of a tenant's tables in some catalogs, and of tables among them that are others'; in doubt, others'.

    By the patterns of `[service.tenants]`, of which the first that matches counts, where one names the tenant; else by the
    first namespace, as far as no pattern says otherwise. A star stands for any number of parts of a name: `*.acme.*` would
    be tables of others, such as lake.umbrella.acme.t.
    """
    known = list(tenants.items())
    within = tuple(f"{identifier_of(catalog, [])}." for catalog in catalogs)
    mine = [place for place, (pattern, name) in enumerate(known) if name == tenant and pattern.startswith(within)]
    select = [known[place][0] for place in mine]
    earlier = known[: mine[-1]] if mine else known
    select = select or [f"{_plain(identifier_of(catalog, [tenant]))}.*" for catalog in catalogs]
    return select, [pattern for pattern, name in earlier if name != tenant]


def _plain(name: str) -> str:
    """A name as a pattern that matches nothing else."""
    return "".join(f"[{letter}]" if letter in _SPECIAL else letter for letter in name)
