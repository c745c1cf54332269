"""A night of Lakewarden as a Dagster job: one command, run as a process, its JSON in the run's metadata.

Dagster reads the type of `context`, so `from __future__ import annotations` must not be here.
"""

import json
import subprocess

import dagster as dg

NIGHT = [
    "/opt/lakewarden/bin/lakewarden",
    "run",
    "all",
    "--config",
    "/etc/lakewarden/lakewarden.toml",
    "--trigger",
    "schedule",
    "--operator",
    "dagster",
    "--output",
    "json",
]
# Some files failed, or another worker held a lease: a later try goes on where this one stopped.
WORTH_ANOTHER_TRY = (3, 11)


@dg.op
def lakewarden_night(context: dg.OpExecutionContext) -> None:
    done = subprocess.run([*NIGHT, "--ticket", context.run_id], stdout=subprocess.PIPE, text=True, check=False)
    if done.stdout:
        context.add_output_metadata({"result": dg.MetadataValue.json(json.loads(done.stdout))})
    if done.returncode in WORTH_ANOTHER_TRY:
        raise dg.RetryRequested(max_retries=2, seconds_to_wait=600)
    if done.returncode:
        raise dg.Failure(f"lakewarden ended with {done.returncode}")


@dg.job
def lakewarden() -> None:
    lakewarden_night()


defs = dg.Definitions(
    jobs=[lakewarden],
    schedules=[dg.ScheduleDefinition(job=lakewarden, cron_schedule="0 2 * * *", execution_timezone="UTC")],
)
