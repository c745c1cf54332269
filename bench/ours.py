"""Our side: a configuration with a fresh state, and a plan in this process."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pyspark.sql import SparkSession

from bench.lakes import Lake
from bench.measure import Sample, Stopwatch
from bench.spark_jobs import job_seconds, newest_job
from lakewarden.model.actor import Actor
from lakewarden.model.clock import Clock
from lakewarden.model.run import PlanResult
from lakewarden.warden import Warden
from lakewarden.wiring import open_warden

HERE = 'master = "local[2]"'
CONFIG = """\
[worker]
id = "bench"

[state]
location = "file://{state}"

[spark]
{spark}

[catalogs.{name}]
format = "{format}"
properties = {{ {properties} }}

[orphan_cleanup]
{settings}
"""

# A bucket cannot be given old files, so on S3 every table says that a new one may be an orphan.
NO_GRACE = """
[[overrides]]
match = "*"
[overrides.orphan_cleanup]
grace_period_hours = 0
"""


class AnyLake(Protocol):
    """A lake of either format: what a configuration says of it."""

    @property
    def name(self) -> str: ...

    @property
    def format(self) -> str: ...

    @property
    def properties(self) -> dict[str, str]: ...

    @property
    def warehouse(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Deployment:
    """A state directory of its own, thrown away afterwards: no manifest of an earlier run is remembered."""

    lake: AnyLake
    base: Path
    spark: str = HERE

    @staticmethod
    def fresh(lake: AnyLake, scratch: Path, settings: str = "", spark: str = HERE) -> Deployment:
        base = scratch / "deployments" / uuid.uuid4().hex[:12]
        base.mkdir(parents=True)
        return Deployment(lake, base, spark).with_settings(settings)

    def with_settings(self, settings: str) -> Deployment:
        """The same state under other settings of the job."""
        lake = self.lake
        properties = ", ".join(f'"{key}" = "{value}"' for key, value in lake.properties.items())
        state = self.base / "state"
        text = CONFIG.format(
            state=state, spark=self.spark, name=lake.name, format=lake.format, properties=properties, settings=settings
        )
        if lake.warehouse.startswith("s3://"):
            text += NO_GRACE
        (self.base / "lakewarden.toml").write_text(text)
        return self

    @property
    def config(self) -> str:
        return str(self.base / "lakewarden.toml")

    def open(self, clock: Clock | None = None) -> Warden:
        """Opened and its database made: a warm process has that behind it."""
        warden = open_warden(self.config, clock=clock)
        warden.runs()
        return warden

    def discard(self) -> None:
        shutil.rmtree(self.base, ignore_errors=True)


def plan(
    deployment: Deployment,
    warden: Warden,
    uuids: Sequence[str] = (),
    job: str = "orphans",
    actor: Actor | None = None,
    select: Sequence[str] = (),
) -> tuple[Sample, PlanResult]:
    """One plan over the whole lake, timed by stage."""
    out = str(deployment.base / f"plan-{uuid.uuid4().hex[:8]}")
    spark = SparkSession.builder.getOrCreate()
    newest = newest_job(spark)
    watch = Stopwatch()
    result = warden.plan(job, select=select, out=out, actor=actor, unsafe_short_grace=uuids, progress=watch)
    sample = watch.sample()
    for number, took in enumerate(job_seconds(spark, newest), 1):
        sample.stages[f"(Spark job {number})"] = took
    if refused := [table for table in result.plan.tables if table.refusal]:
        raise RuntimeError(f"{len(refused)} tables were refused, such as {refused[0].identifier}: {refused[0].refusal}")
    return sample, result


def first_plan(lake: AnyLake, scratch: Path, uuids: Sequence[str] = ()) -> tuple[Sample, set[str]]:
    """A plan of a deployment that has never seen this lake; also the orphans it names."""
    deployment = Deployment.fresh(lake, scratch)
    warden = deployment.open()
    try:
        sample, result = plan(deployment, warden, uuids)
        return sample, {str(row["uri"]) for row in warden.plan_rows(result.path, "orphan")}
    finally:
        warden.close()
        deployment.discard()


def uuids_of(lake: Lake) -> list[str]:
    """What `--unsafe-short-grace` needs on S3; nothing on local disk, where files are as old as we say."""
    if not lake.warehouse.startswith("s3://"):
        return []
    return [str(lake.load(identifier).metadata.table_uuid) for identifier in lake.tables()]
