"""Lineage: what a commit says of its origin, and what a table requires its commits to say.

The keys are those that audits look for. Values are text, as in every snapshot's summary; several are joined by commas.
`operation` is the format's own word (append, overwrite, replace, delete) and never one of ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from lakewarden.model.actor import Trigger
from lakewarden.model.errors import LineageError

OPERATION = "operation"
WRITER, HOST, COMMIT_HASH, INVOCATION = "writer.id", "writer.host", "writer.commit_hash", "writer.invocation_id"
INPUTS, INPUT_ROWS, INPUT_BYTES = "input.snapshot_ids", "input.row_count", "input.bytes_compressed"
TRIGGER, OPERATOR, TICKET = "trigger.type", "trigger.operator", "trigger.ticket"
JOB, RUN, PLAN = "lakewarden.job", "lakewarden.run", "lakewarden.plan"
# Stands for the value of a key that will be there.
SOMETHING = "…"

# Properties of a table.
REQUIRED = "lineage.required-keys"
ALLOWED = "lineage.allowed-operations"

# What a trigger cannot be without: somebody's hand has a name, an incident has a ticket.
BY_TRIGGER: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {Trigger.MANUAL: (OPERATOR,), Trigger.INCIDENT_RESPONSE: (TICKET,)}
)


@dataclass(frozen=True, slots=True)
class Requirements:
    """What the commits of a table must say.

    `required` of every commit, `by_operation` beyond that of some; `allowed` operations, where empty means all of them.
    """

    required: tuple[str, ...] = ()
    by_operation: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    allowed: tuple[str, ...] = ()

    @property
    def anything(self) -> bool:
        return bool(self.required or self.by_operation or self.allowed)

    def under(self, properties: Mapping[str, str]) -> Requirements:
        """These, with what a table's own properties say instead; a property that is there and empty requires nothing."""
        by_operation = dict(self.by_operation)
        for name, value in properties.items():
            if name.startswith(f"{REQUIRED}."):
                by_operation[name.removeprefix(f"{REQUIRED}.")] = _listed(value)
        required = _listed(properties[REQUIRED]) if REQUIRED in properties else self.required
        allowed = _listed(properties[ALLOWED]) if ALLOWED in properties else self.allowed
        return Requirements(required, {name: keys for name, keys in by_operation.items() if keys}, allowed)


def violations(summary: Mapping[str, str], requirements: Requirements) -> list[str]:
    """What a commit's summary lacks, in words; nothing where it is as its table wants it."""
    operation = summary.get(OPERATION, "")
    found = []
    if requirements.allowed and operation not in requirements.allowed:
        allowed = ", ".join(requirements.allowed)
        found.append(f"operation {operation or 'unknown'} is not allowed (allowed: {allowed})")
    wanted = (*requirements.required, *requirements.by_operation.get(operation, ()))
    if requirements.anything:
        wanted += BY_TRIGGER.get(summary.get(TRIGGER, ""), ())
    # Each once, in the order in which they are required.
    return found + [f"{key} is missing" for key in dict.fromkeys(wanted) if not summary.get(key, "").strip()]


def validate_lineage(summary: Mapping[str, str], requirements: Requirements) -> None:
    """Raise LineageError, which names everything that is missing, unless the summary is as the table wants it."""
    if found := violations(summary, requirements):
        raise LineageError(f"the commit is not as its table requires: {'; '.join(found)}; nothing was committed")


def joined_ids(ids: Iterable[int]) -> str:
    return ",".join(str(one) for one in ids)


def made_of(snapshots: Iterable[int], rows: int, size: int) -> dict[str, str]:
    """What a commit was made of, under the keys of its summary."""
    return {INPUTS: joined_ids(snapshots), INPUT_ROWS: str(rows), INPUT_BYTES: str(size)}


def _listed(value: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.strip() for one in value.split(",") if one.strip()))
