"""Jars that jobs need can only be given to Spark as it starts, so those of all jobs are asked for before the first one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lakewarden.model.table import TableState
from lakewarden.night.enabled import says
from lakewarden.settings import Settings
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.job import JobSpec


def may_need_jars(settings: Settings, specs: Iterable[JobSpec]) -> bool:
    """Whether any of these jobs may change a table with the help of jars. A table cannot undo its section's `dry_run`."""
    return any(spec.packages(("",)) and not settings.job(spec.name).dry_run for spec in specs)


def start_with_jars(
    deployment: Deployment, specs: Iterable[JobSpec], states: Sequence[TableState], *, enabled_only: bool
) -> None:
    """Start Spark with the jars that these jobs need to change these tables; leave it alone if they need none."""
    if found := jars_for(deployment, specs, states, enabled_only=enabled_only):
        # Where they cannot be fetched, the other jobs start Spark without them, and only the job that needs them fails.
        deployment.warm_spark(found)


def jars_for(
    deployment: Deployment, specs: Iterable[JobSpec], states: Sequence[TableState], *, enabled_only: bool
) -> tuple[str, ...]:
    """The jars that these jobs need to change those of the tables that their policies let them change."""
    found: dict[str, None] = {}
    for spec in specs:
        changing = [
            state.metadata_location
            for state in states
            if (not enabled_only or says(deployment, spec, state, "enabled"))
            and not says(deployment, spec, state, "dry_run")
        ]
        found |= dict.fromkeys(spec.packages(changing) if changing else ())
    return tuple(found)
