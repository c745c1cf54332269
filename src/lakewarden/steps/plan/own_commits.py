"""Tables that no commit of ours may go to: they require what none of them has, or do not allow what they do."""

from __future__ import annotations

from dataclasses import replace

from lakewarden.model import lineage as keys
from lakewarden.model.errors import LineageError
from lakewarden.model.policy import Job
from lakewarden.model.table import TableState
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.observe.fleet import Fleet

# What the commits of a job are, in the words of each format; Iceberg's where a format has none of its own.
OPERATIONS = {Job.COMPACTION: "replace", Job.MANIFEST_REWRITE: "replace", Job.PARTITION_EXPIRY: "delete"}
PAIMON = {Job.COMPACTION: "compact", Job.PARTITION_EXPIRY: "overwrite"}
# Every commit of ours has these. A ticket is whoever applies the plan to give: its lack is no reason to plan nothing.
OURS = (
    keys.WRITER, keys.HOST, keys.COMMIT_HASH, keys.INVOCATION, keys.INPUTS, keys.INPUT_ROWS, keys.INPUT_BYTES,
    keys.TRIGGER, keys.OPERATOR, keys.JOB, keys.RUN, keys.PLAN,
)  # fmt: skip


def operation_of(job: str, format_name: str) -> str:
    """What a commit of a job is to a table of a format."""
    return (PAIMON if format_name == "paimon" else {}).get(Job(job)) or OPERATIONS[Job(job)]


def as_their_tables_allow(deployment: Deployment, fleet: Fleet, job: Job) -> Fleet:
    """The fleet, less the tables whose rules of lineage no commit of this job could keep.

    Rules are about new snapshots. Expiring snapshots makes none, so it keeps any rule.
    """
    if job not in OPERATIONS:
        return fleet
    return replace(fleet, states=tuple(_allowed(deployment, state, job) for state in fleet.states))


def _allowed(deployment: Deployment, state: TableState, job: Job) -> TableState:
    rules = deployment.requirements_for(state.identifier, state.properties)
    if state.refusal is not None or not rules.anything:
        return state
    said = dict.fromkeys((*OURS, keys.TICKET), keys.SOMETHING)
    lacks = keys.violations({**said, keys.OPERATION: operation_of(job, state.format)}, rules)
    if not lacks:
        return state
    message = f"{state.identifier} requires of its commits what those of {job} do not have: {'; '.join(lacks)}"
    return state.refused(
        LineageError(
            f"{message}; nothing of it is touched",
            hint="Change lineage.required-keys or lineage.allowed-operations of the table, or [lineage] for it.",
        ).refusal()
    )
