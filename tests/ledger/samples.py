"""Small values that the ledger's tests share."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from lakewarden.ledger.database import Ledger
from lakewarden.model.actor import Actor, Trigger
from lakewarden.model.plan import Plan, TablePlan
from lakewarden.model.ports import FileOutcome, JournalFile

ACTOR = Actor("ada", "host-1", Trigger.INCIDENT_RESPONSE, "OPS-7")
NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def files(count: int, batch: int = 0) -> list[JournalFile]:
    return [
        JournalFile(
            f"s3://lake/wh/prod/orders/data/day=2026-02-{i % 28:02}/{batch:05}-{i:05}-8c1f0a52-ünï.parquet",
            1000 + i,
            NOON - timedelta(days=9, microseconds=i) if i % 3 else None,
            f'"{i:032x}"' if i % 2 else None,
            "prod.orders",
            "data",
        )
        for i in range(count)
    ]


def outcomes(batch: list[JournalFile], outcome: str = "deleted") -> list[FileOutcome]:
    return [FileOutcome(file.uri, outcome) for file in batch]


def plan(job: str = "orphan-cleanup", made: datetime = NOON) -> Plan:
    table = TablePlan("prod.orders", "u-1", "iceberg", "s3://lake/m.json")
    day = timedelta(days=1)
    return Plan(job, made, made + day, made - 7 * day, ACTOR, (table,), (), ()).sealed()


def started(ledger: Ledger, run_id: str = "run-1", plan_id: str | None = "plan-1") -> str:
    ledger.runs.start(run_id, "orphan-cleanup", plan_id, ACTOR)
    return run_id
