"""A night by one command, beside the same jobs by a command each: whole processes, from their start to their end."""

from __future__ import annotations

from bench.bench import LAKEWARDEN, Bench, command
from bench.lakes import local_lake
from bench.measure import Figures, Row, Sample, load, timed
from bench.ours import Deployment
from lakewarden.jobs.registry import JOBS

MOST_OF_SINGLE = 0.5
# The jobs plan and leave the lake as it is, so that both sides find the same one however often they are repeated.
# There is something to expire, as there is every night.
MORE = {"snapshot_expiry": "retain_hours = 0\nretain_min = 1\n"}
SECTIONS = "enabled = true\n\n" + "\n".join(
    f"[{spec.section}]\nenabled = true\n{MORE.get(spec.section, '')}"
    for spec in JOBS.values()
    if spec.section != "orphan_cleanup"
)


def night(bench: Bench) -> list[Row]:
    lake = local_lake(bench.scratch, "fleet100", bench.shrink)
    deployment = Deployment.fresh(lake, bench.scratch, SECTIONS)
    config = ("--config", deployment.config, "--output", "json")
    began, nights, singles = load(), [], []
    command(LAKEWARDEN, "run", "all", *config)  # the cache of manifests is filled for both
    for _ in range(bench.repeat):
        nights.append(timed(lambda: command(LAKEWARDEN, "run", "all", *config)))
        each = {str(job): timed(lambda job=job: command(LAKEWARDEN, "run", job, *config)).seconds for job in JOBS}
        singles.append(Sample(sum(each.values()), each))
    deployment.discard()
    ours, others = Figures.of(nights), Figures.of(singles)
    work = f"`run all`, {len(JOBS)} jobs over {lake.shape.tables} tables, against a command for each job"
    ratio = ours.value / others.value
    note = "whole processes; every job plans and changes nothing"
    return [Row("night", work, ours, others, ratio, MOST_OF_SINGLE, (began, load()), at_most=True, note=note)]
