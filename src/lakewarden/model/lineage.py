"""Lineage: what a commit says of its origin, and what a table requires its commits to say.

The keys are those that audits look for. Values are text, as in every snapshot's summary; several are joined by commas.
`operation` is the format's own word (append, overwrite, replace, delete) and never one of ours.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from lakewarden.model.actor import Trigger
from lakewarden.model.errors import LineageError

OPERATION = "operation"
WRITER, HOST, COMMIT_HASH, INVOCATION = "writer.id", "writer.host", "writer.commit_hash", "writer.invocation_id"
INPUTS, INPUT_ROWS, INPUT_BYTES = "input.snapshot_ids", "input.row_count", "input.bytes_compressed"
TRIGGER, OPERATOR, TICKET = "trigger.type", "trigger.operator", "trigger.ticket"
KEYS = (WRITER, HOST, COMMIT_HASH, INVOCATION, INPUTS, INPUT_ROWS, INPUT_BYTES, TRIGGER, OPERATOR, TICKET)
JOB, RUN, PLAN = "lakewarden.job", "lakewarden.run", "lakewarden.plan"
# Stands for the value of a key that will be there.
SOMETHING = "…"

# The words of each format for what a commit does.
ICEBERG = frozenset({"append", "overwrite", "replace", "delete"})
PAIMON = frozenset({"append", "overwrite", "compact", "analyze"})
OPERATIONS = ICEBERG | PAIMON
OPERATIONS_OF: Mapping[str, frozenset[str]] = MappingProxyType({"iceberg": ICEBERG, "paimon": PAIMON})

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
        own = [
            (name.removeprefix(f"{REQUIRED}."), _listed(value))
            for name, value in properties.items()
            if name.startswith(f"{REQUIRED}.")
        ]
        by_operation = _by_word(self.by_operation.items()) | _by_word(own)
        required = _listed(properties[REQUIRED]) if REQUIRED in properties else self.required
        allowed = _listed(properties[ALLOWED]) if ALLOWED in properties else self.allowed
        return Requirements(required, {name: keys for name, keys in by_operation.items() if keys}, allowed)


def violations(
    summary: Mapping[str, str], requirements: Requirements, operations: Collection[str] = OPERATIONS
) -> list[str]:
    """What a commit's summary lacks, in words; nothing where it is as its table wants it.

    `operations` are the words that the table's format knows, where the format is known.
    """
    operation = _word(summary.get(OPERATION))
    found = []
    if requirements.allowed and operation not in map(_word, requirements.allowed):
        allowed = ", ".join(requirements.allowed)
        found.append(f"operation {operation or 'unknown'} is not allowed (allowed: {allowed})")
    by_operation = _by_word(requirements.by_operation.items())
    # Java's readers take a snapshot without an operation for an overwrite, and any word for one: what is no word of the
    # format must have what every operation must have.
    known = operation in operations or operation in by_operation
    more = by_operation.get(operation, ()) if known else (key for keys in by_operation.values() for key in keys)
    wanted = (*requirements.required, *more)
    if requirements.anything:
        wanted += BY_TRIGGER.get(_word(summary.get(TRIGGER)), ())
    # Each once, in the order in which they are required.
    return found + [f"{key} is missing" for key in dict.fromkeys(wanted) if not _text(summary.get(key))]


def validate_lineage(summary: Mapping[str, str], requirements: Requirements) -> None:
    """Raise LineageError, which names everything that is missing, unless the summary is as the table wants it."""
    if found := violations(summary, requirements):
        raise LineageError(f"the commit is not as its table requires: {'; '.join(found)}; nothing was committed")


def _by_word(said: Iterable[tuple[str, tuple[str, ...]]]) -> dict[str, tuple[str, ...]]:
    """Keys by operation. Two spellings of one operation are one, and all that either of them requires is required."""
    found: dict[str, tuple[str, ...]] = {}
    for name, keys in said:
        found[_word(name)] = (*found.get(_word(name), ()), *keys)
    return found


def joined_ids(ids: Iterable[int]) -> str:
    return ",".join(str(one) for one in ids)


def made_of(snapshots: Iterable[int], rows: int, size: int) -> dict[str, str]:
    """What a commit was made of, under the keys of its summary."""
    return {INPUTS: joined_ids(snapshots), INPUT_ROWS: str(rows), INPUT_BYTES: str(size)}


def _text(value: object) -> str:
    # PyIceberg's summaries have an Enum for the operation.
    return "" if value is None else str(getattr(value, "value", value)).strip()


def _word(value: object) -> str:
    return _text(value).lower()


def _listed(value: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.strip() for one in value.split(",") if one.strip()))
