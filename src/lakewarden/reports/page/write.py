"""Writes the report page: looks at the fleet, asks for the forecast, and puts one file where it was asked for."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lakewarden.model.errors import LakewardenError, NotFoundError, Refusal
from lakewarden.model.forecast import Forecast
from lakewarden.model.policy import Job
from lakewarden.model.ports import Progress
from lakewarden.reports.forecast import forecast
from lakewarden.reports.overview import overview_of
from lakewarden.reports.page.content import content_of
from lakewarden.reports.page.render import render
from lakewarden.reports.page.runs import last_runs
from lakewarden.reports.whole_file import check_writable, write_whole
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.job import JobSpec

# What was not done where the page cannot be written.
NO_REPORT = "report was"


@dataclass(frozen=True, slots=True)
class WrittenReport:
    """Where the page is, how large it is, and how many tables it tells of."""

    path: str
    bytes: int
    tables: int

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def write_report(
    deployment: Deployment,
    out: str | os.PathLike[str],
    jobs: Mapping[Job, JobSpec],
    select: Sequence[str] = (),
    exclude: Sequence[str] = (),
    *,
    with_forecast: bool = True,
    progress: Progress | None = None,
) -> WrittenReport:
    """Write one self-contained HTML page about the fleet. Changes nothing else.

    `jobs` are those of the registry, in whose words the last runs are told. `select` and `exclude` narrow the tables that
    are shown. `with_forecast`: with what expiry would release, for which
    Spark is started; where the forecast fails, the page says why and tells the rest. Raises UsageError if the file cannot
    be written, before anything is read.
    """
    path = Path(out)
    check_writable(path, NO_REPORT, "report.html")
    report = progress or (lambda stage, done, total: None)
    report("look at the fleet", 0, 0)
    found = overview_of(deployment)
    predicted, why = _forecast(deployment, select, exclude, report) if with_forecast else (None, None)
    report("write the page", 0, 0)
    content = content_of(deployment, found, predicted, why, select, exclude)
    if (select or exclude) and not content["shown_tables"]:
        raise NotFoundError(f"no table matches {', '.join(select) or 'what --exclude leaves'}; no report was written")
    content["runs"] = last_runs(deployment, jobs, found.at)
    page = render("page.html", content).encode()
    write_whole(path, page, NO_REPORT)
    return WrittenReport(str(path), len(page), content["shown_tables"])


def _forecast(
    deployment: Deployment, select: Sequence[str], exclude: Sequence[str], progress: Progress
) -> tuple[Forecast | None, Refusal | None]:
    try:
        return forecast(deployment, select, exclude, progress), None
    except NotFoundError:
        raise
    except LakewardenError as error:
        return None, error.refusal()
