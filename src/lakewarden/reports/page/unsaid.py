"""Snapshots that do not say who made them, as the newest plan of lineage-check found them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from lakewarden.model.policy import Job
from lakewarden.steps.deployment import Deployment

MOST_ROWS = 100
NAMED_WRITERS = 3


@dataclass(frozen=True, slots=True)
class UnsaidTable:
    """One table: how many of its snapshots break its rules, by whom most of them are, and what they lack."""

    identifier: str
    snapshots: int
    violations: int
    writers: tuple[str, ...]
    lacks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unsaid:
    """What a check found of the tables that are shown, the most violations first."""

    at: datetime
    violations: int
    tables: tuple[UnsaidTable, ...]
    left_out: int


def unsaid_of(deployment: Deployment, shown: Collection[str]) -> Unsaid | None:
    """Of the tables that are shown. None where no check is known."""
    newest = deployment.ledger.plans.list(Job.LINEAGE_CHECK, 1)
    plan = deployment.ledger.plans.header(newest[0].plan_id) if newest else None
    if plan is None:
        return None
    found = [
        UnsaidTable(
            table.identifier,
            table.detail["snapshots"],
            table.detail["violations"],
            tuple(table.detail["writers"])[:NAMED_WRITERS],
            tuple(table.detail["lacks"]),
        )
        for table in plan.tables
        if table.identifier in shown and table.refusal is None and table.detail["violations"]
    ]
    found.sort(key=lambda table: (-table.violations, table.identifier))
    total = sum(table.violations for table in found)
    return Unsaid(plan.created_at, total, tuple(found[:MOST_ROWS]), max(0, len(found) - MOST_ROWS))
