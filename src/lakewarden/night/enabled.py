"""Which tables a night may change, and which jobs are enabled for them."""

from __future__ import annotations

from collections.abc import Iterable

from lakewarden.jobs.registry import JOBS
from lakewarden.model.errors import NotFoundError
from lakewarden.model.table import TableState
from lakewarden.night.one_job import Asked
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.job import JobSpec
from lakewarden.steps.observe.fleet import load_states, pointers_of, selection


def selected_states(deployment: Deployment, asked: Asked) -> tuple[TableState, ...]:
    """The selected tables as they are now. Raises NotFoundError if the selection leaves none."""
    found = pointers_of(deployment.formats.values())
    states = load_states(found.values(), deployment.clock.now())
    wanted = selection(asked.select, asked.exclude)
    chosen = tuple(state for state in states if wanted(state.identifier))
    if not chosen and (asked.select or asked.exclude):
        what = ", ".join(asked.select) or "what --exclude leaves"
        raise NotFoundError(f"no table matches {what}; nothing was planned")
    return chosen


def enabled_jobs(deployment: Deployment, states: Iterable[TableState]) -> tuple[JobSpec, ...]:
    """The jobs that are enabled for at least one of these tables, in the order of a day."""
    tables = tuple(states)
    return tuple(spec for spec in JOBS.values() if any(says(deployment, spec, state, "enabled") for state in tables))


def says(deployment: Deployment, spec: JobSpec, state: TableState, key: str) -> bool:
    """What a table's policy says of a job: `enabled`, or `dry_run`."""
    found = deployment.policy_for(spec.name, state.identifier, state.properties, uuid=state.uuid, unsafe_short_grace=())
    return bool(found.values[key])
