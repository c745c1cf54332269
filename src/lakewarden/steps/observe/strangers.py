"""Metadata files that no table names: another table's, or another history's, make a root unknown."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from lakewarden.model.errors import Refusal, UnreadableMetadataError
from lakewarden.model.table import TableState
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.spark.work import Starting
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.in_spark import in_spark

FOREIGN, FORK, RIVAL, NAMELESS, UNREADABLE = "foreign", "fork", "rival", "nameless", "unreadable"


def refused_roots(found: Sequence[Mapping[str, Any]]) -> dict[int, Refusal]:
    """The roots, by number, in which another table or another history of one was found."""
    return {int(row["root_id"]): _refusal(row) for row in found if row["standing"] in (FOREIGN, FORK, UNREADABLE)}


def strangers_in(
    deployment: Deployment,
    session: Starting,
    parts: Sequence[str],
    states: Sequence[TableState],
    since: datetime,
) -> list[dict[str, Any]]:
    """What is worth knowing of the metadata files among a plan's rows that no table names."""
    from lakewarden.pipeline.read import strangers
    from lakewarden.pipeline.read.frames import stored

    seen_since = {row.uuid: row.at for row in deployment.ledger.known_tables.memory().rows}
    given_up = deployment.ledger.switches.abandoned()
    abandoned = {uuid for uuid, when in given_up.items() if uuid not in seen_since or seen_since[uuid] <= when}
    recognisers = {fmt: reader.recogniser(states, since, abandoned) for fmt, reader in deployment.readers.items()}
    formats = {state.identifier: state.format for state in states}
    recognise = partial(strangers.recognise, recognisers, formats, deployment.stores)

    def look() -> list[dict[str, Any]]:
        rows = stored(session.result(), parts, c.PLAN_ROWS, deployment.stores)
        found = strangers.findings(strangers.unknown_metadata(rows), recognise)
        # The state that was current at the cut-off, where the log has dropped it already.
        return [
            row | (recognise(row["uri"], row["table"], whole=True) or {}) if "rank" in row else row for row in found
        ]

    return in_spark(look)


def _refusal(row: Mapping[str, Any]) -> Refusal:
    if row["standing"] == UNREADABLE:
        reason = f"{row['uri']} cannot be read ({row['why']}), so it may be another table's; nothing under this root is touched"
        return UnreadableMetadataError(reason).refusal()
    if row["standing"] == FOREIGN:
        return Refusal(
            "LW-ROOT-002",
            f"{row['uri']} belongs to table {row['uuid']}, which no configured catalog knows; nothing under this root is touched",
            "Add the catalog that knows it, or, if that table is gone for good: lakewarden abandon "
            f"{shlex.quote(str(row['uuid']))}",
        )
    return Refusal(
        "LW-ROOT-003",
        f"{row['uri']} continues another history of table {row['uuid']}; nothing under this root is touched",
        "Another catalog commits to the same table. Add that catalog, or drop one of the two registrations.",
    )
